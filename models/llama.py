"""A decoder of the Llama family, composed from the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from optimist.kernels.card import wide
from optimist.kernels.choice import TORCH
from optimist.kernels.contract import Kernels
from optimist.kernels.device import upload
from optimist.kernels.kv_cache import allocate
from optimist.kernels.linear import Linear
from optimist.kernels.metadata import Metadata
from optimist.kernels.rope import rotations
from optimist.models.config import ModelConfig
from optimist.models.rotary import frequencies


class Weights(Protocol):
    """Where a network takes its tensors, by the names of `expected_shapes`."""

    def take(self, *names: str) -> Tensor:
        """The rows of these tensors one behind the other, in the network's dtype. Each is taken once."""
        ...


class Step(NamedTuple):
    """What every layer of a step needs. cos, sin: [T, 1, D]. slots: [T]. groups: from `prepare`."""

    cos: Tensor
    sin: Tensor
    slots: Tensor
    groups: Any


class Llama:
    """Weights on the device and the way through them. Keeps no state between steps.

    kernels: the operators that it is composed from.
    The residual stream is float32, or wider; linears and the cache have the network's dtype.
    Nothing in `forward` reads a tensor on the host.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        dtype: torch.dtype,
        kernels: Kernels = TORCH,
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.kernels = kernels
        self.kv_dtype = kernels.kv_dtype or dtype
        self._embedding = weights.take("embed")
        self.device = self._embedding.device
        turns, self._rope_scale = frequencies(config)
        self._frequencies = upload(turns, self.device)
        self._layers = [
            Layer(config, weights, dtype, f"layers.{i}.", kernels) for i in range(config.num_layers)
        ]
        self._norm = weights.take("norm").to(wide(dtype))
        head = self._embedding if config.tie_embeddings else weights.take("head")
        self._head = kernels.pack_head(head, None)

    def allocate_cache(self, blocks: int, block_size: int) -> Tensor:
        """A KV cache for `forward`, [layers, 2G, blocks + 2, P, D]: see kernels.kv_cache."""
        config = self.config
        layers, heads, dim = config.num_layers, config.num_kv_heads, config.head_dim
        return allocate(layers, heads, blocks, block_size, dim, self.kv_dtype, self.device)

    def forward(
        self, ids: Tensor, positions: Tensor, cache: Tensor, metadata: Metadata, last: Tensor
    ) -> Tensor:
        """Logits after the tokens at indices `last` [S], [S, V] in float32 or wider.

        ids, positions: of the step's tokens, [T] integers. cache: from `allocate_cache`; the tokens'
        keys and values are written to it. Only the rows at `last` go through the head.
        """
        x = self.hidden(ids, positions, cache, metadata)
        return self.logits(x.index_select(0, last))

    def hidden(
        self,
        ids: Tensor,
        positions: Tensor,
        cache: Tensor,
        metadata: Metadata,
        layers: int | None = None,
    ) -> Tensor:
        """The residual stream behind the first `layers` layers, all of them if None, [T, E]."""
        step = self.step(positions, cache, metadata)
        x = self.embed(ids)
        for layer, kv in zip(self._layers[:layers], cache[:layers].unbind(0), strict=True):
            layer.forward(x, kv, step)
        return x

    def step(self, positions: Tensor, cache: Tensor, metadata: Metadata) -> Step:
        """What layers need to know about tokens at these positions, [T]."""
        cos, sin = rotations(positions, self._frequencies, self._rope_scale, self.dtype)
        window = self.config.sliding_window
        groups = self.kernels.prepare(metadata, cache, dtype=self.dtype, window=window)
        return Step(cos, sin, metadata.slot_mapping, groups)

    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [T] as the residual stream begins, [T, E] float32 or wider."""
        return self._embedding.index_select(0, ids).to(wide(self.dtype))

    def logits(self, x: Tensor) -> Tensor:
        """Logits of residual streams x [S, E], [S, V] in float32 or wider."""
        x = self.kernels.rms_norm(x, self._norm, self.config.rms_norm_eps)
        return self._head(x.to(self.dtype)).to(x.dtype)


class Layer:
    """One layer: attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        dtype: torch.dtype,
        prefix: str,
        kernels: Kernels = TORCH,
    ) -> None:
        self._config = config
        self._kernels = kernels
        self._scale = config.head_dim**-0.5
        named = tuple(prefix + name for name in ("q", "k", "v"))
        qkv_bias = (
            weights.take(*(f"{name}_bias" for name in named)) if config.attention_bias else None
        )
        self._dtype = dtype
        self._attn_norm = weights.take(prefix + "attn_norm").to(wide(dtype))
        self._qkv = kernels.pack(weights.take(*named), qkv_bias)
        self._qk_norms = self._take_norms(weights, prefix)
        o_bias = weights.take(prefix + "o_bias") if config.output_bias else None
        self._o: Linear = kernels.pack(weights.take(prefix + "o"), o_bias)
        self._ffn_norm = weights.take(prefix + "ffn_norm").to(wide(dtype))
        self._gate_up = kernels.pack(weights.take(prefix + "gate", prefix + "up"), None)
        self._down = kernels.pack(weights.take(prefix + "down"), None)

    def _take_norms(self, weights: Weights, prefix: str) -> tuple[Tensor, Tensor] | None:
        if not self._config.qk_norm:
            return None
        q, k = weights.take(prefix + "q_norm"), weights.take(prefix + "k_norm")
        return q.to(wide(self._dtype)), k.to(wide(self._dtype))

    def forward(self, x: Tensor, kv: Tensor, step: Step) -> None:
        """Add what this layer has to say to x [T, E]. kv: this layer's cache, [2G, ., P, D]."""
        kernels, eps = self._kernels, self._config.rms_norm_eps
        y = kernels.rms_norm(x, self._attn_norm, eps).to(self._dtype)
        y = kernels.add_rms_norm(x, self._attention(y, kv, step), self._ffn_norm, eps)
        x += self._down(kernels.silu_and_mul(self._gate_up(y)))

    def _attention(self, x: Tensor, kv: Tensor, step: Step) -> Tensor:
        config, kernels = self._config, self._kernels
        heads, groups = config.num_heads, config.num_kv_heads
        qkv = self._qkv(x).view(-1, heads + 2 * groups, config.head_dim)
        if self._qk_norms is not None:
            q, k = qkv[:, :heads], qkv[:, heads : heads + groups]
            q.copy_(kernels.rms_norm(q, self._qk_norms[0], config.rms_norm_eps))
            k.copy_(kernels.rms_norm(k, self._qk_norms[1], config.rms_norm_eps))
        kernels.rope_(qkv[:, : heads + groups], step.cos, step.sin)
        kernels.kv_write(qkv[:, heads:], kv, step.slots)
        y = kernels.paged_attention(qkv[:, :heads], kv, step.groups, scale=self._scale)
        return self._o(y.flatten(1))
