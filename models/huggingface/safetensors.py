"""A safetensors file: a table in JSON, then bytes. All of it is checked on opening."""

from __future__ import annotations

import json
import mmap
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.stored_file import StoredFile

MAX_HEADER = 100_000_000
ITEM_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
"""bytes per weight of the supported dtypes"""


class StoredTensor(NamedTuple):
    """A tensor of the file. offset: of its first byte from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class SafetensorsFile:
    """An open file. `tensors` is checked: dtypes, sizes, and that they fill the file exactly.

    Raises ModelError naming file, tensor, what was needed and what is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = _size(path)
        with path.open("rb") as file:
            self.stored = StoredFile.of(path, file)
        try:
            self.tensors = _tensors(path, self.stored.data, size)
        except BaseException:
            self.stored.data.close()
            raise
        self._bytes = np.frombuffer(self.stored.data, np.uint8)

    def raw(self, tensor: StoredTensor) -> NDArray[np.uint8]:
        """The stored bytes, read-only, [rows, bytes of a row]. A view of the file."""
        stored = self._bytes[tensor.offset : tensor.offset + tensor.size]
        return stored.reshape(tensor.shape[0], -1)

    def close(self) -> None:
        """Unmap the file. Nothing that `raw` gave out may be in use any more."""
        self._bytes = np.empty(0, np.uint8)
        self.stored.data.close()


def widen(dtype: str, raw: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
    """Fill contiguous `out` with the weights of `raw`, stored as `dtype`."""
    flat = out.reshape(-1)
    stored = np.ascontiguousarray(raw).reshape(-1)
    match dtype:
        case "F32":
            flat[...] = stored.view("<f4")
        case "F16":
            flat[...] = stored.view("<f2")
        case "BF16":
            np.left_shift(stored.view("<u2"), 16, out=flat.view(np.uint32), dtype=np.uint32)


def _size(path: Path) -> int:
    size = path.stat().st_size
    if size < 8:
        raise ModelError(f"{path}: needed 8 bytes for the header's length, the file has {size}")
    return size


def _tensors(path: Path, data: mmap.mmap, size: int) -> dict[str, StoredTensor]:
    length = int.from_bytes(data[:8], "little")
    if length > min(size - 8, MAX_HEADER):
        raise ModelError(
            f"{path}: header: needed {length} bytes at byte 8, but the file ends at byte {size}"
        )
    table = _table(path, data[8 : 8 + length])
    found = [
        _tensor(path, name, entry, 8 + length)
        for name, entry in table.items()
        if name != "__metadata__"
    ]
    _check_places(path, found, 8 + length, size)
    return {tensor.name: tensor for tensor in found}


def _table(path: Path, raw: bytes) -> dict[str, object]:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise ModelError(f"{path}: header: a name is given twice")
        return table

    try:
        table: object = json.loads(raw, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: header: expected JSON, got {error}") from None
    if not isinstance(table, dict):
        raise ModelError(f"{path}: header: expected a JSON object, got {type(table).__name__}")
    return table


def _tensor(path: Path, name: str, entry: object, start: int) -> StoredTensor:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise ModelError(
                f"{path}: tensor {name}: expected dtype, shape and data_offsets, got {entry!r:.120}"
            )
    sizes = tuple(axis for axis in shape if type(axis) is int and axis > 0)
    if len(sizes) != len(shape) or not sizes:
        raise ModelError(f"{path}: tensor {name}: expected axes of 1 or more, got shape {shape}")
    if dtype not in ITEM_SIZES:
        raise ModelError(
            f"{path}: tensor {name}: expected one of {', '.join(ITEM_SIZES)}; got dtype {dtype}"
        )
    needed = prod(sizes) * ITEM_SIZES[dtype]
    if begin < 0 or end - begin != needed:
        raise ModelError(
            f"{path}: tensor {name}: needed {needed} bytes for {dtype} {list(sizes)}, "
            f"got offsets {begin} to {end}"
        )
    return StoredTensor(name, dtype, sizes, start + begin, needed)


def _check_places(path: Path, found: list[StoredTensor], start: int, size: int) -> None:
    end = start
    for tensor in sorted(found, key=lambda tensor: tensor.offset):
        if tensor.offset != end:
            raise ModelError(
                f"{path}: tensor {tensor.name}: needed to begin at byte {end}, where the one "
                f"before it ends; got byte {tensor.offset}"
            )
        end += tensor.size
        if end > size:
            raise ModelError(
                f"{path}: tensor {tensor.name}: needed {tensor.size} bytes at byte "
                f"{tensor.offset}, but the file ends at byte {size}"
            )
    if end != size:
        raise ModelError(f"{path}: needed to end at byte {end}, but the file has {size} bytes")
