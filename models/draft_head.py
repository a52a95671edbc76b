"""A head that drafts from the target's hidden states: one layer behind a fusion of state and token."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.card import wide
from optimist.kernels.kv_cache import allocate
from optimist.kernels.metadata import Metadata
from optimist.models.llama import Layer, Llama, Weights


class DraftHead:
    """From what the target computed at a position, and the token behind it, to what it might compute there.

    Embedding, norm and output head are the target's. weights: `fuse` [E, 2E] (token, then state) and
    the tensors of one layer, named as in `layer_shapes`, behind `layers.0.`.
    """

    def __init__(self, target: Llama, weights: Weights) -> None:
        self.target = target
        self._fuse = target.kernels.pack(weights.take("fuse"), None)
        self._layer = Layer(target.config, weights, target.dtype, "layers.0.", target.kernels)

    def allocate_cache(self, blocks: int, block_size: int) -> Tensor:
        """A KV cache of its one layer, [1, 2G, blocks + 2, P, D]."""
        config, target = self.target.config, self.target
        heads, dim = config.num_kv_heads, config.head_dim
        return allocate(1, heads, blocks, block_size, dim, target.kv_dtype, target.device)

    def forward(
        self, ids: Tensor, hidden: Tensor, positions: Tensor, cache: Tensor, metadata: Metadata
    ) -> Tensor:
        """Residual streams [T, E], of which the target's head makes logits of the token after next.

        ids: the token behind each position, [T]. hidden: of the target at the position, or of this
        head where the target has not been, [T, E]. Keys and values are written to the cache.
        """
        both = torch.cat((self.target.embed(ids), hidden), -1).to(self.target.dtype)
        x = self._fuse(both).to(wide(self.target.dtype))
        step = self.target.step(positions, cache, metadata)
        self._layer.forward(x, cache[0], step)
        return x
