"""Weights of a GGUF file under canonical names, dequantised when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.base import StoredMatrix, WeightSource
from optimist.models.config import ModelConfig
from optimist.models.gguf.blocks import dequantise
from optimist.models.gguf.config import gguf_config
from optimist.models.gguf.file import GgufFile, TensorEntry
from optimist.models.matching import match_tensors
from optimist.models.stored_file import StoredFile

ROPE_FACTORS = "rope_freqs.weight"

_TOP = {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
_LAYER = {
    "attn_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "o_bias": "attn_output.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}


def gguf_name(name: str) -> str:
    """The name in a GGUF file of a canonical tensor name."""
    if name in _TOP:
        return _TOP[name]
    _, index, part = name.split(".")
    return f"blk.{index}.{_LAYER[part]}"


class GgufSource(WeightSource):
    """A GGUF file of architecture llama, qwen2 or qwen3."""

    def __init__(self, path: Path) -> None:
        self._file = GgufFile(path)
        try:
            super().__init__(path, _config(self._file))
            self._entries = self._matched()
        except BaseException:
            self._file.close()
            raise

    def stored_type(self, name: str) -> str:
        return self._entries[name].layout.name

    def read(self, name: str, start: int, out: NDArray[np.float32]) -> None:
        entry = self._entries[name]
        rows = slice(start, start + out.shape[0])
        raw = self._file.raw(entry)
        order = self._order(name)
        if len(entry.shape) > 1:
            dequantise(entry.layout, raw[rows] if order is None else raw[order[rows]], out)
            return
        whole = np.empty(entry.shape, np.float32)
        dequantise(entry.layout, raw, whole)
        out[...] = whole[rows] if order is None else whole[order[rows]]

    def matrix(self, name: str) -> StoredMatrix:
        return StoredMatrix(
            self.stored_type(name), self._file.raw(self._entries[name]), self._order(name)
        )

    def files(self) -> tuple[StoredFile, ...]:
        return (self._file.stored,)

    def close(self) -> None:
        self._file.close()

    def _matched(self) -> dict[str, TensorEntry]:
        found = self._file.tensors
        match_tensors(
            self.path,
            needed={gguf_name(name): self.shape(name) for name in self.names()},
            found={name: entry.shape for name, entry in found.items() if name != ROPE_FACTORS},
        )
        return {name: found[gguf_name(name)] for name in self.names()}

    def _order(self, name: str) -> NDArray[np.intp] | None:
        """Which stored row each row is. Files of architecture llama interleave halves of a head."""
        if self.config.architecture != "llama":
            return None
        part = name.rpartition(".")[2]
        if part not in ("q", "k", "q_bias", "k_bias"):
            return None
        stored = np.arange(self.shape(name)[0]).reshape(-1, self.config.head_dim // 2, 2)
        return stored.swapaxes(1, 2).reshape(-1)


def _config(file: GgufFile) -> ModelConfig:
    factors = None
    if (entry := file.tensors.get(ROPE_FACTORS)) is not None:
        values = np.empty(entry.shape, np.float32)
        dequantise(entry.layout, file.raw(entry), values)
        factors = tuple(values.ravel().tolist())
    config = gguf_config(file.metadata, tensors=frozenset(file.tensors), rope_factors=factors)
    if factors is not None and len(factors) != config.head_dim // 2:
        raise ModelError(
            f"{file.path}: tensor {ROPE_FACTORS}: needed shape [{config.head_dim // 2}], "
            f"got [{len(factors)}]"
        )
    return config
