"""Comparisons with peers: what is measured in which order, what follows from it, what peers say."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from duel import child, load, plot
from duel.child import Child, PeerFailed
from duel.llamacpp import batched_figure, bench_figure
from duel.pairs import Sample, compare, summary
from duel.peers import runners
from duel.prompts import Prompts
from duel.rows import ROWS, SCHEDULER, Row, row
from duel.runner import Measured, Peer, Runner, parse_peer, rate_between
from house import table
from versus import line

DECODE = row("decode-1-int8")


class Scripted(Runner):
    """Says these figures, and writes down that it was asked."""

    figures = ("decode",)

    def __init__(self, name: str, values: list[float], log: list[str]) -> None:
        self.name = name
        self._values = iter(values)
        self._log = log

    def can(self, row: Row) -> bool:
        return row.figure in self.figures

    def measure(self, row: Row) -> Measured:
        self._log.append(self.name)
        return Measured(next(self._values), {})

    def close(self) -> None:
        """Nothing runs."""


def test_sides_take_turns_and_bandwidth_is_probed_beside_each() -> None:
    log: list[str] = []

    def probe() -> float:
        log.append("probe")
        return 50e9

    ours = Scripted("ours", [300, 330, 320], log)
    found = compare(DECODE, ours, [Scripted("them", [100, 110, 200], log)], 3, probe)
    turns = [name for name in log if name != "probe"]
    assert turns == ["them", "ours", "ours", "them", "them", "ours"]
    assert log[:6] == ["probe", "them", "probe", "probe", "ours", "probe"]
    assert found["ours"]["gb_per_s"] == [50, 50, 50]
    assert found["ratio"] == {"median": 3, "low": 1.6, "high": 3}
    assert (found["best_peer"], found["met"]) == ("them", True)


def _samples(*values: float) -> list[Sample]:
    return [Sample(value, 50.0, {}) for value in values]


def test_the_ratio_is_to_the_best_peer() -> None:
    peers = {"slow": _samples(10, 10), "fast": _samples(100, 120)}
    found = summary(DECODE, _samples(150, 150), peers)
    assert found["best_peer"] == "fast"
    assert found["ratio"]["median"] == pytest.approx(1.375)
    assert found["met"] is False


@pytest.mark.parametrize(("value", "met"), [(0.7, True), (0.9, False)])
def test_a_figure_with_a_limit_of_its_own_is_held_to_it(value: float, met: bool) -> None:
    found = summary(row("first-token"), _samples(value), {"llamacpp": _samples(0.3)})
    assert found["met"] is met
    assert found["ratio"]["median"] == pytest.approx(value / 0.3, rel=1e-3)


@pytest.mark.parametrize(("waited", "met"), [(600.0, True), (800.0, False)])
def test_a_server_is_held_to_its_first_token_too(waited: float, met: bool) -> None:
    ours = [Sample(1300.0, 50.0, {"ttft_ms": waited})]
    found = summary(row("http-32"), ours, {"vllm": [Sample(700.0, 50.0, {"ttft_ms": 1000.0})]})
    assert found["ttft_ratio"]["median"] == waited / 1000
    assert found["met"] is met


def test_a_figure_on_record_stands_in_for_a_peer() -> None:
    found = summary(row("scheduler-256-0"), _samples(0.29), {})
    assert (found["best_peer"], found["met"]) == ("on record: 2.9", True)
    assert summary(DECODE, _samples(100), {})["met"] is None


def test_where_nothing_is_asked_a_figure_is_reported() -> None:
    found = summary(row("memory-int4-processes"), _samples(400), {})
    assert (found["asked"], found["met"], found["ours"]["median"]) == (None, None, 400)
    assert line(found | {"seconds": 1.0}).count("nothing asked") == 1


def test_rows_have_names_of_their_own_and_sizes_may_be_chosen() -> None:
    names = [each.name for each in (*ROWS, *SCHEDULER)]
    assert len(set(names)) == len(names)
    assert [row(name).name for name in names] == names
    assert row("busy-processes").placement == "processes"
    chosen = row("batch-4-int4")
    assert (chosen.figure, chosen.sizes, chosen.format) == ("batch", (4,), "int4")
    with pytest.raises(PeerFailed, match=r"--row: expected one of decode-1-int8.*got 'nonsense'"):
        row("nonsense")


def test_the_page_has_every_row() -> None:
    said = {cells[0] for cells in table("docs/performance.md", "row")}
    assert said == {each.name for each in (*ROWS, *SCHEDULER)}


def test_a_peer_is_a_path_and_its_models() -> None:
    assert parse_peer("vllm=/x/python,model=/m") == Peer("vllm", "/x/python", {"": "/m"})
    peer = parse_peer("llamacpp=/bin,int8=/a,model=/b")
    assert (peer.model("int8"), peer.model("int4")) == ("/a", "/b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vllm", "expected NAME=PATH,model=MODEL, got 'vllm'"),
        ("vllm=/,models=/m", "--peer vllm: expected model=.*got 'models=/m'"),
        ("other=/,model=/", "expected one of llamacpp, .*got 'other'"),
        ("vllm=/nowhere/python,model=/", "/nowhere/python: expected a file or folder"),
    ],
)
def test_a_peer_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(PeerFailed, match=says):
        runners([text], Prompts(lambda text: []), 2, Path())


def test_what_llama_cpp_prints() -> None:
    bench = json.dumps([{"samples_ts": [181.0, 183.0], "build_commit": "abc"}])
    assert bench_figure(bench) == Measured(182.0, {"build": "abc"})
    row = {"pl": 8, "tg": 128, "t": 2.0, "speed_tg": 600.04}
    printed = f"main: loading\n{json.dumps(row)}\n"
    assert batched_figure(printed, phase=False) == Measured(512.0, {"decode_tok_per_s": 600.0})
    assert batched_figure(printed, phase=True).value == 600.04
    for wrong in ("", "[]", '[{"samples": 1}]'):
        with pytest.raises(PeerFailed, match="llama-bench: expected one JSON object"):
            bench_figure(wrong)
    with pytest.raises(PeerFailed, match="expected a JSON line, got 'no'"):
        batched_figure("no", phase=False)


def test_what_a_stream_says() -> None:
    lines = [b"5a\r\n", b'data: {"a": 1}\n', b"\n", b": hello\n", b"data: [DONE]\n", b"data: {}\n"]
    assert list(load.events(lines)) == [{"a": 1}]
    answers = [load.Answer([0.1, 0.2, 0.4], 3), load.Answer([0.3, 0.35], 3)]
    assert load.figures(2.0, answers) == {
        "tok_per_s": 3.0,
        "ttft_ms": 200.0,
        "ttft_ms_worst": 300.0,
        "gap_ms": 100.0,
    }


def test_no_prompt_begins_like_another() -> None:
    prompts = Prompts(lambda text: [ord(letter) for letter in text])
    many = [tuple(each[:16]) for each in prompts.some(32, 128) + prompts.some(32, 1024)]
    assert len(set(many)) == 64


def test_every_side_is_asked_to_say_the_same_texts_again_of_which_none_comes_twice() -> None:
    prompts = Prompts(lambda text: [ord(letter) for letter in text])
    ours, theirs = (list(islice(prompts.texts(), 200)) for _ in range(2))
    assert ours == theirs and len({tuple(each) for each in ours}) == 200


def test_a_longer_run_that_was_shorter_is_no_figure() -> None:
    assert rate_between(1.0, 3.0, 127).value == 63.5
    with pytest.raises(PeerFailed, match="expected a longer run to take longer"):
        rate_between(3.0, 3.0, 127)


GUEST = """
from guest import serve

