"""The native library judges drafts by chance, and drafts itself: tokens have the probability that they should."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import torch
from draft_driver import Driver
from native_toy import TOY, ArraySource, limits, open_slot, random_weights, rows, sizes
from torch import Tensor

from optimist.actors.worker.native_executor import NativeExecutor
from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.shapes import Floats
from optimist.kernels.verify import Noise, Places
from optimist.kernels.verify.reference import verify
from optimist.messages.slots import Sampling
from optimist.models.base import expected_shapes
from optimist.models.config import ModelConfig
from optimist.models.native import load_device
from optimist.testing.chain import BOUND, LENGTH, PARAMETERS, TINY, VOCAB, Chain, surprise

ROWS = 400
WIDTH = -(-(LENGTH + 8) // 16)


class Case(NamedTuple):
    verify: str
    drafts: int
    itself: bool = False

    def __str__(self) -> str:
        return f"{self.verify}-{self.drafts}{'-itself' * self.itself}"


CASES = [
    *(Case(verify, drafts) for verify in ("rejection", "block") for drafts in (1, 3)),
    Case("sample", 3, itself=True),
]


def chain_device(verify: str, rows: int = ROWS) -> NativeDevice:
    drawn = Chain(1)
    weights = {name: drawn.take(name).numpy() for name in expected_shapes(TINY)}
    size = sizes(blocks=rows * WIDTH, slots=rows, max_len=LENGTH + 16, max_tokens=4 * rows)
    return load_device(ArraySource(TINY, weights), size._replace(verify=verify))


@pytest.fixture
def behind() -> Tensor:
    """What the network says behind each token, [VOCAB, VOCAB]."""
    device = chain_device("sample", rows=VOCAB)
    for token in range(VOCAB):
        open_slot(device, token, [token], [token])
    found = torch.from_numpy(device.logits(rows(range(VOCAB), [1] * VOCAB))).double()
    device.close()
    return found


def generate(case: Case) -> tuple[Tensor, float]:
    """Texts, [ROWS, LENGTH + 1], the first token given; and the share of drafts that were accepted."""
    size = sizes(blocks=ROWS * WIDTH, slots=ROWS, max_len=LENGTH + 16, max_tokens=4 * ROWS)
    executor = NativeExecutor(chain_device(case.verify), limits(TINY, size), int(case.itself))
    driver = Driver(executor, optimistic=True, width=WIDTH)
    for slot in range(ROWS):
        sampling = Sampling(seed=slot, **PARAMETERS[slot % len(PARAMETERS)])
        driver.open(slot, [slot % VOCAB], sampling)
    ran = accepted = 0
    driver.prefill(dict.fromkeys(range(ROWS), 1), itself=case.itself)
    rng = np.random.default_rng(0)
    while left := [slot for slot, text in driver.tokens.items() if len(text) <= LENGTH]:
        guesses = rng.integers(0, VOCAB, (len(left), case.drafts)).tolist()
        outcome = driver.decode(dict(zip(left, guesses, strict=True)), itself=case.itself)
        ran += int(outcome.drafts_run.sum())
        accepted += int(outcome.token_counts.sum()) - len(left)
    executor.close()
    return torch.tensor([text[: LENGTH + 1] for text in driver.tokens.values()]), accepted / ran


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_have_the_probability_that_they_should(case: Case, behind: Tensor) -> None:
    texts, rate = generate(case)
    for i, parameters in enumerate(PARAMETERS):
        assert surprise(texts[i :: len(PARAMETERS)], parameters, behind) < BOUND, parameters
    assert 0.05 < rate < 0.99


@pytest.mark.usefixtures("every_set")
@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_rounds_are_judged_as_the_spec_judges_them(mode: str, behind: Tensor) -> None:
    count, drafts = 60, 3
    device = chain_device(mode, rows=count)
    executor = NativeExecutor(device, limits(TINY, sizes(slots=count, blocks=count * WIDTH)))
    driver = Driver(executor, optimistic=False, width=WIDTH)
    for slot in range(count):
        driver.open(slot, [slot % VOCAB], Sampling(temperature=1.0, seed=slot))
    driver.prefill(dict.fromkeys(range(count), 1))
    guesses = np.random.default_rng(1).integers(0, VOCAB, (count, drafts))
    last = [driver.tokens[slot][-1] for slot in range(count)]
    outcome = driver.decode(dict(enumerate(guesses.tolist())))
    executor.close()
    before = torch.from_numpy(np.column_stack((last, guesses))).reshape(-1)
    places = Places.of(np.full(count, drafts), torch.from_numpy(guesses.reshape(-1)))
    seeds = torch.arange(count).repeat_interleave(drafts + 1)
    noise = Noise(seeds, torch.tensor([2, 3, 4, 5]).repeat(count))
    spec = verify(mode, torch.softmax(behind[before], -1), None, places, noise)
    assert outcome.token_counts.tolist() == (spec.accepted + 1).tolist()
    ends = places.starts[:-1] + spec.accepted.numpy()
    got = [driver.tokens[slot][-1] for slot in range(count)]
    assert got == spec.ids[torch.from_numpy(ends)].tolist()


SAMPLINGS = (
    Sampling(temperature=0, seed=0),
    Sampling(temperature=1.0, seed=77, top_p=0.9, frequency_penalty=0.4, logprobs=2),
    Sampling(temperature=0.8, seed=3, top_k=20, repetition_penalty=1.3, presence_penalty=0.5),
)
PROMPTS = [[int(i) for i in np.random.default_rng(seed).integers(0, 101, 20)] for seed in range(3)]
TOKENS = 60


def itself(layers: int, weights: dict[str, Floats], config: ModelConfig = TOY) -> Driver:
    size = sizes(threads=2)
    device = load_device(ArraySource(config, weights), size)
    driver = Driver(NativeExecutor(device, limits(config, size), layers), optimistic=True)
    for slot, sampling in enumerate(SAMPLINGS):
        driver.open(slot, PROMPTS[slot], sampling)
    driver.prefill(dict.fromkeys(range(3), 20), itself=layers > 0)
    return driver


def texts(layers: int, weights: dict[str, Floats]) -> tuple[list[list[int]], int, int]:
    """What is generated, drafts that ran, and those that were accepted."""
    driver, step, ran, accepted = itself(layers, weights), 0, 0, 0
    while left := [slot for slot in range(3) if len(driver.tokens[slot]) < 20 + TOKENS]:
        room = {slot: [0] * ((step + slot) % 4 if layers else 0) for slot in left}
        outcome = driver.decode(room, itself=layers > 0)
        assert layers == 0 or outcome.drafts_held is not None
        ran += int(outcome.drafts_run.sum())
        accepted += int(outcome.token_counts.sum()) - len(left)
        step += 1
    driver.executor.close()
    return [text[: 20 + TOKENS] for text in driver.tokens.values()], ran, accepted


def test_tokens_do_not_depend_on_the_layers_that_draft() -> None:
    weights = random_weights(TOY)
    found, ran, accepted = texts(1, weights)
    assert found == texts(0, weights)[0]
    assert 0 < accepted < ran


@pytest.mark.usefixtures("every_set")
def test_layers_that_say_all_are_always_right() -> None:
    config = dataclasses.replace(TOY, num_layers=3)
    weights = random_weights(config)
    for name in ("o", "down"):
        weights[f"layers.2.{name}"][...] = 0
    driver = itself(2, weights, config)
    for step in range(12):
        room = {slot: [0] * (1 + (step + slot) % 4) for slot in range(3)}
        outcome = driver.decode(room, itself=True)
        assert outcome.token_counts.tolist() == (outcome.drafts_run + 1).tolist()
    driver.executor.close()
