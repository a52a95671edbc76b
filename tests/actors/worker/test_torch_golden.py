"""The default model says what an outside implementation says, as far as rounding leaves no doubt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.models.default import default_model
from optimist.testing.hand import Hand, Row

SURE = {"float32": 0.02, "bfloat16": 0.5}
"""margin between the two likeliest logits above which rounding in this dtype decides nothing"""

BLOCKS = 8
"""of 16 tokens: enough for every prompt and its continuation"""


class Case(NamedTuple):
    prompt: list[int]
    tokens: list[int]
    margins: list[float]

    def sure(self, dtype: str) -> int:
        """How many leading tokens leave no doubt."""
        doubts = [i for i, margin in enumerate(self.margins) if margin < SURE[dtype]]
        return doubts[0] if doubts else len(self.tokens)


def _cases() -> list[Case]:
    path = Path(__file__).parents[2] / "data" / "golden.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [Case(c["prompt_ids"], c["greedy_ids"], c["top2_margins"]) for c in found]


CASES = _cases()


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def device(request: pytest.FixtureRequest) -> Iterator[tuple[str, TorchExecutor]]:
    threads = torch.get_num_threads()
    config = WorkerConfig(
        model=str(default_model()),
        dtype=request.param,
        kv_blocks=BLOCKS * len(CASES),
        max_slots=len(CASES),
        max_model_len=16 * BLOCKS,
        threads=1,
    )
    executor = TorchExecutor.load(config, lambda what, done, total: None)
    assert torch.get_num_threads() == 1
    yield request.param, executor
    executor.close()
    torch.set_num_threads(threads)


def test_free_running_all_at_once(
    device: tuple[str, TorchExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype, executor = device
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    executor.reset()
    hand = Hand(executor)
    for slot, case in enumerate(CASES):
        hand.open(slot, case.prompt, range(BLOCKS * slot, BLOCKS * (slot + 1)))
    said = {slot: [token] for slot, token in _prompts_in_two_chunks(hand).items()}
    for step in range(1, max(case.sure(dtype) for case in CASES)):
        running = [slot for slot, case in enumerate(CASES) if step < case.sure(dtype)]
        for slot, token in hand.run([Row(slot, 1, decode=True) for slot in running]).items():
            said[slot].append(token)
    for slot, case in enumerate(CASES):
        assert said[slot][: case.sure(dtype)] == case.tokens[: case.sure(dtype)]
    assert sum(case.sure(dtype) for case in CASES) >= (450 if dtype == "float32" else 50)


def _prompts_in_two_chunks(hand: Hand) -> dict[int, int]:
    lengths = {slot: len(case.prompt) for slot, case in enumerate(CASES)}
    short = {slot: length for slot, length in lengths.items() if length == 1}
    said = hand.run([Row(slot, 1) for slot in short])
    long = {slot: length for slot, length in lengths.items() if length > 1}
    assert hand.run([Row(slot, length // 2) for slot, length in long.items()]) == {}
    return said | hand.run([Row(slot, length - length // 2) for slot, length in long.items()])


def test_teacher_forced_at_every_position(device: tuple[str, TorchExecutor]) -> None:
    dtype, executor = device
    executor.reset()
    hand = Hand(executor)
    wrong, sure = [], 0
    for slot, case in enumerate(CASES):
        text = case.prompt + case.tokens[:-1]
        hand.open(slot, text, range(BLOCKS * slot, BLOCKS * (slot + 1)))
        chosen = _every_token(hand, slot, text)[len(case.prompt) - 1 :]
        for at, (got, want, margin) in enumerate(
            zip(chosen, case.tokens, case.margins, strict=True)
        ):
            sure += margin >= SURE[dtype]
            if got != want and margin >= SURE[dtype]:
                wrong.append((slot, at, got, want, margin))
    assert wrong == []
    assert sure > (650 if dtype == "float32" else 400)


def _every_token(hand: Hand, slot: int, text: list[int]) -> list[int]:
    """The likeliest token behind every token of a text that is computed in one chunk."""
    seen: list[torch.Tensor] = []
    executor = hand.executor
    assert isinstance(executor, TorchExecutor)
    network = executor._model  # noqa: SLF001
    forward = network.forward

    def forward_all(ids: Any, positions: Any, cache: Any, metadata: Any, last: Any) -> Any:
        every = torch.arange(ids.shape[0])
        seen.append(forward(ids, positions, cache, metadata, every))
        return seen[0][last]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "forward", forward_all)
        hand.run([Row(slot, len(text))])
    chosen: list[int] = seen[0].argmax(-1).tolist()
    return chosen
