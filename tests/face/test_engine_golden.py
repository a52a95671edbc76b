"""The default model says through an Engine what an outside implementation says in float32."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from optimist import Engine, SamplingParams
from optimist.actors.config import Placement
from optimist.models.default import default_model

pytestmark = pytest.mark.anyio

CHOSEN = (0, 2, 3, 6, 11)
"""cases, texts and chats, whose first tokens leave no doubt in float32"""

TOKENS = 12
DOUBT = 0.02
"""margin between the two likeliest logits under which rounding may decide"""

SURE = (3, 6, 9, 12)
"""cases whose first tokens leave no doubt in bfloat16 either"""

DOUBT_BFLOAT16 = 0.25


def _cases(
    chosen: tuple[int, ...] = CHOSEN, doubt: float = DOUBT
) -> list[tuple[list[int], list[int]]]:
    path = Path(__file__).parents[1] / "data" / "golden.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    for at in chosen:
        assert min(found[at]["top2_margins"][:TOKENS]) >= doubt
    return [(found[at]["prompt_ids"], found[at]["greedy_ids"][:TOKENS]) for at in chosen]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    # Whoever reads a device tensor inside a step ends the run, here and in child processes.
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


async def _says_the_golden_tokens(placement: Placement, **options: Any) -> None:
    """Ask all cases at once."""
    said: dict[int, tuple[int, ...]] = {}
    native = options.get("executor") == "native"
    cases = _cases(SURE, DOUBT_BFLOAT16) if native else _cases()
    async with Engine(
        placement=placement,
        dtype="bfloat16" if native else "float32",
        threads=1,
        max_slots=len(cases),
        kv_blocks=32,
        max_model_len=64,
        max_chunk=16,
        **options,
    ) as engine:

        async def ask(at: int) -> None:
            params = SamplingParams(max_tokens=TOKENS, temperature=0)
            said[at] = (await engine.complete(cases[at][0], params)).token_ids

        async with anyio.create_task_group() as group:
            for at in range(len(cases)):
                group.start_soon(ask, at)
    assert [list(said[at]) for at in range(len(cases))] == [tokens for _, tokens in cases]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("placement", ["inline", "embedded", "processes"])
async def test_requests_that_run_together_say_the_golden_tokens(
    placement: Placement, depth: int
) -> None:
    await _says_the_golden_tokens(placement, depth=depth)


@pytest.mark.parametrize("proposer", ["ngram", "suffix", "self-draft"])
@pytest.mark.parametrize("placement", ["inline", "embedded", "processes"])
async def test_drafts_change_no_golden_token(placement: Placement, proposer: str) -> None:
    await _says_the_golden_tokens(placement, proposer=proposer, draft_tokens=3)


@pytest.mark.parametrize(
    ("proposer", "verify"),
    [
        ("none", "sample"),
        ("ngram", "sample"),
        ("ngram", "rejection"),
        ("ngram", "block"),
        ("self-draft", "sample"),
    ],
)
async def test_the_native_library_says_them_in_bfloat16_whoever_drafts_and_judges(
    proposer: str, verify: str
) -> None:
    drafts = {} if proposer == "none" else {"proposer": proposer, "draft_tokens": 3}
    await _says_the_golden_tokens("inline", executor="native", verify=verify, **drafts)


async def test_drafts_of_another_model_change_no_golden_token() -> None:
    model = str(default_model())
    await _says_the_golden_tokens(
        "inline", proposer="draft-model", draft_tokens=3, draft_model=model
    )
