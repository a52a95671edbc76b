"""ModelConfig out of GGUF metadata."""

from __future__ import annotations

from math import log
from pathlib import Path

import model_files as files
import numpy as np
import pytest

from optimist.messages.errors import ModelError
from optimist.models.config import LinearRope, ModelConfig, PlainRope, YarnRope
from optimist.models.default import default_model
from optimist.models.gguf.config import gguf_config
from optimist.models.gguf.file import read_metadata


def config(tmp_path: Path, architecture: str = "llama", /, **changes: object) -> ModelConfig:
    path = tmp_path / "m.gguf"
    path.write_bytes(files.gguf_bytes(files.gguf_metadata(architecture, **changes), {}))
    return gguf_config(read_metadata(path), tensors=frozenset())


def test_the_default_model() -> None:
    found = gguf_config(read_metadata(default_model()), tensors=frozenset())
    assert found == ModelConfig(
        architecture="llama",
        vocab_size=49152,
        hidden_size=576,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        intermediate_size=1536,
        max_model_len=8192,
        rms_norm_eps=float(np.float32(1e-5)),
        rope_theta=100000.0,
        tie_embeddings=True,
        eos_ids=(2,),
        bos_id=1,
    )


def test_what_a_file_may_leave_out_has_the_usual_value(tmp_path: Path) -> None:
    found = config(tmp_path, llama__attention__head_count_kv=None, llama__rope__freq_base=None)
    assert found.num_kv_heads == found.num_heads == files.HEADS
    assert (found.rope_theta, found.rope_scaling) == (10000.0, PlainRope())
    assert (found.sliding_window, found.eos_ids, found.bos_id) == (None, (), None)


def test_heads_may_be_wider_than_their_share(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        "qwen3",
        qwen3__attention__key_length=16,
        qwen3__attention__value_length=16,
    )
    assert (found.head_dim, found.qk_norm) == (16, True)


def test_a_vocabulary_tells_its_own_size_and_ends(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        tokenizer__ggml__tokens=files.Array(8, [f"t{at}" for at in range(9)]),
        tokenizer__ggml__eos_token_id=7,
        tokenizer__ggml__eot_token_id=3,
        tokenizer__ggml__bos_token_id=1,
    )
    assert (found.vocab_size, found.eos_ids, found.bos_id) == (9, (3, 7), 1)


@pytest.mark.parametrize(("window", "seen"), [(16, 16), (128, None), (4096, None)])
def test_a_window_counts_only_when_it_is_shorter_than_the_context(
    window: int, seen: int | None, tmp_path: Path
) -> None:
    assert config(tmp_path, llama__attention__sliding_window=window).sliding_window == seen


def test_rope_scaling_in_its_kinds(tmp_path: Path) -> None:
    linear = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 4.0}
    assert config(tmp_path, **linear).rope_scaling == LinearRope(factor=4.0)
    assert config(tmp_path, llama__rope__scale_linear=2.0).rope_scaling == LinearRope(factor=2.0)
    yarn = linear | {
        "llama__rope__scaling__type": "yarn",
        "llama__rope__scaling__original_context_length": 32,
    }
    assert config(tmp_path, **yarn).rope_scaling == YarnRope(
        factor=4.0, original_max_len=32, attention_factor=1 + 0.1 * log(4)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"general__architecture": "mamba"}, "general.architecture: expected one of llama, qwen2"),
        ({"general__architecture": None}, "metadata general.architecture: missing"),
        ({"llama__block_count": None}, "metadata llama.block_count: missing"),
        ({"llama__block_count": 0}, "num_layers: expected more than 0, got 0"),
        ({"llama__block_count": 2**31}, "num_layers: expected at most"),
        ({"llama__attention__head_count": 0}, "llama.attention.head_count: expected more than 0"),
        ({"llama__attention__head_count_kv": 3}, "expected a multiple of num_kv_heads 3, got 4"),
        ({"llama__attention__head_count": files.Array(4, [4, 4])}, "expected an integer, got an"),
        ({"llama__attention__key_length": 7}, "head_dim: expected an even number, got 7"),
        ({"llama__attention__value_length": 4}, "llama.attention.value_length: expected the size"),
        ({"llama__rope__dimension_count": 4}, "llama.rope.dimension_count: expected the size of"),
        ({"llama__expert_count": 8}, "llama.expert_count: expected 0"),
        ({"llama__attention__causal": False}, "llama.attention.causal: expected true"),
        ({"llama__logit_scale": 2.0}, "llama.logit_scale: not supported"),
        ({"llama__rope__scaling__type": "longrope"}, "expected none, linear or yarn, got"),
        ({"llama__rope__scaling__type": "linear"}, "llama.rope.scaling.factor: missing"),
        ({"tokenizer__ggml__eos_token_id": 300}, "eos_ids: expected ids in [0, 300), got 300"),
        ({"tokenizer__ggml__bos_token_id": 999}, "bos_id: expected ids in [0, 300), got 999"),
        ({"llama__rope__freq_base": -1.0}, "rope_theta: expected more than 0"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_key(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        config(tmp_path, **changes)
    assert said in str(caught.value)
    assert str(tmp_path / "m.gguf") in str(caught.value)
