"""Mixed requests in one executor, drafts of every kind: tokens have the probability that they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from draft_driver import Driver
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.slots import Sampling
from optimist.testing.chain import BOUND, LENGTH, OTHER, PARAMETERS, TARGET, VOCAB, surprise

ROWS = 800


class Case(NamedTuple):
    verify: str
    proposer: str
    drafts: int

    def __str__(self) -> str:
        return "-".join(map(str, self))


CASES = [
    Case(verify, proposer, drafts)
    for verify in ("sample", "rejection", "block")
    for proposer, drafts in (("none", 3), ("self-draft", 1), ("draft-model", 3))
] + [Case("block", "ngram-device", 3)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def generate(case: Case) -> tuple[Tensor, float]:
    """Texts, [ROWS, LENGTH + 1], the first token given; and the share of drafts that were accepted."""
    width = -(-(LENGTH + 8) // 16)
    config = WorkerConfig(
        dtype="float32",
        kv_blocks=ROWS * width,
        max_slots=ROWS,
        proposer=case.proposer,  # type: ignore[arg-type]
        verify=case.verify,  # type: ignore[arg-type]
    )
    draft = OTHER if case.proposer == "draft-model" else None
    driver = Driver(TorchExecutor(TARGET, config, draft=draft), optimistic=True, width=width)
    for slot in range(ROWS):
        sampling = Sampling(seed=slot, **PARAMETERS[slot % len(PARAMETERS)])
        driver.open(slot, [slot % VOCAB], sampling)
    itself, ran, accepted = case.proposer != "none", 0, 0
    driver.prefill(dict.fromkeys(range(ROWS), 1), itself=itself)
    rng = np.random.default_rng(0)
    while rows := [slot for slot, text in driver.tokens.items() if len(text) <= LENGTH]:
        guesses = rng.integers(0, VOCAB, (len(rows), case.drafts)).tolist()
        outcome = driver.decode(dict(zip(rows, guesses, strict=True)), itself=itself)
        ran += int(outcome.drafts_run.sum())
        accepted += int(outcome.token_counts.sum()) - len(rows)
    return torch.tensor([text[: LENGTH + 1] for text in driver.tokens.values()]), accepted / ran


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_have_the_probability_that_they_should(case: Case) -> None:
    texts, rate = generate(case)
    for i, parameters in enumerate(PARAMETERS):
        assert surprise(texts[i :: len(PARAMETERS)], parameters) < BOUND, parameters
    assert 0.05 < rate < 0.99


def test_a_wrong_parameter_would_be_noticed() -> None:
    texts, _ = generate(CASES[0])
    for i, parameters in enumerate(PARAMETERS):
        wrong = parameters | {"temperature": parameters["temperature"] * 1.25}
        assert surprise(texts[i :: len(PARAMETERS)], wrong) > BOUND
