"""ModelConfig out of config.json."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import model_files as files
import pytest

from optimist.messages.errors import ModelError
from optimist.models.config import LinearRope, Llama3Rope, ModelConfig, PlainRope, YarnRope
from optimist.models.huggingface.config import huggingface_config


def config(tmp_path: Path, architecture: str = "llama", /, **changes: object) -> ModelConfig:
    values = files.huggingface_config(architecture, **changes)
    (tmp_path / "config.json").write_text(json.dumps(values))
    return huggingface_config(tmp_path)


def test_the_small_model(tmp_path: Path) -> None:
    assert config(tmp_path) == ModelConfig(
        architecture="llama",
        vocab_size=files.VOCAB,
        hidden_size=files.HIDDEN,
        num_layers=files.LAYERS,
        num_heads=files.HEADS,
        num_kv_heads=files.KV_HEADS,
        head_dim=files.HEAD_DIM,
        intermediate_size=files.FFN,
        max_model_len=128,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_embeddings=True,
        eos_ids=(2,),
        bos_id=1,
    )


def test_what_a_config_may_leave_out_has_the_usual_value(tmp_path: Path) -> None:
    left_out = dict.fromkeys(
        ("head_dim", "num_key_value_heads", "rope_theta", "tie_word_embeddings", "rms_norm_eps")
    )
    found = config(tmp_path, **left_out)
    assert (found.head_dim, found.num_kv_heads) == (files.HIDDEN // files.HEADS, files.HEADS)
    assert (found.rope_theta, found.tie_embeddings, found.rms_norm_eps) == (10000.0, False, 1e-6)
    assert config(tmp_path, "qwen3", head_dim=None).head_dim == 128


def test_biases_and_norms_follow_the_architecture(tmp_path: Path) -> None:
    kinds = {name: config(tmp_path, name) for name in ("llama", "mistral", "qwen2", "qwen3")}
    assert [name for name, found in kinds.items() if found.attention_bias] == ["qwen2"]
    assert [name for name, found in kinds.items() if found.qk_norm] == ["qwen3"]
    biased = config(tmp_path, attention_bias=True)
    assert (biased.attention_bias, biased.output_bias) == (True, True)
    assert not kinds["qwen2"].output_bias


def test_the_generation_config_has_the_last_word_on_ends(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 4]}))
    assert config(tmp_path).eos_ids == (4, 9)
    assert config(tmp_path, eos_token_id=None).eos_ids == (4, 9)


@pytest.mark.parametrize(
    ("architecture", "changes", "window"),
    [
        ("mistral", {"sliding_window": 64}, 64),
        ("mistral", {"sliding_window": 4096}, None),
        ("mistral", {}, None),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False}, None),
        (
            "qwen2",
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 0},
            64,
        ),
        (
            "qwen3",
            {
                "sliding_window": 64,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention"] * 2,
            },
            64,
        ),
        ("llama", {"sliding_window": 64}, None),
    ],
)
def test_windows(
    architecture: str, changes: dict[str, object], window: int | None, tmp_path: Path
) -> None:
    assert config(tmp_path, architecture, **changes).sliding_window == window


def test_mistral_without_a_word_on_it_has_a_window(tmp_path: Path) -> None:
    assert config(tmp_path, "mistral", max_position_embeddings=8192).sliding_window == 4096


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, PlainRope()),
        ({"rope_type": "default"}, PlainRope()),
        ({"type": "linear", "factor": 2.0}, LinearRope(factor=2.0)),
        ({"rope_type": "dynamic", "factor": 2.0}, PlainRope()),
        (
            LLAMA3,
            Llama3Rope(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=64),
        ),
        (
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
            YarnRope(factor=4.0, original_max_len=64, attention_factor=1 + 0.1 * log(4)),
        ),
        (
            {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5, "truncate": False},
            YarnRope(factor=4.0, original_max_len=128, attention_factor=1.5, truncate=False),
        ),
    ],
)
def test_rope_scaling_in_both_spellings(
    scaling: dict[str, object] | None, expected: object, tmp_path: Path
) -> None:
    assert config(tmp_path, rope_scaling=scaling).rope_scaling == expected
    newer = {"rope_theta": 5e5, **(scaling or {"rope_type": "default"})}
    found = config(tmp_path, rope_theta=None, rope_parameters=newer)
    assert (found.rope_theta, found.rope_scaling) == (5e5, expected)


def test_yarn_stretches_the_positions(tmp_path: Path) -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert config(tmp_path, rope_scaling=yarn).max_model_len == 512


@pytest.mark.parametrize(
    ("architecture", "changes", "said"),
    [
        ("llama", {"architectures": ["MambaForCausalLM"]}, "architectures: expected one of Llama"),
        ("llama", {"architectures": None}, "architectures: expected one of"),
        ("llama", {"architectures": [3]}, "architectures: expected one of"),
        ("llama", {"model_type": "gemma"}, "model_type: expected llama"),
        ("llama", {"hidden_size": None}, "hidden_size: missing"),
        ("llama", {"hidden_size": "32"}, "hidden_size: expected an integer, got '32'"),
        ("llama", {"num_attention_heads": 0}, "num_attention_heads: expected more than 0"),
        ("llama", {"num_hidden_layers": -1}, "num_layers: expected more than 0, got -1"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act: expected 'silu' or 'swish'"),
        ("llama", {"mlp_bias": True}, "mlp_bias: expected False"),
        ("llama", {"rope_interleaved": True}, "rope_interleaved: expected False"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config: expected nothing"),
        ("qwen3", {"num_experts": 8}, "num_experts: expected nothing"),
        ("llama", {"rope_scaling": {"type": "longrope"}}, "type: expected default, linear"),
        ("llama", {"rope_scaling": {"rope_type": "linear"}}, "factor: missing"),
        ("llama", {"rope_scaling": [1]}, "rope_scaling: expected an object"),
        (
            "llama",
            {"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 1.0}},
            "mscale: expected nothing",
        ),
        ("llama", {"rope_parameters": {"full_attention": {"a": 1}}}, "full_attention: expected"),
        (
            "qwen2",
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 1},
            "max_window_layers: expected 0",
        ),
        (
            "qwen3",
            {
                "sliding_window": 64,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "layer_types: expected sliding_attention in every layer",
        ),
        ("llama", {"rms_norm_eps": float("nan")}, "rms_norm_eps: expected more than 0, got nan"),
        ("llama", {"rope_theta": float("inf")}, "rope_theta: expected more than 0, got inf"),
        ("llama", {"max_position_embeddings": 2**31}, "max_model_len: expected at most"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 0.0}}, "factor: expected more"),
        ("llama", {"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "high_freq_factor: expec"),
        ("llama", {"rope_scaling": LLAMA3 | {"low_freq_factor": 0}}, "low_freq_factor: expected"),
        ("llama", {"rope_scaling": {"type": "yarn", "factor": 0.5}}, "factor: expected at least"),
        (
            "llama",
            {"rope_scaling": {"type": "yarn", "factor": float("inf")}},
            "factor: expected at least 1",
        ),
        (
            "llama",
            {"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": -1}},
            "beta_fast: expected more than 0",
        ),
        (
            "llama",
            {"rope_scaling": {"type": "yarn", "factor": 2.0}, "rope_theta": 1.0},
            "rope_theta: YaRN expects more than 1",
        ),
        ("llama", {"eos_token_id": 300}, "eos_ids: expected ids in [0, 300), got 300"),
        ("llama", {"eos_token_id": "2"}, "eos_token_id: expected a token id or a list"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_key(
    architecture: str, changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        config(tmp_path, architecture, **changes)
    assert said in str(caught.value)
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_config_that_is_no_object_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"config\.json: expected a JSON object"):
        huggingface_config(tmp_path)


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json: missing"):
        huggingface_config(tmp_path)
