"""The safetensors files of a Hugging Face folder, as one set of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.huggingface.json_file import JsonFile, read_json
from optimist.models.huggingface.safetensors import SafetensorsFile, StoredTensor
from optimist.models.stored_file import StoredFile

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Shards:
    """Every safetensors file that a folder's index names, or model.safetensors alone.

    Raises ModelError when one is absent, when index and files disagree, or a tensor is in two.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, SafetensorsFile] = {}
        self._stored: list[StoredFile] = []
        with ExitStack() as stack:
            for path in _paths(folder):
                file = SafetensorsFile(path)
                stack.callback(file.close)
                self._stored.append(file.stored)
                for name in file.tensors:
                    if (other := self._files.get(name)) is not None:
                        raise ModelError(f"{path}: tensor {name}: also in {other.path}")
                    self._files[name] = file
            _check_index(folder, self._files)
            self._close = stack.pop_all().close

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __getitem__(self, name: str) -> StoredTensor:
        return self._files[name].tensors[name]

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The stored bytes of a tensor, read-only, [rows, bytes of a row]."""
        return self._files[name].raw(self[name])

    def files(self) -> tuple[StoredFile, ...]:
        """Each file once, by its name."""
        return tuple(self._stored)

    def close(self) -> None:
        self._close()


def _paths(folder: Path) -> list[Path]:
    if not (folder / INDEX).exists():
        if not (folder / SINGLE).exists():
            raise ModelError(f"{folder}: expected {SINGLE} or {INDEX}, found neither")
        return [folder / SINGLE]
    names = sorted(set(_weight_map(folder).values()))
    for name in names:
        if Path(name).name != name:
            raise ModelError(f"{folder / INDEX}: weight_map: expected file names, got {name!r}")
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name}: missing, although {INDEX} names it")
    return [folder / name for name in names]


def _weight_map(folder: Path) -> dict[str, str]:
    index: JsonFile = read_json(folder / INDEX)
    found = index.section("weight_map").values
    texts = {name: file for name, file in found.items() if isinstance(file, str)}
    if not texts or len(texts) != len(found):
        raise index.refused("weight_map", "an object of file names")
    return texts


def _check_index(folder: Path, files: dict[str, SafetensorsFile]) -> None:
    if not (folder / INDEX).exists():
        return
    for name, shard in _weight_map(folder).items():
        file = files.get(name)
        if file is None or file.path.name != shard:
            where = "no shard" if file is None else file.path.name
            raise ModelError(f"{folder / shard}: tensor {name}: needed here, found in {where}")
