"""Weights of a Hugging Face folder under canonical names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.base import StoredMatrix, WeightSource
from optimist.models.huggingface.config import huggingface_config
from optimist.models.huggingface.safetensors import widen
from optimist.models.huggingface.shards import Shards
from optimist.models.matching import match_tensors
from optimist.models.stored_file import StoredFile

HEAD = "lm_head.weight"
EMBED = "model.embed_tokens.weight"

_TOP = {"embed": EMBED, "norm": "model.norm.weight", "head": HEAD}
_LAYER = {
    "attn_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "o_bias": "self_attn.o_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
_DERIVED = "rotary_emb.inv_freq"
"""older files store rotary frequencies, which follow from the config"""


def huggingface_name(name: str) -> str:
    """The name in a Hugging Face checkpoint of a canonical tensor name."""
    if name in _TOP:
        return _TOP[name]
    _, index, part = name.split(".")
    return f"model.layers.{index}.{_LAYER[part]}"


class HuggingFaceSource(WeightSource):
    """A folder with config.json and safetensors files of a Llama, Mistral, Qwen2 or Qwen3 model."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, huggingface_config(path))
        self._shards = Shards(path)
        try:
            self._match()
        except BaseException:
            self._shards.close()
            raise

    def stored_type(self, name: str) -> str:
        return self._shards[huggingface_name(name)].dtype

    def read(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        stored = huggingface_name(name)
        raw = self._shards.raw(stored)[start : start + out.shape[0]]
        widen(self._shards[stored].dtype, raw, out)

    def matrix(self, name: str) -> StoredMatrix:
        return StoredMatrix(self.stored_type(name), self._shards.raw(huggingface_name(name)), None)

    def files(self) -> tuple[StoredFile, ...]:
        return self._shards.files()

    def close(self) -> None:
        self._shards.close()

    def _match(self) -> None:
        found = {
            name: self._shards[name].shape for name in self._shards if not name.endswith(_DERIVED)
        }
        if self.config.tie_embeddings and HEAD in found:
            self._check_tied_head()
            del found[HEAD]
        needed = {huggingface_name(name): self.shape(name) for name in self.names()}
        match_tensors(self.path, needed=needed, found=found)

    def _check_tied_head(self) -> None:
        if EMBED in self._shards and np.array_equal(
            self._shards.raw(HEAD), self._shards.raw(EMBED)
        ):
            return
        raise ModelError(
            f"{self.path}: tensor {HEAD}: needed to equal {EMBED}, as tie_word_embeddings is true"
        )
