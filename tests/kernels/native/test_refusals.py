"""What no slot, step or network can have is refused with a reason, and nothing is changed by it."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from native_toy import TOY, device, ints, open_slot, rows, sizes

from optimist.kernels.native.device import NativeDevice, NativeError
from optimist.kernels.native.operators import attention
from optimist.kernels.native.shapes import GREEDY, MOST_QUERY_HEADS, Rows
from optimist.messages.errors import ConfigError
from optimist.models.native import shape_of, unsupported

TEXT = [3, 1, 4, 1, 5]


@pytest.mark.parametrize("slot", [-1, 8, 10**9])
def test_a_slot_that_is_none(toy: NativeDevice, slot: int) -> None:
    says = f"slot: expected 0 to 7, got {slot}"
    with pytest.raises(NativeError, match=says):
        toy.open_slot(slot, ints(*TEXT), 0, GREEDY)
    with pytest.raises(NativeError, match=says):
        toy.set_blocks(ints(slot), ints(0), ints(0))
    with pytest.raises(NativeError, match=says):
        toy.logits(rows([slot], [1]))
    with pytest.raises(NativeError, match=says):
        toy.draft(ints(slot), ints(1), 1)


@pytest.mark.parametrize("token", [-1, TOY.vocab_size])
def test_a_token_that_is_none(toy: NativeDevice, token: int) -> None:
    says = f"token id: expected 0 to {TOY.vocab_size - 1}, got {token}"
    with pytest.raises(NativeError, match=says):
        toy.open_slot(0, ints(1, token), 0, GREEDY)
    open_slot(toy, 0, TEXT, [0])
    one = ints(1)
    with pytest.raises(NativeError, match=says):
        toy.step(Rows(ints(0), ints(6), ints(-1), one, one, ints(token)))
    found = toy.logits(rows([0], [5]))
    open_slot(toy, 1, TEXT, [1])
    assert np.array_equal(found, toy.logits(rows([1], [5])))


def test_more_tokens_than_a_slot_has_room_for(toy: NativeDevice) -> None:
    with pytest.raises(NativeError, match="tokens: expected 0 to 256, got 257"):
        toy.open_slot(0, ints(*[1] * 257), 0, GREEDY)
    with pytest.raises(NativeError, match="cached: expected 0 to 5, got 6"):
        toy.open_slot(0, ints(*TEXT), 6, GREEDY)


@pytest.mark.parametrize(("queries", "drafts"), [(0, 0), (-1, 0), (2, 2), (2, -1)])
def test_a_query_without_a_token_of_its_own(toy: NativeDevice, queries: int, drafts: int) -> None:
    open_slot(toy, 0, TEXT, [0])
    asked = Rows(ints(0), ints(queries), ints(-1), ints(1), ints(drafts), ints(1, 1))
    with pytest.raises(NativeError, match=f"got {queries} with {drafts}"):
        toy.step(asked)


@pytest.mark.parametrize("layers", [0, 99])
def test_drafts_of_layers_that_are_not_there(toy: NativeDevice, layers: int) -> None:
    open_slot(toy, 0, TEXT, [0])
    with pytest.raises(NativeError, match=f"expected 1 to {TOY.num_layers} layers, got {layers}"):
        toy.draft(ints(0), ints(1), layers)


def test_a_device_that_is_closed() -> None:
    network = device()
    network.close()
    with pytest.raises(NativeError, match="open: the device is closed"):
        network.open_slot(0, ints(*TEXT), 0, GREEDY)


def test_more_query_heads_than_are_computed_together() -> None:
    widest = replace(TOY, num_heads=MOST_QUERY_HEADS, num_kv_heads=1, head_dim=8)
    with contextlib.closing(device(widest)) as network:
        open_slot(network, 0, TEXT, [0])
        assert np.isfinite(network.logits(rows([0], [5]))).all()
    wider = replace(widest, num_heads=MOST_QUERY_HEADS + 1)
    says = f"expected at most {MOST_QUERY_HEADS} for each KV head, got {MOST_QUERY_HEADS + 1}"
    assert says in unsupported(wider, 16)
    with pytest.raises(ConfigError, match=says):
        device(wider)
    shape = shape_of(widest, sizes())._replace(heads=MOST_QUERY_HEADS + 1)
    with pytest.raises(NativeError, match=says):
        NativeDevice(shape)
    qkv, turns = np.zeros((1, 99, 8), np.float32), np.zeros((1, 8), np.float32)
    with pytest.raises(
        ValueError, match="expected at most 96 query heads for each KV head, got 97"
    ):
        attention(qkv, turns, ints(0), heads=97, block_size=16, queries=1)


def test_no_more_alternatives_are_reported_than_there_are_tokens(toy: NativeDevice) -> None:
    open_slot(toy, 0, TEXT, [0])
    toy.open_slot(0, ints(*TEXT), 0, GREEDY._replace(alternatives=TOY.vocab_size + 9))
    toy.set_blocks(ints(0), ints(0), ints(0))
    one = ints(1)
    chosen = toy.step(
        Rows(ints(0), ints(5), ints(-1), one, ints(0), ints()), alternatives=TOY.vocab_size + 9
    )
    assert sorted(chosen.top_ids[0].tolist()) == list(range(TOY.vocab_size))
