"""Everyone who reads a bound says so and why; the scan sees each way to do it, and runs find no other."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bound_picture
import bound_readers
import pytest
from bound_readers import KINDS, OWNERS, ROOT, Reading, scan
from bound_ways import BOUND_FIELDS, READINGS, SIZES

from optimist.kernels.metadata import OptimisticMetadata
from optimist.messages.batches import OptimisticBatch
from optimist.messages.lengths import SeqLensUpperBound
from optimist.messages.plans import OptimisticPlan
from optimist.testing.setup import Setup
from optimist.testing.simulation import simulate
from optimist.testing.wishes import Wish
from optimist.testing.world import World

OPTIMISTIC: tuple[type[Any], ...] = (OptimisticPlan, OptimisticBatch, OptimisticMetadata)
PLACE = ROOT / "actors/planted.py"


@pytest.fixture(scope="module")
def readings() -> list[Reading]:
    return bound_readers.readings()


def test_every_reader_says_what_kind_it_is_and_why_that_is_safe(readings: list[Reading]) -> None:
    silent = [f"{one.where}, line {one.line}: {one.what}" for one in readings if not one.kind]
    assert silent == [], "say it above the reading: # bound, KIND: REASON"
    assert {one.kind for one in readings} <= set(KINDS)
    assert [one for one in readings if len(one.reason) < 15] == []


def test_prefill_lengths_are_called_exact_and_bounds_never_are(readings: list[Reading]) -> None:
    for one in readings:
        if one.kind == "exact on prefill rows":
            assert one.what.startswith("prefill ")
        if one.what == "rows":
            assert one.kind == "handing on"
        if one.what == "rows_with_context":
            assert one.kind in ("class test", "test")


def test_the_scan_knows_every_reading_and_every_field_of_a_bound() -> None:
    public = {name for name, _ in inspect.getmembers(SeqLensUpperBound) if name[0] != "_"}
    assert public == READINGS | {"count", "of"}
    fields = {
        name
        for kind in OPTIMISTIC
        for name, hint in typing.get_type_hints(kind).items()
        if hint is SeqLensUpperBound
    }
    assert fields == BOUND_FIELDS
    assert {"max_seq_len", "max_query_len"} <= set(typing.get_type_hints(OptimisticMetadata))
    assert {"max_blocks", "max_query_len"} <= set(typing.get_type_hints(OptimisticBatch)) & SIZES


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("batch.bound.max()", "max"),
        ("plan.decode_bound.total()", "total"),
        ("x.metadata.decode_bound.blocks(16)", "blocks"),
        ("bound.rows_with_context()", "rows_with_context"),
        ("anything.sizing_array(reader='me')", "sizing_array"),
        ("either.max()", "max"),
        ("SeqLensUpperBound.of([1]).max()", "max"),
        ("(bound if x else None).total()", "total"),
        ("metadata.max_seq_len", "max_seq_len"),
        ("x = 2 * batch.max_blocks", "max_blocks"),
        ("getattr(batch, 'max_query_len')", "max_query_len"),
        ("getattr(plan, 'decode_bound')", "decode_bound"),
        ("metadata.decode_bound.rows(0, 3)", "rows"),
        ("batch.prefill.seq_lens.exact()", "prefill exact"),
        ("metadata.prefill_lens.max()", "prefill max"),
        ("rows = batch.prefill; rows.seq_lens.exact()", "prefill exact"),
        ("typed: SeqLensUpperBound = f(); typed.total()", "total"),
        ("assert isinstance(x, SeqLensUpperBound); x.max()", "max"),
        ("(lambda: bound.max())()", "max"),
    ],
)
def test_each_way_to_read_is_seen(line: str, what: str) -> None:
    (found,) = planted(line)
    assert (found.what, found.kind) == (what, "")
    assert found.where == "actors/planted.py: Here.look"


@pytest.mark.parametrize(
    "line",
    [
        "other = batch.bound; other.max()",
        "other, two = batch.bound, 2; other.max()",
        "self.kept = batch.bound; self.kept.max()",
        "(b := batch.bound).max()",
        "read = batch.bound.max; read()",
        "read = bound.max; read()",
        "for b in (batch.bound,): b.max()",
        "[b.max() for b in (batch.bound,)]",
        "match batch:\n            case OptimisticBatch(bound=b): b.max()",
        "match metadata:\n            case OptimisticMetadata(max_seq_len=n): f(n)",
        "f = lambda b: b.max(); f(batch.bound)",
        "def made(batch): return batch.bound\n        made(batch).max()",
        "def made(batch) -> SeqLensUpperBound: ...\n        made(batch).max()",
        "a, b = batch.bound, 2\n        c = a\n        c.max()",
        "d = {'x': batch.bound}; d['x'].max()",
        "vars(batch)['bound'].max()",
        "SeqLensUpperBound.max(either)",
        "map(SeqLensUpperBound.max, bounds)",
        "batch.bound._buf",
        "anything._buf",
        "getattr(anything, '_buf')",
        "msgspec.structs.astuple(batch.bound)[0]",
        "msgspec.to_builtins(bound)",
        "copy = replace(plan.decode_bound); copy.max()",
        "operator.attrgetter('max_seq_len')(metadata)",
        "operator.attrgetter('bound.max')(batch)()",
        "operator.methodcaller('sizing_array', reader='me')(anything)",
        "ExactSeqLens(batch.bound._buf).exact()",
        "return bound",
        "f(length=batch.bound)",
        "f(*bound)",
    ],
)
def test_no_way_round_is_left_open(line: str) -> None:
    found = planted(line)
    assert found and {one.kind for one in found} == {""}


def test_numbers_of_lengths_are_looked_at_where_they_are_at_home_alone() -> None:
    source = "def peek(batch: OptimisticBatch) -> bytes:\n    return batch.bound._buf\n"
    assert scan(source, ROOT / "messages/lengths.py") == []
    assert [one.what for one in scan(source, ROOT / "messages/batches.py")] == ["_buf"]


def test_the_bound_of_one_row_is_no_way_around() -> None:
    found = planted("metadata.decode_bound.rows(0, 1).max()")
    assert [(one.what, one.kind) for one in found] == [("max", ""), ("rows", "")]


@pytest.mark.parametrize(
    "line",
    [
        "values.max()",
        "batch.seq_lens.exact()",
        "plan.decode_lens.max()",
        "f(bound=plan.decode_bound)",
        "bound.count()",
        "self.max_blocks = 3",
    ],
)
def test_what_reads_no_bound_is_left_alone(line: str) -> None:
    assert planted(line) == []


@pytest.mark.parametrize(
    "before",
    [
        "# bound, sizing: because it is so",
        "# bound, sizing: because\n        # it is so",
    ],
)
def test_what_stands_above_a_reading_is_its_reason(before: str) -> None:
    (found,) = planted(f"{before}\n        bound.max()")
    assert (found.kind, found.reason) == ("sizing", "because it is so")


def test_a_reason_may_stand_behind_the_reading_and_belongs_to_no_other() -> None:
    one, other = planted("bound.max()  # bound, class test: like this\n        bound.total()")
    assert (one.kind, one.reason) == ("class test", "like this")
    assert (other.kind, other.reason) == ("", "")


def planted(line: str) -> list[bound_readers.Reading]:
    """What the scan finds in a method with this line, which knows two bounds."""
    source = (
        "class Here:\n"
        "    def look(self, bound: SeqLensUpperBound, either: ExactSeqLens | SeqLensUpperBound):\n"
        f"        {line}\n"
    )
    return scan(source, PLACE)


class Watcher:
    """Notes who calls a reading of a bound: path and function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[str] = set()
        for name in READINGS:
            monkeypatch.setattr(SeqLensUpperBound, name, self._noting(name))

    def _noting(self, name: str) -> Any:
        reading = getattr(SeqLensUpperBound, name)

        def noted(bound: SeqLensUpperBound, *args: Any, **named: Any) -> Any:
            frame = inspect.currentframe()
            assert frame is not None and frame.f_back is not None
            code = frame.f_back.f_code
            path = Path(code.co_filename).resolve()
            if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "tests"):
                where = path.relative_to(ROOT).as_posix()
                if where not in OWNERS:
                    self.seen.add(f"{where}: {code.co_qualname}")
            return reading(bound, *args, **named)

        return noted


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    yield Watcher(monkeypatch)


