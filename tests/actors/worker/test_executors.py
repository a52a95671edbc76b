"""Every executor: what it computes, what it keeps between steps, and that a row's tokens are its own."""

from __future__ import annotations

import pytest
from executor_scenes import SCENES, Scene

from optimist.actors.worker.base import Executor
from optimist.messages.base import column
from optimist.messages.batches import OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows
from optimist.testing.hand import GREEDY, Hand, Row, tokens_by_slot

pytestmark = pytest.mark.usefixtures("strict_torch")


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest) -> Scene:
    return SCENES[request.param]


def test_prefill_in_chunks_then_decode(scene: Scene) -> None:
    hand = Hand(scene.make())
    size = len(scene.prompt)
    hand.open(2, scene.prompt, scene.blocks(size + 21))
    *chunks, last = [Row(2, query) for query in scene.chunks]
    assert [hand.run([row]) for row in chunks] == [{}] * len(chunks)
    first = hand.run([last])[2]
    assert [first, *hand.decode(2, 20)] == scene.greedy(scene.prompt, 21)


def test_rows_of_every_kind_in_one_step(scene: Scene) -> None:
    hand = Hand(scene.make())
    size, third = len(scene.prompt), scene.prompt[::-1]
    hand.open(0, scene.prompt, scene.blocks(size + 3))
    hand.open(1, scene.other, scene.blocks(len(scene.other) + 3, first=15))
    drawn = [hand.run([Row(0, size), Row(1, len(scene.other))])]
    hand.open(3, third, scene.blocks(size + 1, first=25))
    drawn.append(hand.run([Row(1, 1, decode=True), Row(3, size - 2), Row(0, 1, decode=True)]))
    drawn.append(hand.run([Row(3, 2), Row(0, 1, decode=True), Row(1, 1, decode=True)]))
    assert [step[0] for step in drawn] == scene.greedy(scene.prompt, 3)
    assert [step[1] for step in drawn] == scene.greedy(scene.other, 3)
    assert drawn[2][3] == scene.greedy(third, 1)[0]
    assert 3 not in drawn[1]


def test_a_step_is_submitted_before_the_last_one_is_read(scene: Scene) -> None:
    hand = Hand(scene.make())
    hand.open(0, scene.other, scene.blocks(len(scene.other) + 5))
    tickets = [hand.submit([Row(0, len(scene.other))])]
    tickets += [hand.submit([Row(0, 1, decode=True)]) for _ in range(4)]
    assert [tokens_by_slot(t.wait())[0] for t in tickets] == scene.greedy(scene.other, 5)


def test_steps_are_prepared_before_those_ahead_of_them_run(scene: Scene) -> None:
    hand = Hand(scene.make())
    hand.open(0, scene.other, scene.blocks(len(scene.other) + 5))
    prepared = [hand.prepare([Row(0, len(scene.other))])]
    prepared += [hand.prepare([Row(0, 1, decode=True)]) for _ in range(4)]
    sampled = [tokens_by_slot(submit().wait())[0] for submit in prepared]
    assert sampled == scene.greedy(scene.other, 5)


def test_the_first_step_of_an_epoch_is_prepared_before_the_last_one_of_the_old_runs(
    scene: Scene,
) -> None:
    device = scene.make()
    old, new = Hand(device), Hand(device)
    old.open(0, scene.prompt, scene.blocks(len(scene.prompt)))
    last = old.prepare([Row(0, len(scene.prompt))])
    new.open(0, scene.other, scene.blocks(len(scene.other) + 2))
    first = new.prepare([Row(0, len(scene.other))])
    second = new.prepare([Row(0, 1, decode=True)])
    drawn = [tokens_by_slot(submit().wait())[0] for submit in (last, first, second)]
    assert drawn == scene.greedy(scene.prompt, 1) + scene.greedy(scene.other, 2)


def test_a_slot_is_taken_over_by_the_next_request(scene: Scene) -> None:
    hand = Hand(scene.make())
    hand.open(0, scene.prompt, scene.blocks(len(scene.prompt) + 4))
    hand.run([Row(0, len(scene.prompt))])
    hand.decode(0, 3)
    hand.close(0)
    hand.open(0, scene.other, scene.blocks(len(scene.other) + 5)[::-1])
    first = hand.run([Row(0, len(scene.other))])[0]
    assert [first, *hand.decode(0, 4)] == scene.greedy(scene.other, 5)


