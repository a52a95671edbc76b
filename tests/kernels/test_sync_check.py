"""Every kind of host read is planted in a step and caught; what reads nothing passes."""

from __future__ import annotations

import copy
import io
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from optimist.kernels.sync_check import (
    VARIABLE,
    SyncError,
    SyncWarning,
    checked_step,
    kernel_call,
    mode,
    readback,
)
from optimist.messages.errors import ConfigError

T = torch.arange(4)
MASK = T > 1
HOST = np.zeros(4, np.int64)

READS: dict[str, Callable[[], Any]] = {
    "item": lambda: T[0].item(),
    "int": lambda: int(T[0]),
    "float": lambda: float(T[0]),
    "range": lambda: range(T[1]),
    "slice by a tensor": lambda: T[: T[1]],
    "list index": lambda: [1, 2, 3, 4][T[1]],
    "bool": lambda: bool(T[0] == 0),
    "if": lambda: 1 if (T > 2).any() else 0,
    "and": lambda: (T[0] == 0) and 1,
    "in": lambda: 3 in T,
    "tolist": T.tolist,
    "numpy": T.numpy,
    "asarray": lambda: np.asarray(T),
    "numpy function": lambda: np.add(T, HOST),
    "dlpack": lambda: np.from_dlpack(T),
    "data_ptr": T.data_ptr,
    "storage": lambda: T.untyped_storage()[0],
    "cpu": T.cpu,
    "to cpu": lambda: T.to("cpu"),
    "to a device": lambda: T.to(device=torch.device("cpu")),
    "str": lambda: str(T),
    "repr": lambda: repr(T),
    "print": lambda: print(T),
    "format": lambda: f"{T[0]:d}",
    "nonzero": T.nonzero,
    "where": lambda: torch.where(MASK),
    "argwhere": lambda: torch.argwhere(T),
    "mask": lambda: T[MASK],
    "mask and index": lambda: torch.eye(4)[T, MASK],
    "masked write": lambda: torch.zeros(4).__setitem__(MASK, torch.ones(2)),
    "masked_select": lambda: T.masked_select(MASK),
    "unique": lambda: torch.unique(T),
    "unique_consecutive": lambda: torch.unique_consecutive(T),
    "bincount": lambda: torch.bincount(T),
    "equal": lambda: torch.equal(T, T),
    "allclose": lambda: torch.allclose(T, T),
    "repeat_interleave": lambda: T.repeat_interleave(T),
    "full of a tensor": lambda: torch.full((2,), T[1]),  # type: ignore[call-overload]
    "arange to a tensor": lambda: torch.arange(T[1]),  # type: ignore[call-overload]
    "item of an iteration": lambda: [int(x) for x in T],
    "copy to host memory": lambda: torch.from_numpy(HOST).copy_(T),
    "out into host memory": lambda: torch.add(T, 1, out=torch.from_numpy(HOST)),
    "assignment to host memory": lambda: torch.from_numpy(HOST).__setitem__(slice(0, 2), T[:2]),
    "copy of the object": lambda: copy.copy(T),
    "pickle": lambda: pickle.dumps(T),
    "save": lambda: torch.save(T, io.BytesIO()),
    "index": lambda: T[1].__index__(),
    "sorted": lambda: sorted(T),
    "max of the builtin": lambda: max(T),
    "square root": lambda: math.sqrt(T[1]),
    "is_nonzero": lambda: torch.is_nonzero(T[1]),
    "tensor of elements": lambda: torch.tensor([T[0], T[1]]),
    "tensor of nested elements": lambda: torch.tensor([[1, 2], [3, T[1]]]),
    "as_tensor of elements": lambda: torch.as_tensor((T[0], 1), dtype=torch.int32),
    "as_tensor by name": lambda: torch.as_tensor(data=[T[0]]),
    "asarray of elements": lambda: torch.asarray([T[0], 1]),
    "new_tensor of elements": lambda: T.new_tensor([T[0]]),
    "tensor on the host": lambda: torch.tensor(T, device="cpu"),
    "as_tensor on the host": lambda: torch.as_tensor(T, device="cpu"),
    "asarray on the host": lambda: torch.asarray(T, device="cpu", copy=True),
    "to a host tensor": lambda: T.to(torch.zeros(1)),
    "to a host type": lambda: T.type("torch.LongTensor"),
    "tensor_split": lambda: torch.tensor_split(T, T[1:3]),
    "tensor_split by name": lambda: T.tensor_split(tensor_indices_or_sections=T[1:3]),
    "split": lambda: T.split(T[2]),  # type: ignore[no-untyped-call]
    "linspace": lambda: torch.linspace(T[0], T[2], 3),
    "to_dlpack": lambda: torch.to_dlpack(T),  # type: ignore[attr-defined]
    "apply_": lambda: T.clone().apply_(abs),
    "map_": lambda: T.clone().map_(T, max),
    "pack_padded_sequence": lambda: pack_padded_sequence(
        torch.zeros(2, 3, 1), T[1:3].flip(0), batch_first=True
    ),
    "one_hot": lambda: torch.nn.functional.one_hot(T),
    "histc": lambda: torch.histc(T.float()),
    "to_sparse": lambda: T.to_sparse(),
    "storage of a type": lambda: T.storage()[0],  # type: ignore[no-untyped-call]
}

