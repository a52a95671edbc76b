"""Device proposers: what they draft changes nothing but speed, and nobody looks at it on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from draft_driver import Driver
from torch import Tensor
from toy_device import NETWORK, SIZES, executor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.device_proposer import Round
from optimist.actors.worker.self_draft import SelfDraft
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels.sync_check import SyncError
from optimist.messages.base import column
from optimist.messages.slots import Sampling
from optimist.testing.hand import GREEDY, Hand, Row
from optimist.testing.torch_toy import toy_network

pytestmark = pytest.mark.usefixtures("strict_torch")

LENGTH = 20
PROMPTS = {0: [5, 60, 7, 81, 9, 10, 11], 1: [1, 2, 3], 2: [11, 10, 9, 81, 7, 60, 5], 3: [4]}
SAMPLINGS = [
    GREEDY,
    Sampling(temperature=0.6, seed=77, top_p=0.9),
    Sampling(temperature=0.5, seed=3, presence_penalty=1.5, repetition_penalty=1.4),
    Sampling(temperature=0, seed=5, min_tokens=7, stop_ids=column(range(0, 97, 2))),
]


def undrafted(sampling: Sampling, prompt: Sequence[int]) -> list[int]:
    """The request alone in the executor, without drafts."""
    hand = Hand(executor())
    hand.open(0, prompt, range(10), sampling=sampling)
    said = [*prompt, hand.run([Row(0, len(prompt))])[0]]
    return said + [hand.run([Row(0, 1, decode=True)])[0] for _ in range(LENGTH - 1)]


WANT = {slot: undrafted(SAMPLINGS[slot], prompt) for slot, prompt in PROMPTS.items()}


def made(kind: str, **options: Any) -> TorchExecutor:
    """An executor whose drafts are right now and then: `twin` drafts with the target itself."""
    draft = {"draft-model": toy_network(seed=1), "twin": NETWORK}.get(kind)
    proposer = "draft-model" if draft is not None else kind
    if kind == "ngram-device":
        options |= {"ngram_min": 1, "ngram_max": 3}
    config = WorkerConfig(dtype="float64", proposer=proposer, **{**SIZES, **options})  # type: ignore[arg-type]
    return TorchExecutor(NETWORK, config, draft=draft)


KINDS = ["self-draft", "draft-model", "twin", "ngram-device"]


def started(kind: str, optimistic: bool) -> Driver:
    driver = Driver(made(kind), optimistic=optimistic)
    for slot, prompt in PROMPTS.items():
        driver.open(slot, prompt, SAMPLINGS[slot])
    driver.prefill({0: 3, 1: 3, 2: 7, 3: 1}, itself=True)
    driver.prefill({0: 4}, {1: [0, 0]}, itself=True)
    return driver


def unfinished(driver: Driver) -> list[int]:
    return [slot for slot in PROMPTS if len(driver.tokens[slot]) < len(WANT[slot])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimistic", [False, True], ids=["exact", "optimistic"])
def test_tokens_do_not_depend_on_who_drafts(kind: str, optimistic: bool) -> None:
    driver, steps, accepted, ran = started(kind, optimistic), 0, 0, 0
    while rows := unfinished(driver):
        counts = [(steps + slot) % 4 for slot in rows]
        room = dict(zip(rows, ([0] * count for count in counts), strict=True))
        outcome = driver.decode(room, itself=True)
        assert outcome.drafts_run.tolist() == counts
        assert outcome.drafts_held is not None
        accepted += int(outcome.token_counts.sum()) - len(rows)
        ran += sum(counts)
        steps += 1
    for slot, want in WANT.items():
        assert driver.tokens[slot][: len(want)] == want
    if kind == "twin":
        assert accepted == ran
    else:
        assert 0 < accepted < ran


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_submitted_before_earlier_ones_are_read(kind: str) -> None:
    driver = started(kind, optimistic=True)
    rooms = [{slot: [0] * (slot + i) for slot in PROMPTS} for i in range(3)]
    for ticket in [driver.submit(room, itself=True) for room in rooms]:
        driver.read(ticket)
    while rows := unfinished(driver):
        driver.decode({slot: [] for slot in rows}, itself=True)
    for slot, want in WANT.items():
        assert driver.tokens[slot][: len(want)] == want


def test_a_model_that_sat_out_catches_up() -> None:
    driver = Driver(made("twin"), optimistic=True)
    driver.open(0, PROMPTS[0], GREEDY)
    driver.prefill({0: 7}, itself=True)
    for idle, drafts in ((3, 2), (0, 4), (2, 1), (0, 1), (1, 3)):
        for _ in range(idle):
            driver.decode({0: []}, itself=True)
        assert driver.decode({0: [0] * drafts}, itself=True).token_counts.tolist() == [1 + drafts]


def test_a_model_never_falls_far_behind() -> None:
    device = made("twin", max_model_len=64, kv_blocks=64)
    driver = Driver(device, optimistic=True, width=16)
    driver.open(0, PROMPTS[0], GREEDY)
    driver.prefill({0: 7}, itself=True)
    for _ in range(40):
        driver.decode({0: []}, itself=True)
    cache, own = device._state.caches  # noqa: SLF001
    known = np.arange(7 + 32)
    pieces = [c[:, :, :16].flatten(2, 3)[:, :, known] for c in (cache, own)]
    assert (pieces[0] - pieces[1]).abs().max() < 1e-9
    assert driver.decode({0: [0] * 3}, itself=True).token_counts.tolist() == [4]


def test_a_slot_that_is_taken_over_begins_anew() -> None:
    driver = Driver(made("twin"), optimistic=True)
    driver.open(0, PROMPTS[0], GREEDY)
    driver.prefill({0: 7}, itself=True)
    driver.decode({0: []}, itself=True)
    driver.close(0)
    driver.open(0, PROMPTS[2], GREEDY, generation=1)
    driver.prefill({0: 7}, itself=True)
    assert driver.decode({0: [0] * 3}, itself=True).token_counts.tolist() == [4]


@pytest.mark.parametrize("optimistic", [False, True], ids=["exact", "optimistic"])
@pytest.mark.parametrize("rounds", [[0] * 9, [3, 3, 0], [3, 4], [2, 0, 5, 0]], ids=str)
def test_blocks_of_a_request_that_left_are_as_good_for_drafts_as_for_the_target(
    rounds: list[int], optimistic: bool
) -> None:
    driver = Driver(made("twin"), optimistic=optimistic)
    driver.open(0, PROMPTS[0], GREEDY)
    driver.prefill({0: 7}, itself=True)
    for drafts in rounds:
        driver.decode({0: [0] * drafts}, itself=True)
    known = driver.tokens[0]
    driver.close(0)
    driver.open(0, [*known, 8], GREEDY, generation=1, cached_len=len(known) - 1)
    driver.prefill({0: 2}, itself=True)
    for _ in range(3):
        assert driver.decode({0: [0] * 3}, itself=True).token_counts.tolist() == [4]


def test_a_proposer_that_looks_at_its_drafts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    draft = SelfDraft.logits

    def nosy(self: SelfDraft, round: Round, drafted: int) -> Tensor:
        logits = draft(self, round, drafted)
        assert logits.argmax().item() >= 0
        return logits

    driver = started("self-draft", optimistic=True)
    monkeypatch.setattr(SelfDraft, "logits", nosy)
    with pytest.raises(SyncError, match="host read a device tensor"):
        driver.decode({0: [0]}, itself=True)
