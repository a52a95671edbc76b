"""The torch executor: what it computes, what it keeps between steps, and that it reads nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from toy_device import NETWORK, OTHER, PROMPT, decode, executor, greedy_from

from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.base import column
from optimist.messages.batches import OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows
from optimist.testing.hand import GREEDY, Hand, Row, tokens_by_slot

pytestmark = pytest.mark.usefixtures("strict_torch")


def test_prefill_in_chunks_then_decode() -> None:
    hand = Hand(executor())
    hand.open(2, PROMPT, [7, 3, 9])
    assert hand.run([Row(2, 3)]) == {}
    assert hand.run([Row(2, 1)]) == {}
    first = hand.run([Row(2, 3)])[2]
    assert [first, *decode(hand, 2, 5)] == greedy_from(PROMPT, 6)


def test_rows_of_every_kind_in_one_step() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, [0, 1, 2])
    hand.open(1, OTHER, [3, 4])
    drawn = [hand.run([Row(0, 7), Row(1, 3)])]
    hand.open(3, PROMPT[::-1], [5, 6, 7])
    drawn.append(hand.run([Row(1, 1, decode=True), Row(3, 5), Row(0, 1, decode=True)]))
    drawn.append(hand.run([Row(3, 2), Row(0, 1, decode=True), Row(1, 1, decode=True)]))
    assert [step[0] for step in drawn] == greedy_from(PROMPT, 3)
    assert [step[1] for step in drawn] == greedy_from(OTHER, 3)
    assert drawn[2][3] == greedy_from(PROMPT[::-1], 1)[0]
    assert 3 not in drawn[1]


def test_a_step_is_submitted_before_the_last_one_is_read() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, [0, 1, 2])
    tickets = [hand.submit([Row(0, 7)])]
    tickets += [hand.submit([Row(0, 1, decode=True)]) for _ in range(4)]
    assert [tokens_by_slot(t.wait())[0] for t in tickets] == greedy_from(PROMPT, 5)


def test_a_slot_is_taken_over_by_the_next_request() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, [0, 1, 2])
    hand.run([Row(0, 7)])
    decode(hand, 0, 3)
    hand.close(0)
    hand.open(0, OTHER, [2, 1])
    first = hand.run([Row(0, 3)])[0]
    assert [first, *decode(hand, 0, 4)] == greedy_from(OTHER, 5)


def test_cached_blocks_are_used_and_not_cleared() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, [0, 1, 2])
    hand.run([Row(0, 7)])
    hand.open(1, PROMPT, [0, 5], cached_len=4)
    first = hand.run([Row(1, 3)])[1]
    assert [first, *decode(hand, 1, 1)] == greedy_from(PROMPT, 2)


def test_another_requests_nan_does_not_spread() -> None:
    device = executor()
    hand = Hand(device)
    device._state.cache[:, :, :40] = torch.nan  # noqa: SLF001
    hand.open(0, PROMPT, [8, 2, 6])
    hand.open(1, OTHER, [3])
    drawn = [hand.run([Row(0, 7), Row(1, 3)])]
    drawn += [hand.run([Row(0, 1, decode=True), Row(1, 1, decode=True)])]
    assert [step[0] for step in drawn] == greedy_from(PROMPT, 2)
    assert [step[1] for step in drawn] == greedy_from(OTHER, 2)


def test_a_resumed_request_goes_on_behind_its_emitted_tokens() -> None:
    emitted = greedy_from(PROMPT, 4)
    hand = Hand(executor())
    hand.open(0, PROMPT + emitted, [0, 1, 2, 3], prompt_len=len(PROMPT))
    first = hand.run([Row(0, 11)])[0]
    assert [first, *decode(hand, 0, 3)] == greedy_from(PROMPT, 8)[4:]


def test_a_request_may_fill_the_whole_context() -> None:
    hand = Hand(executor(max_model_len=10))
    hand.open(0, PROMPT, [0, 1, 2])
    first = hand.run([Row(0, 7)])[0]
    assert [first, *decode(hand, 0, 3)] == greedy_from(PROMPT, 4)
    with pytest.raises(Exception, match="expected at most 10 tokens, got 11"):
        decode(hand, 0, 1)


def test_reset_forgets_everything() -> None:
    device = executor()
    hand = Hand(device)
    hand.open(0, PROMPT, [0, 1, 2])
    hand.run([Row(0, 7)])
    device.reset()
    with pytest.raises(Exception, match=r"blocks\.version: expected 1, got 2"):
        decode(hand, 0, 1)
    hand = Hand(device)
    hand.open(0, OTHER, [0, 1, 2])
    assert hand.run([Row(0, 3)])[0] == greedy_from(OTHER, 1)[0]


def test_a_step_without_rows_moves_requests_and_yields_nothing() -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [4])
    assert hand.run([]) == {}
    assert hand.run([Row(0, 3)])[0] == greedy_from(OTHER, 1)[0]
    hand.close(0)
    assert hand.run([]) == {}


class Optimist:
    """Batches of one slot whose decode rows carry a bound that is `slack` too large."""

    def __init__(self, device: TorchExecutor, slack: int) -> None:
        self.device, self.slack, self.step = device, slack, 0

    def run(self, known: int, query: int, *, opened: tuple[OpenedSlot, ...] = ()) -> list[int]:
        decodes = not opened
        batch = OptimisticBatch(
            incarnation=1,
            epoch=1,
            step=self.step,
            opened=opened,
            blocks=BlockDelta(
                version=self.step + 1,
                slots=column([0] if opened else []),
                offsets=column([0] if opened else []),
                counts=column([6] if opened else []),
                blocks=column([11, 2, 30, 4, 0, 6] if opened else []),
            ),
            slots=column([0]),
            generations=column([0]),
            num_decodes=int(decodes),
            draft_counts=column([0] if decodes else []),
            max_query_len=query,
            max_blocks=6,
            bound=SeqLensUpperBound.of([known + self.slack] if decodes else []),
            prefill=PrefillRows()
            if decodes
            else PrefillRows(
                slots=column([0]),
                generations=column([0]),
                starts=column([0]),
                seq_lens=ExactSeqLens.of([query]),
                samples=column([1]),
            ),
        )
        self.step += 1
        sampled: list[int] = self.device.submit(batch).wait().token_ids.tolist()
        return sampled


@pytest.mark.parametrize("slack", [0, 1, 9])
def test_an_optimistic_batch_goes_by_lengths_on_the_device(slack: int) -> None:
    driver = Optimist(executor(), slack)
    opened = OpenedSlot(
        slot=0,
        generation=0,
        request=0,
        token_ids=column(PROMPT),
        prompt_len=7,
        cached_len=0,
        sampling=GREEDY,
    )
    got = driver.run(7, 7, opened=(opened,))
    for known in range(8, 13):
        got += driver.run(known, 1)
    assert got == greedy_from(PROMPT, 6)


def test_steps_run_inside_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    device = executor()
    hand = Hand(device)
    hand.open(0, OTHER, [9])
    forward: Callable[..., torch.Tensor] = NETWORK.forward

    def nosy(*args: Any) -> torch.Tensor:
        logits = forward(*args)
        assert logits.argmax().item() >= 0
        return logits

    monkeypatch.setattr(NETWORK, "forward", nosy)
    with pytest.raises(Exception, match=r"item: the host read a device tensor"):
        hand.run([Row(0, 3)])
