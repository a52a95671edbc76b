"""Executors on small networks: what each is asked, and what it must answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import native_toy
import numpy as np
import torch
import toy_device

from optimist.actors.worker.base import Executor
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.kernels.native.library import instruction_set

SCATTERED = [int(block) for block in np.random.default_rng(3).permutation(40)]


class Scene(NamedTuple):
    """make: an executor with options of the worker changed. greedy: tokens behind a text, computed
    without cache or batch. prompt, other: two texts. chunks: lengths that make up the prompt, the
    last one a single token. poison: fill every block that can be given to a request with NaN.
    """

    make: Callable[..., Executor]
    greedy: Callable[[list[int], int], list[int]]
    poison: Callable[[Any], None]
    block_size: int
    prompt: list[int]
    other: list[int]
    chunks: tuple[int, ...]

    def blocks(self, tokens: int, first: int = 0) -> list[int]:
        """Blocks for so many tokens, in no order; those of another `first` are others."""
        return SCATTERED[first : first + -(-tokens // self.block_size)]


def _poison_torch(executor: TorchExecutor) -> None:
    executor._state.cache[:, :, : executor.limits.num_blocks] = torch.nan  # noqa: SLF001


def _poison_native(executor: NativeExecutor) -> None:
    executor._device.fill_cache(float("nan"))  # noqa: SLF001


@cache
def _native_words(_computes: str) -> native_toy.NextToken:
    return native_toy.NextToken()


def _native_greedy(prompt: list[int], count: int) -> list[int]:
    return _native_words(instruction_set()).greedy(prompt, count)


def _native(threads: int, **options: Any) -> NativeExecutor:
    names = {
        "kv_blocks": "blocks",
        "max_slots": "slots",
        "max_model_len": "max_len",
        "max_batch_tokens": "max_tokens",
    }
    changed = {names.get(name, name): value for name, value in options.items()}
    return native_toy.executor(threads=threads, **changed)


def _native_text(tokens: int) -> list[int]:
    drawn = np.random.default_rng(tokens).integers(0, native_toy.TOY.vocab_size, tokens)
    return [int(token) for token in drawn]


def _native_scene(threads: int) -> Scene:
    return Scene(
        make=partial(_native, threads),
        greedy=_native_greedy,
        poison=_poison_native,
        block_size=native_toy.BLOCK,
        prompt=_native_text(150),
        other=_native_text(21),
        chunks=(1, 70, 29, 49, 1),
    )


SCENES = {
    "torch": Scene(
        make=toy_device.executor,
        greedy=toy_device.greedy_from,
        poison=_poison_torch,
        block_size=toy_device.SIZES["block_size"],
        prompt=toy_device.PROMPT,
        other=toy_device.OTHER,
        chunks=(3, 1, 2, 1),
    ),
    "native": _native_scene(1),
    "native on two threads": _native_scene(2),
}