def test_a_run_reads_bounds_where_the_page_says_and_nowhere_else(
    watcher: Watcher, readings: list[Reading]
) -> None:
    wishes = [Wish(prompt_ids=tuple(range(9)), max_tokens=12)] * 3
    World(0, Setup(depth=2, drafts="right", draft_tokens=3), wishes).run()
    for seed in range(8):
        simulate(seed)
    assert "actors/builder/apply.py: _optimistic" in watcher.seen
    assert watcher.seen <= {one.where for one in readings}


def test_the_picture_is_what_its_script_draws_today() -> None:
    drawn = (ROOT / "docs/length-contract.svg").read_text(encoding="utf-8")
    assert drawn == bound_picture.picture(), "run: python docs/generate.py"


def test_the_picture_tells_the_truth_about_the_gap() -> None:
    points = bound_picture.course()
    for step, point in enumerate(points):
        rejected = bound_picture.DRAFTS - bound_picture.ACCEPTED[step - 1] if step else 0
        assert point.bound - point.length == rejected >= 0
    for before, after, accepted in zip(points, points[1:], bound_picture.ACCEPTED, strict=False):
        assert after.length - before.length == 1 + accepted


EXAMPLE = ROOT / "examples/exact_consumer.py"


def shown(heading: str) -> str:
    """What the example's docstring shows behind a command, on one line."""
    text = EXAMPLE.read_text(encoding="utf-8").split('"""')[1]
    return " ".join(text.split(heading)[1].split("\n$ ")[0].split())


def test_the_example_runs_and_prints_what_it_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60
    )
    assert " ".join(done.stdout.split()) == shown("$ python examples/exact_consumer.py")


def test_the_example_is_refused_by_the_type_checker_as_it_shows() -> None:
    command = [str(Path(sys.executable).parent / "mypy"), "--strict", "--no-error-summary"]
    done = subprocess.run(
        [*command, str(EXAMPLE)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    found = re.sub(r" +\[[a-z-]+\]$", "", done.stdout, flags=re.MULTILINE)
    found = found.replace("examples/", "")
    assert " ".join(found.split()) == shown("$ mypy examples/exact_consumer.py")