def load(options):
    print("chatter")
    def generate(prompts, tokens):
        print("more of it")
        return tokens * len(prompts) - options["short"]
    return generate

serve(load)
"""


def _guest(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Child:
    monkeypatch.setattr(child, "GUESTS", folder)
    (folder / "small_guest.py").write_text(GUEST, encoding="utf-8")
    path = {"PYTHONPATH": str(Path(child.__file__).with_name("guests"))}
    return Child(sys.executable, "small", options, folder / "log", path)


def test_a_guest_may_print_what_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _guest(tmp_path, monkeypatch, short=0) as guest:
        answer = guest.ask([[1, 2], [3]], 5)
    assert answer["tokens"] == 10
    assert answer["seconds"] > 0
    assert guest.process.returncode == 0
    assert "chatter" in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_guest_that_says_too_little_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        _guest(tmp_path, monkeypatch, short=1) as guest,
        pytest.raises(PeerFailed, match="expected 5 tokens, got 4"),
    ):
        guest.ask([[1]], 5)
    with (
        _guest(tmp_path, monkeypatch) as guest,
        pytest.raises(PeerFailed, match="KeyError: 'short'"),
    ):
        guest.ask([[1]], 5)


def test_curves_are_read_from_results() -> None:
    side = {"median": 500.0, "gb_per_s": [50.0]}
    result = {"ours": side, "peers": {"them": {"median": 200.0, "gb_per_s": [52.0]}}}
    failed = {"row": "batch-8-bf16", "failed": "why"}
    found, speeds = plot.curves([{"row": "batch-4-int8", **result}, failed])
    assert found == {("ours", "int8"): {4: 500.0}, ("them", "int8"): {4: 200.0}}
    assert speeds == {"int8": [50.0, 52.0]}
