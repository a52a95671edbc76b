"""ORACLE for networks of the Llama family: in numpy, the whole text anew for each token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.sampling import reference
from optimist.messages.slots import Sampling
from optimist.models.config import ModelConfig
from optimist.models.rotary import frequencies
from optimist.testing.torch_toy import TOY, ToyWeights, toy_weights

Reals = NDArray[np.float64]


class ToyOracle:
    """A next-token function over dense attention. Honours temperature and seed, nothing else.

    The likeliest token of each text is remembered: equal texts are asked for again and again.
    """

    def __init__(self, config: ModelConfig = TOY, weights: ToyWeights | None = None) -> None:
        self._config = config
        self._weights = toy_weights(config) if weights is None else weights
        self._seen: dict[tuple[int, ...], Reals] = {}

    def __call__(self, tokens: Sequence[int], prompt_len: int, sampling: Sampling, /) -> int:
        logits = self.logits(tokens)
        if not sampling.temperature:
            return int(logits.argmax())
        noise = [reference.gumbel(sampling.seed, len(tokens), v) for v in range(len(logits))]
        return int((logits / sampling.temperature + np.array(noise)).argmax())

    def logits(self, tokens: Sequence[int]) -> Reals:
        """Of the token behind these, [V]."""
        key = tuple(tokens)
        if key not in self._seen:
            self._seen[key] = self._forward(np.array(tokens))
        return self._seen[key]

    def _forward(self, tokens: NDArray[np.int64]) -> Reals:
        x = self._weights["embed"][tokens]
        for layer in range(self._config.num_layers):
            weights = self._layer(layer)
            x = x + self._attention(self._norm(x, weights["attn_norm"]), weights)
            y = self._norm(x, weights["ffn_norm"])
            gate = y @ weights["gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ weights["up"].T)) @ weights["down"].T
        head = self._weights["embed" if self._config.tie_embeddings else "head"]
        last: Reals = self._norm(x[-1], self._weights["norm"]) @ head.T
        return last

    def _layer(self, layer: int) -> ToyWeights:
        prefix = f"layers.{layer}."
        return {n[len(prefix) :]: w for n, w in self._weights.items() if n.startswith(prefix)}

    def _norm(self, x: Reals, weight: Reals) -> Reals:
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self._config.rms_norm_eps)
        normed: Reals = x / scale * weight
        return normed

    def _attention(self, x: Reals, weights: ToyWeights) -> Reals:
        config = self._config
        q, k = (self._turned(x @ weights[name].T) for name in ("q", "k"))
        v = self._heads(x @ weights["v"].T)
        shared = config.num_heads // config.num_kv_heads
        k, v = k.repeat(shared, axis=0), v.repeat(shared, axis=0)
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(config.head_dim)
        scores = np.where(np.tri(len(x), dtype=np.bool_), scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        y: Reals = (share @ v).transpose(1, 0, 2).reshape(len(x), -1) @ weights["o"].T
        return y

    def _heads(self, x: Reals) -> Reals:
        """From [T, heads * D] to [heads, T, D]."""
        return x.reshape(len(x), -1, self._config.head_dim).transpose(1, 0, 2)

    def _turned(self, x: Reals) -> Reals:
        heads, half = self._heads(x), self._config.head_dim // 2
        angles = np.arange(len(x))[:, None] * frequencies(self._config)[0]
        cos, sin = np.cos(angles), np.sin(angles)
        low, high = heads[..., :half], heads[..., half:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
