"""A model of which one token is no number: whoever says it has logits among which nothing can be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from model_files import (
    huggingface_config,
    huggingface_tensors,
    shapes,
    weights,
    write_huggingface,
)

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Outcome
from optimist.messages.slots import Sampling
from optimist.testing.hand import GREEDY, Hand, Row

BROKEN = [1, 2, 7, 4]
"""a prompt with that token"""
WHOLE = [1, 2, 3, 4, 5]

WAYS = {
    "greedy": GREEDY,
    "drawn": Sampling(temperature=0.8, seed=3),
    "filtered": Sampling(temperature=0.8, seed=3, top_k=5, top_p=0.9, min_p=0.01),
    "reported": Sampling(temperature=0, seed=0, logprobs=2),
    "penalised": Sampling(temperature=0, seed=0, presence_penalty=0.5, frequency_penalty=0.5),
}


def sizes(folder: Path, quant: Literal["none", "int8"] = "none") -> WorkerConfig:
    """That model in a file, and room for two requests."""
    values = weights(shapes(head=True))
    values["embed"][BROKEN[2]] = np.nan
    config = huggingface_config(tie_word_embeddings=False)
    path = write_huggingface(folder / "model", config, huggingface_tensors(values))
    return WorkerConfig(
        model=str(path),
        dtype="bfloat16",
        quant=quant,
        kv_blocks=8,
        block_size=16,
        max_slots=2,
        max_model_len=32,
        threads=1,
    )


def outcomes(kind: type[Executor], config: WorkerConfig, sampling: Sampling) -> list[Outcome]:
    """Of a prompt's step and two that decode, all three under way at once where the device lets them."""
    executor = kind.load(config, lambda what, done, total: None)
    hand = Hand(executor)
    hand.open(0, BROKEN, [0], sampling=sampling)
    hand.open(1, WHOLE, [1], sampling=sampling)
    tickets = [hand.submit([Row(0, len(BROKEN)), Row(1, len(WHOLE))])]
    tickets += [hand.submit([Row(slot, 1, decode=True) for slot in range(2)]) for _ in range(2)]
    found = [ticket.wait() for ticket in tickets]
    executor.close()
    return found


def alone(kind: type[Executor], config: WorkerConfig, sampling: Sampling) -> list[int]:
    """The tokens of the whole prompt without the other beside it."""
    executor = kind.load(config, lambda what, done, total: None)
    hand = Hand(executor)
    hand.open(1, WHOLE, [1], sampling=sampling)
    found = [hand.run([Row(1, len(WHOLE))])[1], *hand.decode(1, 2)]
    executor.close()
    return found


def assert_alone_without_tokens(
    kind: type[Executor], config: WorkerConfig, sampling: Sampling
) -> None:
    """Raises AssertionError unless the broken row, and no other, brings no token."""
    found = outcomes(kind, config, sampling)
    assert [one.token_counts.tolist() for one in found] == [[0, 1]] * 3
    assert [one.token_ids.tolist() for one in found] == [
        [token] for token in alone(kind, config, sampling)
    ]
    for one in found:
        if sampling.logprobs >= 0:
            assert one.logprobs is not None
            assert np.isfinite(np.frombuffer(one.logprobs.chosen, "<f4")).tolist() == [True]
