"""Opening safetensors files: good ones, cut ones and inconsistent ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import model_files as files
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.huggingface.safetensors import SafetensorsFile, widen

VALUES = {
    "a": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.ones(5, np.float32),
    "c": np.full((2, 1024), 0.25, np.float32),
}


def good(dtype: str = "F32") -> bytes:
    return files.safetensors_bytes(
        {name: files.stored(value, dtype) for name, value in VALUES.items()}
    )


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        SafetensorsFile(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def read(file: SafetensorsFile, name: str) -> NDArray[np.float32]:
    tensor = file.tensors[name]
    out = np.full(tensor.shape, np.nan, np.float32)
    widen(tensor.dtype, file.raw(tensor), out)
    return out


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_every_dtype_is_read_exactly(dtype: str, tmp_path: Path) -> None:
    file = SafetensorsFile(write(tmp_path / "m.safetensors", good(dtype)))
    assert sorted(file.tensors) == sorted(VALUES)
    for name, value in VALUES.items():
        assert np.array_equal(read(file, name), value)
    file.close()


def test_a_file_that_the_library_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file(VALUES, path)
    file = SafetensorsFile(path)
    for name, value in VALUES.items():
        assert np.array_equal(read(file, name), value)
    file.close()


def test_a_file_cut_by_4_kib_is_refused(tmp_path: Path) -> None:
    said = refusal(write(tmp_path / "m.safetensors", good()[:-4096]))
    assert "tensor c: needed 8192 bytes" in said
    assert f"file ends at byte {len(good()) - 4096}" in said


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = good()
    for cut in [*range(0, 400, 7), *range(len(content) - 64, len(content))]:
        refusal(write(tmp_path / "m.safetensors", content[:cut]))


def test_bytes_behind_the_last_tensor_are_refused(tmp_path: Path) -> None:
    said = refusal(write(tmp_path / "m.safetensors", good() + bytes(8)))
    assert f"needed to end at byte {len(good())}" in said


@pytest.mark.parametrize("length", [2**63, 10**9, 9000, 2**64 - 1])
def test_a_header_longer_than_the_file_is_refused(length: int, tmp_path: Path) -> None:
    content = struct.pack("<Q", length) + good()[8:]
    assert f"header: needed {length} bytes" in refusal(write(tmp_path / "m.st", content))


def entry(**changes: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [5], "data_offsets": [48, 68]} | changes


@pytest.mark.parametrize(
    ("b", "said"),
    [
        (entry(data_offsets=[40, 60]), "needed to begin at byte"),
        (entry(data_offsets=[52, 72]), "needed to begin at byte"),
        (entry(data_offsets=[48, 52]), "needed 20 bytes for F32 [5], got offsets 48 to 52"),
        (entry(data_offsets=[-20, 0]), "got offsets -20 to 0"),
        (entry(data_offsets=[68, 48]), "got offsets 68 to 48"),
        (entry(data_offsets=[48]), "expected dtype, shape and data_offsets"),
        (entry(shape=[6]), "needed 24 bytes"),
        (entry(shape=[0]), "axes of 1 or more"),
        (entry(shape=[-5]), "axes of 1 or more"),
        (entry(shape=["5"]), "axes of 1 or more"),
        (entry(shape=[]), "axes of 1 or more"),
        (entry(shape=[2**40, 2**40]), "needed"),
        (entry(dtype="I8"), "expected one of F32, F16, BF16; got dtype I8"),
        (entry(dtype="F8_E4M3"), "got dtype F8_E4M3"),
        (entry(dtype=3), "expected dtype, shape and data_offsets"),
        ([], "expected dtype, shape and data_offsets"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused_by_name(
    b: object, said: str, tmp_path: Path
) -> None:
    tensors = {name: files.stored(value, "F32") for name, value in VALUES.items()}
    found = refusal(write(tmp_path / "m.st", files.safetensors_bytes(tensors, b=b)))
    assert said in found
    assert "tensor b" in found or "tensor c" in found


def raw_header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[]", "expected a JSON object, got list"),
        (b"{", "expected JSON"),
        (b"\xff\xfe\xff", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b'{"a": {}, "a": {}}', "a name is given twice"),
        (json.dumps({"a": None}).encode(), "tensor a: expected dtype"),
    ],
)
def test_a_header_that_is_no_table_is_refused(text: bytes, said: str, tmp_path: Path) -> None:
    assert said in refusal(write(tmp_path / "m.st", raw_header(text)))


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_bytes_are_read_or_refused_by_name(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    content = bytearray(good())
    for at in rng.integers(0, 300, 3):
        content[at] = rng.integers(0, 256)
    path = write(tmp_path / "m.safetensors", bytes(content))
    try:
        SafetensorsFile(path).close()
    except ModelError as error:
        assert str(path) in str(error)
