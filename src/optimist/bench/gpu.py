"""`optimist bench gpu`: all that can only be seen on a GPU, in one run. Without one it says so and fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Ticket
from optimist.actors.worker.torch_executor import TorchExecutor, unheard
from optimist.bench import attention
from optimist.cells import executor_class
from optimist.kernels import gpus
from optimist.kernels.sync_check import VARIABLE
from optimist.messages.errors import ConfigError
from optimist.testing.hand import Hand, Row, tokens_by_slot

REQUESTS, PROMPT, STEPS, DEPTH, BLOCK = 64, 128, 64, 2, 16
MOST_IDLE = 0.05
"""share of the time in which the device may have nothing to do"""

CHECKED = 8
"""requests whose ids are compared"""

BATCHES = ("64q1s1k", "8q1s1k_2q512s4k", "1q4k")

COPIED_BYTES = 1 << 30


def measure(model: str = "", device: str = "auto") -> dict[str, Any]:
    """Ids against float32 on the CPU, waits, idle gaps, attention against the memory's own speed.

    Raises ConfigError where no GPU is visible, and what the checks raise where a step waits for the device.
    """
    where = gpus.chosen_device(device)
    if where == "cpu":
        raise ConfigError(
            "bench gpu: no GPU is visible here, so there is nothing to measure (`optimist doctor` says why)"
        )
    bandwidth, said, ran = copy_speed(where), ids(model, where), steps(model, where)
    return {
        "device": torch.cuda.get_device_name(where),
        "holds": {
            "ids": all(agreed == STEPS for agreed in said["agree"]),
            "idle": ran["idle_share"] <= MOST_IDLE,
        },
        "ids": said,
        "steps": ran,
        "copy_gb_per_s": round(bandwidth, 1),
        "attention": {batch: share(batch, model, where, bandwidth) for batch in BATCHES},
    }


def config_of(model: str, device: str, dtype: str, requests: int) -> WorkerConfig:
    """A worker with room for these requests."""
    return WorkerConfig(
        model=model,
        device=device,
        dtype=dtype,  # type: ignore[arg-type]
        max_slots=requests,
        max_model_len=PROMPT + STEPS,
        kv_blocks=requests * -(-(PROMPT + STEPS) // BLOCK),
        block_size=BLOCK,
        max_batch_tokens=requests * PROMPT,
    )


def ids(model: str, device: str) -> dict[str, Any]:
    """Greedy ids in float32 on both devices: how many of each request agree before the first that differs."""
    config = config_of(model, device, "float32", CHECKED)
    ours = _answers(executor_class(config).load(config, unheard))
    on_host = config_of(model, "cpu", "float32", CHECKED)
    theirs = _answers(TorchExecutor.load(on_host, unheard))
    return {"requests": CHECKED, "tokens": STEPS, "agree": agreement(ours, theirs)}


def _answers(executor: Executor) -> list[list[int]]:
    try:
        return decoded(executor, CHECKED, STEPS)
    finally:
        executor.close()


def agreement(ours: list[list[int]], theirs: list[list[int]]) -> list[int]:
    """Of each request, the tokens before the first that differs."""
    return [
        next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
        for one, other in zip(ours, theirs, strict=True)
    ]


def steps(model: str, device: str) -> dict[str, Any]:
    """Decode steps of many requests, DEPTH in flight, in which nothing may wait; and what the profiler saw."""
    config = config_of(model, device, "bfloat16", REQUESTS)
    executor = executor_class(config).load(config, unheard)

    def again() -> float:
        executor.reset()
        begun = perf_counter()
        decoded(executor, REQUESTS, STEPS)
        return perf_counter() - begun

    again()
    with _no_waiting():
        again()
    seconds = again()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        again()
    executor.close()
    busy = [
        (one.time_range.start, one.time_range.end)
        for one in seen.events() or ()
        if one.device_type.name == "CUDA"
    ]
    return {
        "requests": REQUESTS,
        "depth": DEPTH,
        "checked": "no step waited",
        "ms": round(1e3 * seconds / STEPS, 3),
        "idle_share": round(idle_share(busy), 4),
    }


@contextlib.contextmanager
def _no_waiting() -> Iterator[None]:
    """Host reads of device tensors in a step raise, and so do waits for the device, but for results."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "error"
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def decoded(executor: Executor, requests: int, steps: int, prompt: int = PROMPT) -> list[list[int]]:
    """Greedy tokens of requests with random prompts; each step is submitted before the last one is read."""
    hand, rng = Hand(executor), np.random.default_rng(0)
    blocks = -(-(prompt + steps) // executor.limits.block_size)
    for slot in range(requests):
        tokens = rng.integers(0, executor.limits.vocab_size, prompt).tolist()
        hand.open(slot, tokens, range(slot * blocks, (slot + 1) * blocks))
    answers: list[list[int]] = [[] for _ in range(requests)]

    def settle(ticket: Ticket) -> None:
        for slot, token in tokens_by_slot(ticket.wait()).items():
            answers[slot].append(token)

    flying = [hand.submit([Row(slot, prompt) for slot in range(requests)])]
    for _ in range(steps - 1):
        flying.append(hand.submit([Row(slot, 1, decode=True) for slot in range(requests)]))
        if len(flying) == DEPTH:
            settle(flying.pop(0))
    for ticket in flying:
        settle(ticket)
    return answers


def idle_share(busy: Iterable[tuple[float, float]]) -> float:
    """Of the time from the first (start, end) to the last, the share in which nothing ran."""
    spans = sorted(busy)
    if not spans:
        return 1.0
    worked, until = 0.0, spans[0][0]
    for start, end in spans:
        worked += max(0.0, end - max(start, until))
        until = max(until, end)
    return 1.0 - worked / (until - spans[0][0])


def copy_speed(device: str) -> float:
    """What the memory can do: gigabytes read and written a second by a large copy."""
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device=device)
    target, times = torch.empty_like(source), []
    for _ in range(5):
        torch.cuda.synchronize(device)
        begun = perf_counter()
        target.copy_(source)
        torch.cuda.synchronize(device)
        times.append(perf_counter() - begun)
    return 2 * COPIED_BYTES / median(times) / 1e9


def share(batch: str, model: str, device: str, bandwidth: float) -> dict[str, Any]:
    """Attention by Triton and by torch, and Triton's share of the memory's speed."""
    found = attention.measure(batch, "triton,torch", model, device)
    ours, theirs = found["backends"]["triton"], found["backends"]["torch"]
    return {
        "triton_ms": ours["ms"],
        "torch_ms": theirs["ms"],
        "of_copy_speed": round(ours["gb_per_s"] / bandwidth, 3),
        "largest_difference": found["largest_difference"],
    }
