"""Whether sampled tokens have the probability that they should, on a network small enough to say so.

What is compared: how often each token comes, against the sum of its probabilities given all that
came before it. The difference is a martingale, so it is normal whatever the parameters are. BOUND: a
normal number is that large once in a million, and one of a few hundred once in ten thousand.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from optimist.kernels.rms_norm import rms_norm
from optimist.kernels.sampling import Penalties, Rows, distribution
from optimist.models.base import expected_shapes
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama

BOUND = 5.0
VOCAB, LENGTH = 7, 128
TINY = ModelConfig(
    architecture="llama",
    vocab_size=VOCAB,
    hidden_size=8,
    num_layers=2,
    num_heads=1,
    num_kv_heads=1,
    head_dim=8,
    intermediate_size=8,
    max_model_len=LENGTH + 32,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
)
PARAMETERS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.6},
    {"temperature": 1.3, "top_k": 3},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.9, "presence_penalty": 0.8, "frequency_penalty": 0.02},
]


class Chain:
    """Weights of a network whose next token depends on the last one alone: attention says nothing."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def take(self, *names: str) -> Tensor:
        shapes = expected_shapes(TINY)
        return torch.cat([self._tensor(name, shapes[name]) for name in names])

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        drawn = torch.randn(shape, generator=self._generator)
        if name.endswith("norm"):
            return torch.ones(shape)
        if name.endswith(".o"):
            return torch.zeros(shape)
        return drawn * {"embed": 1.0, "head": 0.7}.get(name, 0.25)


class Near:
    """Weights that are mostly those of one, and partly those of another."""

    def __init__(self, one: Chain, other: Chain, share: float) -> None:
        self._one, self._other, self._share = one, other, share

    def take(self, *names: str) -> Tensor:
        one, other = self._one.take(*names), self._other.take(*names)
        if all(name.endswith("norm") for name in names):
            return one
        return math.sqrt(1 - self._share**2) * one + self._share * other


TARGET = Llama(TINY, Chain(1), torch.float32)
OTHER = Llama(TINY, Near(Chain(1), Chain(2), 0.4), torch.float32)
"""drafts what is often right"""


def chain() -> Tensor:
    """Logits behind each token, [VOCAB, VOCAB] float64, worked out without a cache."""
    x = TARGET.embed(torch.arange(VOCAB))
    for layer in TARGET._layers:  # noqa: SLF001
        eps = TARGET.config.rms_norm_eps
        normed = rms_norm(x, layer._ffn_norm, eps).to(TARGET.dtype)  # noqa: SLF001
        gate, up = layer._gate_up(normed).chunk(2, -1)  # noqa: SLF001
        x = x + layer._down(torch.nn.functional.silu(gate) * up)  # noqa: SLF001
    return TARGET.logits(x).double()


def probabilities(
    texts: Tensor, parameters: dict[str, Any], behind: Tensor | None = None
) -> Tensor:
    """Of every token given those before it, [rows, LENGTH, VOCAB].

    behind: logits behind each token, [VOCAB, VOCAB]; None: TARGET's.
    """
    before = torch.nn.functional.one_hot(texts, VOCAB)
    before[:, 0] = 0
    counts = before.cumsum(1)[:, :-1].reshape(-1, VOCAB)
    full = counts.shape[:1]
    wanted = {"presence_penalty": 0.0, "frequency_penalty": 0.0} | parameters
    rows = Rows(
        torch.full(full, wanted["temperature"]),
        torch.zeros(full, dtype=torch.int64),
        torch.zeros(full, dtype=torch.int64),
        penalties=Penalties(
            counts.to(torch.int32),
            torch.zeros(counts.shape, dtype=torch.bool),
            torch.full(full, wanted["presence_penalty"]),
            torch.full(full, wanted["frequency_penalty"]),
            torch.ones(full),
        ),
        top_k=torch.full(full, parameters["top_k"], dtype=torch.int32)
        if "top_k" in parameters
        else None,
        max_top_k=parameters.get("top_k", 0),
        top_p=torch.full(full, parameters["top_p"]) if "top_p" in parameters else None,
    )
    logits = (chain() if behind is None else behind)[texts[:, :-1].reshape(-1)]
    return distribution(logits, rows).view(len(texts), LENGTH, VOCAB)


def surprise(texts: Tensor, parameters: dict[str, Any], behind: Tensor | None = None) -> float:
    """The largest of normal numbers: one for each token behind each token, where it is not rare.

    Infinite where a token came that the parameters exclude.
    """
    p = probabilities(texts, parameters, behind)
    seen = torch.nn.functional.one_hot(texts[:, 1:], VOCAB)
    if seen[p == 0].any():
        return math.inf
    last = torch.nn.functional.one_hot(texts[:, :-1], VOCAB).double()
    excess = torch.einsum("rtl,rtv->lv", last, seen - p)
    variance = torch.einsum("rtl,rtv->lv", last, p * (1 - p))
    common = variance > 20
    assert common.sum() >= VOCAB
    return float((excess / variance.clamp(min=1).sqrt())[common].abs().max())
