"""Opening GGUF files: good ones, cut ones and inconsistent ones."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import model_files as files
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimist.messages.errors import ModelError
from optimist.models.default import default_model
from optimist.models.gguf.file import GgufFile

PLAIN = {"general.architecture": "llama"}


def tensor(size: int = 8, kind: int = 0) -> files.GgufTensor:
    return files.GgufTensor((size,), kind, np.arange(size, dtype=np.float32).tobytes())


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        GgufFile(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def good() -> bytes:
    return files.gguf_bytes(
        files.gguf_metadata(), files.gguf_tensors(files.weights(files.shapes()))
    )


def test_the_default_model_reads_as_an_outside_reader_reads_it() -> None:
    theirs = gguf.GGUFReader(default_model())
    ours = GgufFile(default_model())
    assert list(ours.tensors) == [entry.name for entry in theirs.tensors]
    for entry in theirs.tensors:
        mine = ours.tensors[entry.name]
        assert mine.shape == tuple(int(axis) for axis in entry.shape[::-1])
        assert (mine.kind, mine.offset, mine.size) == (
            entry.tensor_type,
            entry.data_offset,
            entry.n_bytes,
        )
    names = theirs.fields["tokenizer.ggml.tokens"].contents()
    assert ours.metadata.texts("tokenizer.ggml.tokens") == names
    theta = theirs.fields["llama.rope.freq_base"].contents()
    assert ours.metadata.real("llama.rope.freq_base") == theta
    ours.close()


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(version: int, tmp_path: Path) -> None:
    content = files.gguf_bytes(PLAIN, {"a": tensor()}, version=version)
    file = GgufFile(write(tmp_path / "m.gguf", content))
    assert file.raw(file.tensors["a"]).view(np.float32).tolist() == [list(range(8))]
    file.close()


def test_values_of_every_type_are_read(tmp_path: Path) -> None:
    numbers = {f"n{kind}": files.Int(100, kind) for kind in (0, 1, 2, 3, 4, 5, 10, 11)}
    metadata = PLAIN | numbers | {"yes": True, "no": False, "real": 0.5, "text": "söme"}
    metadata |= {
        "double": files.Int(3, 12),
        "texts": files.Array(8, ["a", "", "ü"]),
        "ints": files.Array(5, [-1, 2]),
        "nested": files.Array(9, [files.Array(5, [1]), files.Array(5, [2, 3])]),
        "last": "end",
    }
    file = GgufFile(write(tmp_path / "m.gguf", files.gguf_bytes(metadata, {"a": tensor()})))
    found = file.metadata
    assert [found.integer(key) for key in numbers] == [100] * len(numbers)
    assert (found.flag("yes"), found.flag("no")) == (True, False)
    assert (found.real("real"), found.real("double"), found.text("text")) == (0.5, 3.0, "söme")
    assert (found.texts("texts"), found.integers("ints")) == (["a", "", "ü"], [-1, 2])
    assert found.text("last") == "end"
    file.close()


def test_a_getter_names_file_key_expected_and_actual(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", files.gguf_bytes(PLAIN | {"k": "text"}, {}))
    metadata = GgufFile(path).metadata
    with pytest.raises(ModelError, match=r"m\.gguf: metadata k: expected an integer, got b'text'"):
        metadata.integer("k")
    with pytest.raises(ModelError, match=r"metadata absent: missing"):
        metadata.text("absent")
    with pytest.raises(ModelError, match=r"metadata k: expected an array of strings"):
        metadata.texts("k")


def test_a_file_cut_at_or_beside_any_border_is_refused(good: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "good.gguf", good)
    whole = GgufFile(path)
    borders = {entry.offset for entry in whole.tensors.values()}
    borders |= {entry.offset + entry.size for entry in whole.tensors.values()}
    whole.close()
    cuts = {border + beside for border in borders for beside in (-1, 0, 1)} | {0, 3, 4, 8, 24}
    cuts = {cut for cut in cuts if cut < len(good)}
    assert len(cuts) > 60
    for cut in sorted(cuts):
        said = refusal(write(tmp_path / "cut.gguf", good[:cut]))
        assert f"byte {cut}" in said or cut < 4
        assert "tensor " in said or cut < 2000


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(cut=st.integers(0, 20_000), seed=st.integers(0, 2**32 - 1))
def test_a_file_with_damaged_bytes_is_read_or_refused_by_name(
    cut: int, seed: int, good: bytes, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    content = bytearray(good[: len(good) - cut])
    for at in rng.integers(0, min(len(content), 1500), 3):
        content[at] = rng.integers(0, 256)
    path = write(tmp_path / "damaged.gguf", bytes(content))
    try:
        GgufFile(path).close()
    except ModelError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("content", [b"", b"GG", b"GGML" + bytes(60), b"PK\x03\x04" + bytes(60)])
def test_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    assert "begins with b'GGUF'" in refusal(write(tmp_path / "m.gguf", content))


@pytest.mark.parametrize(
    ("version", "said"), [(1, "version 1"), (4, "version 4"), (3 << 24, "big-endian")]
)
def test_another_version_is_refused(version: int, said: str, tmp_path: Path) -> None:
    content = files.gguf_bytes(PLAIN, {"a": tensor()}, version=version)
    assert said in refusal(write(tmp_path / "m.gguf", content))


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (struct.pack("<QQ", 2**62, 0), "tensor table"),
        (struct.pack("<QQ", 0, 2**62), "metadata: needed"),
        (struct.pack("<QQQ", 0, 1, 2**63), "metadata key 0: needed"),
    ],
)
def test_counts_beyond_the_file_are_refused_before_anything_is_sized_by_them(
    head: bytes, said: str, tmp_path: Path
) -> None:
    content = b"GGUF" + struct.pack("<I", 3) + head + bytes(40)
    assert said in refusal(write(tmp_path / "m.gguf", content))


def test_an_array_beyond_the_file_is_refused(tmp_path: Path) -> None:
    for kind in (5, 8, 9, 12):
        value = struct.pack("<IIQ", 9, kind, 2**60)
        head = struct.pack("<IQQ", 3, 0, 1) + files.gguf_text("k") + value
        assert "metadata k: needed" in refusal(write(tmp_path / "m", b"GGUF" + head + bytes(50)))


def test_arrays_nested_without_end_are_refused(tmp_path: Path) -> None:
    value = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000
    head = struct.pack("<IQQ", 3, 0, 1) + files.gguf_text("k") + value
    assert "nested deeper" in refusal(write(tmp_path / "m", b"GGUF" + head + bytes(50)))


def test_an_unknown_value_type_is_refused(tmp_path: Path) -> None:
    head = struct.pack("<IQQ", 3, 0, 1) + files.gguf_text("k") + struct.pack("<I", 13)
    said = refusal(write(tmp_path / "m.gguf", b"GGUF" + head + bytes(50)))
    assert "metadata k: expected a value type of 0..12, got 13" in said


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    pair = files.gguf_text("k") + files.gguf_value(1)
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + pair + pair
    assert "metadata k: given twice" in refusal(write(tmp_path / "m.gguf", content))


def test_a_key_that_is_no_text_is_refused(tmp_path: Path) -> None:
    pair = files.gguf_text(b"\xff\xfe") + files.gguf_value(1)
    content = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair
    assert "expected UTF-8" in refusal(write(tmp_path / "m.gguf", content))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (files.GgufTensor((8, 1, 1, 1, 1), 0, bytes(32)), "1 to 4 dimensions, got 5"),
        (files.GgufTensor((0,), 0, b""), "got shape [0]"),
        (files.GgufTensor((2, 48), 8, bytes(102)), "whole Q8_0 blocks of 32 weights"),
        (files.GgufTensor((256,), 10, bytes(84)), "got Q2_K"),
        (files.GgufTensor((256,), 99, bytes(84)), "got unknown type 99"),
        (files.GgufTensor((8,), 4, bytes(32)), "got unknown type 4"),
    ],
)
def test_a_tensor_that_cannot_be_read_is_refused_by_name(
    entry: files.GgufTensor, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "m.gguf", files.gguf_bytes(PLAIN, {"blk.0.x": entry}))
    assert "tensor blk.0.x" in refusal(path) and said in refusal(path)


@pytest.mark.parametrize(
    ("offset", "said"),
    [(0, "inside the tensor before it"), (8, "divisible by 32"), (2**63, "file ends at byte")],
)
def test_a_tensor_in_a_wrong_place_is_refused(offset: int, said: str, tmp_path: Path) -> None:
    content = files.gguf_bytes(PLAIN, {"a": tensor(), "b": tensor()}, offsets={"b": offset})
    path = write(tmp_path / "m.gguf", content)
    assert "tensor b" in refusal(path) and said in refusal(path)


@pytest.mark.parametrize("alignment", [0, 24])
def test_an_alignment_that_is_no_power_of_two_is_refused(alignment: int, tmp_path: Path) -> None:
    content = files.gguf_bytes(PLAIN | {"general.alignment": alignment}, {"a": tensor()})
    assert "general.alignment" in refusal(write(tmp_path / "m.gguf", content))