def test_cached_blocks_are_used_and_not_cleared(scene: Scene) -> None:
    hand = Hand(scene.make())
    size = len(scene.prompt)
    blocks = scene.blocks(size + 1)
    hand.open(0, scene.prompt, blocks)
    hand.run([Row(0, size)])
    shared = (len(blocks) + 1) // 2
    cached = shared * scene.block_size
    own = scene.blocks(size + 4 - cached, first=20)
    hand.open(1, scene.prompt, [*blocks[:shared], *own], cached_len=cached)
    first = hand.run([Row(1, size - cached)])[1]
    assert [first, *hand.decode(1, 3)] == scene.greedy(scene.prompt, 4)


def test_another_requests_nan_does_not_spread(scene: Scene) -> None:
    hand = Hand(scene.make())
    hand.open(0, [5], scene.blocks(1, first=30))
    hand.run([Row(0, 1)])
    scene.poison(hand.executor)
    texts = {1: scene.prompt, 2: scene.other}
    for slot, text in texts.items():
        hand.open(slot, text, scene.blocks(len(text) + 13, first=15 * (slot - 1)))
    drawn = [hand.run([Row(slot, len(text)) for slot, text in texts.items()])]
    drawn += [hand.run([Row(slot, 1, decode=True) for slot in texts]) for _ in range(12)]
    for slot, text in texts.items():
        assert [step[slot] for step in drawn] == scene.greedy(text, 13)


def test_a_resumed_request_goes_on_behind_its_emitted_tokens(scene: Scene) -> None:
    tokens = scene.other + scene.greedy(scene.other, 4)
    hand = Hand(scene.make())
    hand.open(0, tokens, scene.blocks(len(tokens) + 4), prompt_len=len(scene.other))
    first = hand.run([Row(0, len(tokens))])[0]
    assert [first, *hand.decode(0, 3)] == scene.greedy(scene.other, 8)[4:]


def test_a_request_may_fill_the_whole_context(scene: Scene) -> None:
    size = len(scene.other)
    hand = Hand(scene.make(max_model_len=size + 3))
    hand.open(0, scene.other, scene.blocks(size + 3))
    first = hand.run([Row(0, size)])[0]
    assert [first, *hand.decode(0, 3)] == scene.greedy(scene.other, 4)
    with pytest.raises(Exception, match=f"expected at most {size + 3} tokens, got {size + 4}"):
        hand.decode(0, 1)


def test_reset_forgets_everything(scene: Scene) -> None:
    device = scene.make()
    hand = Hand(device)
    hand.open(0, scene.prompt, scene.blocks(len(scene.prompt) + 1))
    hand.run([Row(0, len(scene.prompt))])
    device.reset()
    with pytest.raises(Exception, match=r"blocks\.version: expected 1, got 2"):
        hand.decode(0, 1)
    hand = Hand(device)
    hand.open(0, scene.other, scene.blocks(len(scene.other)))
    assert hand.run([Row(0, len(scene.other))])[0] == scene.greedy(scene.other, 1)[0]


def test_a_step_without_rows_moves_requests_and_yields_nothing(scene: Scene) -> None:
    hand = Hand(scene.make())
    hand.open(0, scene.other, scene.blocks(len(scene.other)))
    assert hand.run([]) == {}
    assert hand.run([Row(0, len(scene.other))])[0] == scene.greedy(scene.other, 1)[0]
    hand.close(0)
    assert hand.run([]) == {}


class Optimist:
    """Batches of one slot whose decode rows carry a bound that is `slack` too large."""

    def __init__(self, device: Executor, slack: int) -> None:
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


@pytest.mark.parametrize(("blocks", "tokens"), [(0, 0), (0, 1), (2, 1)])
def test_an_optimistic_batch_goes_by_lengths_on_the_device(
    scene: Scene, blocks: int, tokens: int
) -> None:
    size = len(scene.other)
    driver = Optimist(scene.make(), slack=blocks * scene.block_size + tokens)
    opened = OpenedSlot(
        slot=0,
        generation=0,
        request=0,
        token_ids=column(scene.other),
        prompt_len=size,
        cached_len=0,
        sampling=GREEDY,
    )
    got = driver.run(size, size, opened=(opened,))
    for known in range(size + 1, size + 6):
        got += driver.run(known, 1)
    assert got == scene.greedy(scene.other, 6)
