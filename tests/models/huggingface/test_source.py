"""Weights of Hugging Face folders under canonical names."""

from __future__ import annotations

import json
from pathlib import Path

import model_files as files
import numpy as np
import pytest

from optimist.messages.errors import ModelError
from optimist.models.source import open_source

Stored = dict[str, tuple[str, tuple[int, ...], bytes]]


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        open_source(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def tensors(**options: bool) -> Stored:
    return files.huggingface_tensors(files.weights(files.shapes(**options)))


def halves(stored: Stored) -> tuple[Stored, Stored]:
    names = list(stored)
    return (
        {name: stored[name] for name in names[: len(names) // 2]},
        {name: stored[name] for name in names[len(names) // 2 :]},
    )


@pytest.mark.parametrize(
    ("architecture", "biases", "qk_norm", "head"),
    [
        ("llama", False, False, False),
        ("mistral", False, False, True),
        ("qwen2", True, False, False),
        ("qwen3", False, True, True),
    ],
)
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("shards", [1, 2])
def test_the_small_model_of_each_architecture_is_read(
    architecture: str,
    biases: bool,
    qk_norm: bool,
    head: bool,
    dtype: str,
    shards: int,
    tmp_path: Path,
) -> None:
    weights = files.weights(files.shapes(biases=biases, qk_norm=qk_norm, head=head))
    stored = files.huggingface_tensors(weights, dtype)
    config = files.huggingface_config(architecture, tie_word_embeddings=not head)
    parts = halves(stored) if shards == 2 else (stored,)
    with open_source(files.write_huggingface(tmp_path / "m", config, *parts)) as source:
        assert sorted(source.names()) == sorted(weights)
        for name, value in weights.items():
            assert source.stored_type(name) == dtype
            assert np.array_equal(source.tensor(name), value), name


def test_pieces_put_together_are_the_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimist.models.base.CHUNK", 7 * files.HIDDEN)
    weights = files.weights(files.shapes())
    folder = files.write_huggingface(
        tmp_path / "m", files.huggingface_config(), files.huggingface_tensors(weights)
    )
    with open_source(folder) as source:
        for name, value in weights.items():
            pieces = [piece.copy() for _, piece in source.chunks(name)]
            assert np.array_equal(np.concatenate(pieces), value)


def test_a_short_shard_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), *halves(tensors()))
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4096])
    assert shard.name in refusal(folder)


def test_an_absent_shard_is_refused_by_its_name(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), *halves(tensors()))
    (folder / "model-00001-of-00002.safetensors").unlink()
    assert "model-00001-of-00002.safetensors: missing" in refusal(folder)


def test_an_index_that_places_a_tensor_elsewhere_is_refused(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), *halves(tensors()))
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors"
    path.write_text(json.dumps(index))
    said = refusal(folder)
    assert "tensor model.norm.weight: needed here, found in model-00002-of" in said


@pytest.mark.parametrize("name", ["../m.safetensors", "/etc/passwd", "a/b.safetensors", ""])
def test_an_index_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), tensors())
    index = {"weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "expected file names" in refusal(folder) or "missing" in refusal(folder)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    first, second = halves(tensors())
    name = next(iter(second))
    folder = files.write_huggingface(
        tmp_path / "m", files.huggingface_config(), first | {name: second[name]}, second
    )
    assert f"tensor {name}: also in" in refusal(folder)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), tensors())
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert "expected model.safetensors or" in refusal(folder)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight"])
def test_a_missing_tensor_is_refused_by_name_and_shape(name: str, tmp_path: Path) -> None:
    stored = tensors(head=True)
    shape = list(stored.pop(name)[1])
    config = files.huggingface_config(tie_word_embeddings=False)
    said = refusal(files.write_huggingface(tmp_path / "m", config, stored))
    assert f"tensor {name}: needed shape {shape}, but it is missing" in said


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    stored = tensors()
    name = "model.layers.1.mlp.up_proj.weight"
    dtype, shape, raw = stored[name]
    stored[name] = (dtype, shape[::-1], raw)
    said = refusal(files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored))
    assert f"tensor {name}: needed shape [64, 32], got [32, 64]" in said


def test_a_tensor_of_another_dtype_is_refused(tmp_path: Path) -> None:
    stored = tensors()
    stored["model.norm.weight"] = ("I64", (32,), bytes(256))
    said = refusal(files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored))
    assert "tensor model.norm.weight: expected one of F32, F16, BF16; got dtype I64" in said


def test_a_tensor_that_would_change_the_result_is_refused(tmp_path: Path) -> None:
    stored = tensors()
    name = "model.layers.0.self_attn.q_norm.weight"
    stored[name] = files.stored(np.ones(8, np.float32), "BF16")
    said = refusal(files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored))
    assert f"tensor {name}: not needed" in said


def test_rotary_frequencies_are_left_alone(tmp_path: Path) -> None:
    stored = tensors()
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    stored[name] = files.stored(np.ones(4, np.float32), "F32")
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored)
    with open_source(folder) as source:
        assert "layers.0.q" in source.names()


def test_a_tied_head_may_be_there_when_it_equals_the_embedding(tmp_path: Path) -> None:
    stored = tensors()
    stored["lm_head.weight"] = stored["model.embed_tokens.weight"]
    folder = files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored)
    with open_source(folder) as source:
        assert source.config.tie_embeddings and "head" not in source.names()
    stored["lm_head.weight"] = tensors(head=True)["lm_head.weight"]
    said = refusal(files.write_huggingface(tmp_path / "m", files.huggingface_config(), stored))
    assert "lm_head.weight: needed to equal model.embed_tokens.weight" in said
