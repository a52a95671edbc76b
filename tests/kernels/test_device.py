"""How host values reach a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels import device
from optimist.kernels.device import PART, upload_together

VALUES: list[NDArray[Any]] = [
    np.arange(3, dtype=np.int32),
    np.zeros(0, np.int64),
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.array([0.5], np.float32),
    np.array([True, False]),
]


def test_several_arrays_are_one_copy_whose_parts_begin_where_kernels_expect_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: list[Tensor] = []

    def enqueued(host: Tensor, target: torch.device) -> Tensor:
        assert target.type == "cuda"
        copies.append(host)
        return host

    monkeypatch.setattr(device, "_enqueued", enqueued)
    found = upload_together(VALUES, torch.device("cuda:0"))
    assert len(copies) == 1
    for got, want in zip(found, VALUES, strict=True):
        assert got.numpy().dtype == want.dtype
        assert got.tolist() == want.tolist()
        assert got.storage_offset() * got.itemsize % PART == 0


def test_on_a_cpu_nothing_is_copied() -> None:
    found = upload_together(VALUES, torch.device("cpu"))
    assert [one.tolist() for one in found] == [one.tolist() for one in VALUES]
    assert found[0].data_ptr() == VALUES[0].ctypes.data
