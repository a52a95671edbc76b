"""Every parameter of a network comes from the file, or the file is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from optimist.messages.errors import ModelError
from optimist.models.loader import FileWeights, load_model
from optimist.models.source import open_source

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

SHAPES = {
    "model.embed_tokens.weight": (40, 16),
    "model.norm.weight": (16,),
    "lm_head.weight": (40, 16),
    **{
        f"model.layers.{layer}.{name}.weight": shape
        for layer in range(2)
        for name, shape in {
            "input_layernorm": (16,),
            "post_attention_layernorm": (16,),
            "self_attn.q_proj": (16, 16),
            "self_attn.k_proj": (8, 16),
            "self_attn.v_proj": (8, 16),
            "self_attn.o_proj": (16, 16),
            "mlp.gate_proj": (24, 16),
            "mlp.up_proj": (24, 16),
            "mlp.down_proj": (16, 24),
        }.items()
    },
}


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def write(folder: Path, tensors: dict[str, Tensor]) -> Path:
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_arrive_in_place_and_in_dtype(
    tmp_path: Path, tensors: dict[str, Tensor], dtype: torch.dtype
) -> None:
    with open_source(write(tmp_path, tensors)) as source:
        weights = FileWeights(source, dtype, lambda what, done, total: None)
        got = weights.take("layers.1.q", "layers.1.k", "layers.1.v")
    at = "model.layers.1.self_attn"
    want = torch.cat([tensors[f"{at}.{name}_proj.weight"] for name in "qkv"])
    assert torch.equal(got, want.to(dtype))


def test_progress_ends_with_every_tensor(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    told: list[tuple[str, int, int]] = []
    network = load_model(
        write(tmp_path, tensors), torch.float32, lambda *progress: told.append(progress)
    )
    assert network.config.num_layers == 2
    assert told[-1] == ("weights", 21, 21)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


@pytest.mark.parametrize("lost", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_missing_tensor_is_named(tmp_path: Path, tensors: dict[str, Tensor], lost: str) -> None:
    del tensors[lost]
    with pytest.raises(ModelError, match=lost.removesuffix(".weight")):
        load_model(write(tmp_path, tensors), torch.float32)


def test_a_tensor_that_nobody_takes_is_named(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    tensors["model.layers.1.mlp.extra.weight"] = torch.zeros(3)
    with pytest.raises(ModelError, match=r"mlp\.extra"):
        load_model(write(tmp_path, tensors), torch.float32)


def test_a_tensor_taken_twice_or_never_is_named(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    with open_source(write(tmp_path, tensors)) as source:
        weights = FileWeights(source, torch.float32, lambda what, done, total: None)
        for name in source.names():
            if name != "layers.0.o":
                weights.take(name)
        with pytest.raises(ModelError, match=r"norm is taken twice"):
            weights.take("norm")
        with pytest.raises(ModelError, match=r"the network left out layers\.0\.o$"):
            weights.finish()
