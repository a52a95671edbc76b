"""A GGUF file (version 2 or 3): metadata, tensor table and mapped bytes, all checked on opening."""

from __future__ import annotations

import mmap
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.gguf.layout import LAYOUTS, BlockLayout, type_name
from optimist.models.gguf.metadata import Metadata
from optimist.models.gguf.reader import HeaderReader, Value
from optimist.models.stored_file import StoredFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4


class TensorEntry(NamedTuple):
    """A tensor of the file. shape: [rows, ..., row length], the row length last.

    kind: number of its type. offset: of its first byte from the beginning of the file.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def layout(self) -> BlockLayout:
        return LAYOUTS[self.kind]

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) // self.layout.weights * self.layout.size


class GgufFile:
    """An open file. `tensors` is checked against the file: types, whole blocks, ends, overlaps.

    Raises ModelError naming file, tensor or key, what was needed and what is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stored = _mapped(path)
        try:
            self.metadata, self.tensors = _header(path, self.stored.data)
        except BaseException:
            self.stored.data.close()
            raise
        self._bytes = np.frombuffer(self.stored.data, np.uint8)

    def raw(self, entry: TensorEntry) -> NDArray[np.uint8]:
        """The stored bytes of a tensor, read-only, [rows, bytes of a row]. A view of the file."""
        stored = self._bytes[entry.offset : entry.offset + entry.size]
        return stored.reshape(prod(entry.shape[:-1]), -1)

    def close(self) -> None:
        """Unmap the file. Nothing that `raw` gave out may be in use any more."""
        self._bytes = np.empty(0, np.uint8)
        self.stored.data.close()


def read_metadata(path: Path) -> Metadata:
    """Only the metadata of a GGUF file, checked as on opening it."""
    with _mapped(path).data as data:
        return _header(path, data)[0]


def _mapped(path: Path) -> StoredFile:
    with path.open("rb") as file:
        magic = file.read(4)
        if magic != MAGIC:
            raise ModelError(
                f"{path}: expected a GGUF file, which begins with {MAGIC!r}; got {magic!r}"
            )
        return StoredFile.of(path, file)


def _header(path: Path, data: mmap.mmap) -> tuple[Metadata, dict[str, TensorEntry]]:
    reader = HeaderReader(path, data)
    reader.position = len(MAGIC)
    version = reader.number("I", "version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "big"), "little") in VERSIONS
        actual = "a big-endian file" if swapped else f"version {version}"
        raise ModelError(f"{path}: expected little-endian GGUF version 2 or 3, got {actual}")
    tensor_count = reader.number("Q", "tensor count")
    metadata = Metadata(path, _values(reader, reader.number("Q", "metadata count")))
    entries = _entries(reader, tensor_count)
    alignment = metadata.integer("general.alignment", 32)
    if alignment <= 0 or alignment & (alignment - 1):
        raise ModelError(f"{path}: general.alignment: expected a power of two, got {alignment}")
    start = -(-reader.position // alignment) * alignment
    placed = [entry._replace(offset=start + entry.offset) for entry in entries]
    _check_places(path, placed, alignment, start, len(data))
    return metadata, {entry.name: entry for entry in placed}


def _values(reader: HeaderReader, count: int) -> dict[str, Value]:
    reader.need(12 * count, "metadata")
    values: dict[str, Value] = {}
    for index in range(count):
        key = reader.text(f"metadata key {index}")
        if key in values:
            raise ModelError(f"{reader.path}: metadata {key}: given twice")
        values[key] = reader.value(f"metadata {key}")
    return values


def _entries(reader: HeaderReader, count: int) -> list[TensorEntry]:
    reader.need(24 * count, "tensor table")
    entries: dict[str, TensorEntry] = {}
    for index in range(count):
        entry = _entry(reader, f"tensor {index}")
        if entry.name in entries:
            raise ModelError(f"{reader.path}: tensor {entry.name}: given twice")
        entries[entry.name] = entry
    return list(entries.values())


def _entry(reader: HeaderReader, what: str) -> TensorEntry:
    name = reader.text(what)
    what = f"tensor {name}"
    dimensions = reader.number("I", what)
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ModelError(
            f"{reader.path}: {what}: expected 1 to {MAX_DIMENSIONS} dimensions, got {dimensions}"
        )
    shape = tuple(reader.number("Q", what) for _ in range(dimensions))[::-1]
    kind, offset = reader.number("I", what), reader.number("Q", what)
    if kind not in LAYOUTS:
        supported = ", ".join(layout.name for layout in LAYOUTS.values())
        raise ModelError(
            f"{reader.path}: {what}: expected one of {supported}; got {type_name(kind)}"
        )
    if shape[-1] % LAYOUTS[kind].weights or not prod(shape):
        raise ModelError(
            f"{reader.path}: {what}: expected rows of whole {LAYOUTS[kind].name} blocks of "
            f"{LAYOUTS[kind].weights} weights, got shape {list(shape)}"
        )
    return TensorEntry(name, shape, kind, offset)


def _check_places(
    path: Path, entries: list[TensorEntry], alignment: int, start: int, size: int
) -> None:
    end = start
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.offset % alignment:
            raise ModelError(
                f"{path}: tensor {entry.name}: expected an offset divisible by {alignment}, "
                f"got {entry.offset - start}"
            )
        if entry.offset < end:
            raise ModelError(
                f"{path}: tensor {entry.name}: begins at byte {entry.offset}, inside the tensor "
                f"before it, which ends at byte {end}"
            )
        end = entry.offset + entry.size
        if end > size:
            raise ModelError(
                f"{path}: tensor {entry.name}: needed {entry.size} bytes at byte {entry.offset}, "
                f"but the file ends at byte {size}"
            )
