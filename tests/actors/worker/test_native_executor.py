"""The native executor: what it keeps between steps, and that a row's tokens are its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from native_toy import NextToken, executor

from optimist.actors.worker.native_executor import NativeExecutor
from optimist.messages.base import column
from optimist.messages.batches import OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows
from optimist.testing.hand import GREEDY, Hand, Row, tokens_by_slot

NEXT = NextToken()
PROMPT = [int(i) for i in np.random.default_rng(1).integers(0, 101, 150)]
OTHER = [int(i) for i in np.random.default_rng(2).integers(0, 101, 21)]


def decode(hand: Hand, slot: int, count: int) -> list[int]:
    return [hand.run([Row(slot, 1, decode=True)])[slot] for _ in range(count)]


@pytest.mark.parametrize("threads", [1, 2])
def test_prefill_in_chunks_then_decode(threads: int) -> None:
    hand = Hand(executor(threads=threads))
    hand.open(2, PROMPT, range(3, 15))
    for query in (1, 70, 29, 49):
        assert hand.run([Row(2, query)]) == {}
    first = hand.run([Row(2, 1)])[2]
    assert [first, *decode(hand, 2, 20)] == NEXT.greedy(PROMPT, 21)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_every_kind_in_one_step(threads: int) -> None:
    hand = Hand(executor(threads=threads))
    hand.open(0, PROMPT, range(12))
    hand.open(1, OTHER, [20, 21])
    drawn = [hand.run([Row(0, 150), Row(1, 21)])]
    hand.open(3, PROMPT[::-1], range(22, 33))
    drawn.append(hand.run([Row(1, 1, decode=True), Row(3, 120), Row(0, 1, decode=True)]))
    drawn.append(hand.run([Row(3, 30), Row(0, 1, decode=True), Row(1, 1, decode=True)]))
    assert [step[0] for step in drawn] == NEXT.greedy(PROMPT, 3)
    assert [step[1] for step in drawn] == NEXT.greedy(OTHER, 3)
    assert drawn[2][3] == NEXT.greedy(PROMPT[::-1], 1)[0]
    assert 3 not in drawn[1]


def test_a_slot_is_taken_over_by_the_next_request() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, range(10))
    hand.run([Row(0, 150)])
    decode(hand, 0, 3)
    hand.close(0)
    hand.open(0, OTHER, [2, 1])
    first = hand.run([Row(0, 21)])[0]
    assert [first, *decode(hand, 0, 4)] == NEXT.greedy(OTHER, 5)


def test_cached_blocks_are_used() -> None:
    hand = Hand(executor())
    hand.open(0, PROMPT, range(10))
    hand.run([Row(0, 150)])
    hand.open(1, PROMPT, [0, 1, 2, 3, 30, 31, 32, 33, 34, 35], cached_len=64)
    first = hand.run([Row(1, 86)])[1]
    assert [first, *decode(hand, 1, 3)] == NEXT.greedy(PROMPT, 4)


def test_a_resumed_request_goes_on_behind_its_emitted_tokens() -> None:
    emitted = NEXT.greedy(OTHER, 4)
    hand = Hand(executor())
    hand.open(0, OTHER + emitted, [0, 1, 2, 3], prompt_len=len(OTHER))
    first = hand.run([Row(0, 25)])[0]
    assert [first, *decode(hand, 0, 3)] == NEXT.greedy(OTHER, 8)[4:]


def test_a_request_may_fill_the_whole_context() -> None:
    hand = Hand(executor(max_len=24))
    hand.open(0, OTHER, [0, 1])
    first = hand.run([Row(0, 21)])[0]
    assert [first, *decode(hand, 0, 3)] == NEXT.greedy(OTHER, 4)
    with pytest.raises(Exception, match="expected at most 24 tokens, got 25"):
        decode(hand, 0, 1)


def test_reset_forgets_everything() -> None:
    device = executor()
    hand = Hand(device)
    hand.open(0, PROMPT, range(10))
    hand.run([Row(0, 150)])
    device.reset()
    with pytest.raises(Exception, match=r"blocks\.version: expected 1, got 2"):
        decode(hand, 0, 1)
    hand = Hand(device)
    hand.open(0, OTHER, [0, 1, 2])
    assert hand.run([Row(0, 21)])[0] == NEXT.greedy(OTHER, 1)[0]


def test_a_step_without_rows_moves_requests_and_yields_nothing() -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [4, 5])
    assert hand.run([]) == {}
    assert hand.run([Row(0, 21)])[0] == NEXT.greedy(OTHER, 1)[0]
    hand.close(0)
    assert hand.run([]) == {}


def test_another_requests_nan_does_not_spread() -> None:
    hand = Hand(executor())
    hand.open(0, [100], [8])
    hand.run([Row(0, 1)])
    poison(hand.executor)
    hand.open(1, OTHER, [7, 9, 11])
    first = hand.run([Row(1, 21)])[1]
    assert [first, *decode(hand, 1, 12)] == NEXT.greedy(OTHER, 13)


def poison(device: object) -> None:
    """Fill every block with NaN."""
    assert isinstance(device, NativeExecutor)
    device._device.fill_cache(float("nan"))  # noqa: SLF001


class Optimist:
    """Batches of one slot whose decode rows carry a bound that is `slack` too large."""

    def __init__(self, device: NativeExecutor, slack: int) -> None:
        self.device, self.slack, self.step = device, slack, 0

    def run(self, known: int, query: int, *, opened: tuple[OpenedSlot, ...] = ()) -> list[int]:
        decodes = not opened
        blocks = [11, 2, 30, 4, 0, 6] if opened else []
        batch = OptimisticBatch(
            incarnation=1,
            epoch=1,
            step=self.step,
            opened=opened,
            blocks=BlockDelta(
                version=self.step + 1,
                slots=column([0] if opened else []),
                offsets=column([0] if opened else []),
                counts=column([len(blocks)] if opened else []),
                blocks=column(blocks),
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


@pytest.mark.parametrize("slack", [0, 1, 40])
def test_an_optimistic_batch_goes_by_lengths_on_the_device(slack: int) -> None:
    driver = Optimist(executor(), slack)
    opened = OpenedSlot(
        slot=0,
        generation=0,
        request=0,
        token_ids=column(OTHER),
        prompt_len=21,
        cached_len=0,
        sampling=GREEDY,
    )
    got = driver.run(21, 21, opened=(opened,))
    for known in range(22, 27):
        got += driver.run(known, 1)
    assert got == NEXT.greedy(OTHER, 6)


def test_tickets_are_read_in_any_order_later() -> None:
    hand = Hand(executor())
    hand.open(0, OTHER, [0, 1, 2])
    tickets = [hand.submit([Row(0, 21)])]
    tickets += [hand.submit([Row(0, 1, decode=True)]) for _ in range(4)]
    assert [tokens_by_slot(t.wait())[0] for t in tickets] == NEXT.greedy(OTHER, 5)


def test_no_torch_is_loaded() -> None:
    code = (
        "import sys\n"
        "import optimist.actors.worker.actor\n"
        "import optimist.actors.worker.native_executor\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
