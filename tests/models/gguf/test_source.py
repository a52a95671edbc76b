"""Weights of GGUF files under canonical names."""

from __future__ import annotations

from pathlib import Path

import gguf
import gguf.quants
import model_files as files
import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.config import FactorsRope
from optimist.models.default import default_model
from optimist.models.source import WeightSource, open_source

Weights = dict[str, NDArray[np.float32]]


def write(path: Path, metadata: dict[str, object], tensors: dict[str, files.GgufTensor]) -> Path:
    path.write_bytes(files.gguf_bytes(metadata, tensors))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        open_source(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def assert_holds(source: WeightSource, weights: Weights) -> None:
    assert sorted(source.names()) == sorted(weights)
    for name, value in weights.items():
        assert source.shape(name) == value.shape
        assert np.array_equal(source.tensor(name), value), name


@pytest.mark.parametrize(
    ("architecture", "biases", "qk_norm", "head"),
    [
        ("llama", False, False, False),
        ("llama", False, False, True),
        ("llama", True, False, True),
        ("qwen2", True, False, False),
        ("qwen3", False, True, True),
    ],
)
def test_the_small_model_of_each_architecture_is_read_in_rotate_half_order(
    architecture: str, biases: bool, qk_norm: bool, head: bool, tmp_path: Path
) -> None:
    weights = files.weights(files.shapes(biases=biases, qk_norm=qk_norm, head=head))
    path = write(
        tmp_path / "m.gguf",
        files.gguf_metadata(architecture),
        files.gguf_tensors(weights, architecture),
    )
    with open_source(path) as source:
        assert source.config.attention_bias is biases
        assert source.config.qk_norm is qk_norm
        assert source.config.tie_embeddings is not head
        assert_holds(source, weights)


def test_the_default_model_is_dequantised_as_by_an_outside_implementation() -> None:
    theirs = {entry.name: entry for entry in gguf.GGUFReader(default_model()).tensors}
    with open_source(default_model()) as source:
        assert len(source.names()) == len(theirs)
        for name, stored, heads in (
            ("embed", "token_embd.weight", 0),
            ("layers.29.q", "blk.29.attn_q.weight", 9),
            ("layers.0.k", "blk.0.attn_k.weight", 3),
            ("layers.7.down", "blk.7.ffn_down.weight", 0),
            ("norm", "output_norm.weight", 0),
        ):
            entry = theirs[stored]
            value = gguf.quants.dequantize(entry.data, entry.tensor_type)
            ours = source.tensor(name)
            if heads:
                ours = files.interleaved(ours, heads)
            assert np.array_equal(ours, value), name
        assert source.stored_type("embed") == "Q8_0"
        assert source.stored_type("layers.3.gate") == "Q4_1"


@pytest.mark.parametrize("name", ["embed", "layers.1.q", "layers.0.k", "layers.1.down", "norm"])
def test_pieces_put_together_are_the_tensor(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimist.models.base.CHUNK", 7 * files.HIDDEN)
    weights = files.weights(files.shapes())
    path = write(tmp_path / "m.gguf", files.gguf_metadata(), files.gguf_tensors(weights))
    with open_source(path) as source:
        pieces = [(start, piece.copy()) for start, piece in source.chunks(name)]
    assert np.array_equal(np.concatenate([piece for _, piece in pieces]), weights[name])
    lengths = [len(piece) for _, piece in pieces]
    assert [start for start, _ in pieces] == [sum(lengths[:at]) for at in range(len(lengths))]


def test_arrays_outlive_the_source(tmp_path: Path) -> None:
    weights = files.weights(files.shapes())
    path = write(tmp_path / "m.gguf", files.gguf_metadata(), files.gguf_tensors(weights))
    source = open_source(path)
    kept = source.tensor("embed")
    source.close()
    path.unlink()
    assert np.array_equal(kept, weights["embed"])


@pytest.mark.parametrize(
    "missing", ["output_norm.weight", "blk.1.attn_k.weight", "token_embd.weight"]
)
def test_a_missing_tensor_is_refused_by_name_and_shape(missing: str, tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    shape = list(tensors.pop(missing).shape)
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert f"tensor {missing}: needed shape {shape}, but it is missing" in said


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    name = "blk.0.ffn_up.weight"
    tensors[name] = tensors[name]._replace(shape=(files.HIDDEN, files.FFN))
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert f"tensor {name}: needed shape [64, 32], got [32, 64]" in said


@pytest.mark.parametrize(
    "extra", ["blk.0.attn_q_norm.weight", "blk.0.ffn_gate_exps.weight", "blk.2.attn_q.weight", "x"]
)
def test_a_tensor_that_would_change_the_result_is_refused(extra: str, tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    tensors[extra] = files.GgufTensor((8,), 0, bytes(32))
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert f"tensor {extra}: not needed" in said


def test_a_bias_in_one_layer_only_is_refused(tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    tensors["blk.0.attn_q.bias"] = files.GgufTensor((32,), 0, bytes(128))
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert "blk.0.attn_k.bias" in said and "missing" in said


def test_rope_factors_in_the_file_become_part_of_the_config(tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    factors = np.array([1, 1, 2, 8], np.float32)
    tensors["rope_freqs.weight"] = files.GgufTensor((4,), 0, factors.tobytes())
    with open_source(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors)) as source:
        assert source.config.rope_scaling == FactorsRope(factors=(1.0, 1.0, 2.0, 8.0))


def test_rope_factors_of_another_length_are_refused(tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    tensors["rope_freqs.weight"] = files.GgufTensor((8,), 0, np.ones(8, np.float32).tobytes())
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert "tensor rope_freqs.weight: needed shape [4], got [8]" in said


def test_a_rope_factor_that_is_no_factor_is_refused(tmp_path: Path) -> None:
    tensors = files.gguf_tensors(files.weights(files.shapes()))
    factors = np.array([1, 1, 0, 8], np.float32)
    tensors["rope_freqs.weight"] = files.GgufTensor((4,), 0, factors.tobytes())
    said = refusal(write(tmp_path / "m.gguf", files.gguf_metadata(), tensors))
    assert "rope factors[2]: expected more than 0, got 0.0" in said


def test_nothing_at_the_path_is_refused(tmp_path: Path) -> None:
    assert "found nothing there" in refusal(tmp_path / "absent.gguf")