HARMLESS: dict[str, Callable[[], Any]] = {
    "arithmetic": lambda: (T + 1) * T,
    "shape": lambda: T.shape[0] + T.numel() + len(T),
    "dtype": lambda: T.to(torch.float32),
    "to of another tensor": lambda: T.float().to(T.dtype),
    "upload": lambda: torch.from_numpy(np.arange(3)) + torch.tensor([1, 2, 3]),
    "index": lambda: T[T],
    "write by index": lambda: torch.zeros(4).__setitem__(T, 1.0),
    "masked_fill": lambda: T.masked_fill(MASK, 0),
    "where of three": lambda: torch.where(MASK, T, 0),
    "slices": lambda: T[1:3].clone(),
    "iteration": lambda: [x + 1 for x in T],
    "repeat_interleave with a size": lambda: T.repeat_interleave(T, output_size=6),
    "write to a view": lambda: torch.zeros(4)[1:].add_(1),
    "as_tensor": lambda: torch.as_tensor(T),
    "deep copy": lambda: copy.deepcopy(T),
    "tensor of numbers on the host": lambda: torch.tensor([1, 2], device="cpu"),
    "as_tensor of host memory": lambda: torch.as_tensor(np.arange(3), device="cpu"),
    "tensor_split by numbers": lambda: T.tensor_split([1, 2]),
    "type": lambda: T.type(torch.int32),
    "copy from host": lambda: torch.zeros(4).copy_(torch.from_numpy(np.ones(4, np.float32))),
}


@pytest.fixture
def error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "error")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_planted_read_is_caught_with_its_stack(read: Callable[[], Any], error: None) -> None:
    with pytest.raises(SyncError, match="host read a device tensor") as caught, checked_step():
        read()
    assert "test_sync_check.py" in str(caught.value)
    assert "test_a_planted_read_is_caught_with_its_stack" in str(caught.value)


@pytest.mark.parametrize("read", HARMLESS.values(), ids=HARMLESS)
def test_what_reads_nothing_passes(read: Callable[[], Any], error: None) -> None:
    with checked_step():
        read()


def test_warn_names_the_reader_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "warn")
    with pytest.warns(SyncWarning, match="test_warn_names_the_reader"), checked_step():
        assert T.tolist() == [0, 1, 2, 3]


def test_the_mode_is_read_when_a_step_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with checked_step():
        T.tolist()
    monkeypatch.setenv(VARIABLE, "error")
    with pytest.raises(SyncError), checked_step():
        T.tolist()
    monkeypatch.setenv(VARIABLE, "off")
    with checked_step():
        T.tolist()


def test_an_unknown_mode_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")
    with pytest.raises(
        ConfigError, match="OPTIMIST_SYNC_CHECK: expected off, warn, error, got 'on'"
    ):
        mode()


def test_the_named_door_is_open_inside_a_step_and_copies(error: None) -> None:
    source = torch.arange(3)
    with checked_step():
        values = readback(source)
        source.add_(1)
        with pytest.raises(SyncError):
            source.tolist()
    assert values.tolist() == [0, 1, 2]


def test_outside_a_step_and_on_other_threads_reading_is_free(error: None) -> None:
    seen: list[list[int]] = []
    with checked_step():
        thread = threading.Thread(target=lambda: seen.append(T.tolist()))
        thread.start()
        thread.join()
    assert [*seen, T.tolist()] == [[0, 1, 2, 3]] * 2


def test_outside_a_step_and_behind_the_door_tensors_are_given_away_freely(error: None) -> None:
    with checked_step(), kernel_call():
        torch.to_dlpack(T)  # type: ignore[attr-defined]
    torch.to_dlpack(T)  # type: ignore[attr-defined]


def test_a_fault_leaves_the_check_as_it_was(error: None) -> None:
    with pytest.raises(SyncError), checked_step():
        T.tolist()
    assert T.tolist() == [0, 1, 2, 3]
    with pytest.raises(SyncError), checked_step():
        T.tolist()
