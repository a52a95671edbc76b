"""Which steps a graph has room for, and how much of a GPU is left for the KV cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Limits
from optimist.actors.worker.gpu_sizes import enough_memory, kv_room, step_bytes
from optimist.actors.worker.limits import MEGABYTE
from optimist.actors.worker.step_graphs import (
    GraphKey,
    Network,
    StepGraphs,
    graph_for,
    graph_keys,
)
from optimist.actors.worker.torch_executor import unheard
from optimist.actors.worker.torch_limits import limits_of
from optimist.actors.worker.torch_rows import Rows
from optimist.actors.worker.torch_state import SlotState
from optimist.kernels.device import Device
from optimist.messages.errors import ConfigError
from optimist.testing.torch_toy import TOY, toy_network

KEYS = graph_keys(20, 4)


def rows(queries: list[int], decodes: int, drafts: list[int]) -> Rows:
    count = len(queries)
    return Rows(
        slots=np.arange(count, dtype=np.int32),
        generations=np.zeros(count, np.int32),
        offsets=np.concatenate(([0], np.cumsum(queries))).astype(np.int32),
        sampling=np.arange(count, dtype=np.int32),
        num_decodes=decodes,
        drafts=np.array(drafts, np.int32),
    )


def test_graphs_double_then_go_by_eight_up_to_every_slot() -> None:
    assert graph_keys(1, 0) == (GraphKey(1, 0),)
    assert [key.rows for key in graph_keys(20, 0)] == [20, 16, 8, 4, 2, 1]
    assert {key.drafts for key in KEYS} == {0, 1, 4}


@pytest.mark.parametrize(
    ("step", "key"),
    [
        (rows([1], 1, [0]), GraphKey(1, 0)),
        (rows([1] * 5, 5, [0] * 5), GraphKey(8, 0)),
        (rows([1, 3, 2], 3, [0, 2, 1]), GraphKey(4, 4)),
        (rows([1, 2], 2, [0, 1]), GraphKey(2, 1)),
        (rows([1] * 21, 21, [0] * 21), None),
        (rows([6], 1, [5]), None),
        (rows([], 0, []), None),
    ],
)
def test_the_smallest_with_room_is_taken(step: Rows, key: GraphKey | None) -> None:
    assert graph_for(step, KEYS) == key


def test_a_chunk_as_long_as_a_token_and_its_drafts_is_no_decoding() -> None:
    assert graph_for(rows([5, 5], 2, [4, 4]), KEYS) == GraphKey(2, 4)
    assert graph_for(rows([5, 5], 1, [4]), KEYS) is None
    assert graph_for(rows([1], 0, []), KEYS) is None


def test_graphs_leave_the_residual_stream_in_one_memory() -> None:
    limits = Limits(
        num_blocks=8,
        block_size=4,
        max_slots=2,
        max_model_len=16,
        max_batch_tokens=8,
        vocab_size=TOY.vocab_size,
    )
    network, cpu = toy_network(), Device(torch.device("cpu"))
    state = SlotState(limits, network.allocate_cache(8, 4), (), network.kernels)
    with torch.inference_mode():
        graphs = StepGraphs(Network(network), state, cpu, limits, graph_keys(2, 3), unheard)
        one, two = (graphs.run(rows([1] * n, n, [0] * n)) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert one.hidden.data_ptr() == two.hidden.data_ptr()
    assert one.hidden.untyped_storage().nbytes() == 2 * 4 * TOY.hidden_size * 8


def test_the_cache_takes_what_weights_step_and_reserve_leave() -> None:
    config = WorkerConfig(max_slots=4, max_batch_tokens=64, reserve_mb=100)
    step = step_bytes(config, TOY, 2)
    logits = 4 * 4 * TOY.vocab_size * 4
    counts = 5 * 2 * 4 * TOY.vocab_size
    assert logits + counts < step < logits + counts + 64 * 40 * TOY.hidden_size
    assert kv_room(1 << 30, config, TOY, 2) == (1 << 30) - 100 * MEGABYTE - step
    assert kv_room(50 * MEGABYTE, config, TOY, 2) == 0


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"graphs": False}, -4 * 4 * TOY.hidden_size),
        ({"proposer": "self-draft"}, 2 * 4 * 4 * TOY.hidden_size),
        ({"verify": "block"}, 3 * 4 * 4 * TOY.vocab_size),
    ],
)
def test_graphs_and_ways_to_judge_take_their_share(options: dict[str, Any], more: int) -> None:
    sizes: dict[str, Any] = {"max_slots": 4, "max_batch_tokens": 64}
    plain = step_bytes(WorkerConfig(**sizes), TOY, 2)
    assert step_bytes(WorkerConfig(**sizes, **options), TOY, 2) == plain + more


def test_sizes_that_are_named_go_before_what_is_free() -> None:
    few = WorkerConfig(max_slots=1, block_size=16)
    block = 2 * 2 * TOY.num_kv_heads * 16 * TOY.head_dim * 2
    assert limits_of(few, TOY, torch.bfloat16, room=3 * block).num_blocks == 3
    named = WorkerConfig(max_slots=1, block_size=16, kv_memory_mb=1)
    assert limits_of(named, TOY, torch.bfloat16, room=0).num_blocks == 4
    with pytest.raises(
        ConfigError, match=r"worker\.kv_memory_mb: expected room for .* got 0 blocks"
    ):
        limits_of(few, TOY, torch.bfloat16, room=0)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("x\nmore"),
        torch.AcceleratorError("CUDA error: out of memory: x\nmore"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED: x\nmore"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_running_out_of_memory_at_a_start_says_what_to_lower(error: RuntimeError) -> None:
    message = r"cuda:0 has too little memory.* Lower .*max_slots .64.*: x"
    with pytest.raises(ConfigError, match=message), enough_memory(WorkerConfig(), "cuda:0"):
        raise error


def test_another_error_at_a_start_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match=r"^illegal"), enough_memory(WorkerConfig(), "cuda:0"):
        raise RuntimeError("illegal instruction")
