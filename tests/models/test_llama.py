"""The network over a paged cache equals the same network in plain dense form, for every variant."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from optimist.kernels.metadata import ExactMetadata
from optimist.messages.lengths import ExactSeqLens
from optimist.models.base import expected_shapes
from optimist.models.config import LinearRope, ModelConfig, YarnRope
from optimist.models.llama import Llama
from optimist.models.rotary import frequencies

BASE = ModelConfig(
    architecture="llama",
    vocab_size=61,
    hidden_size=24,
    num_layers=2,
    num_heads=6,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=40,
    max_model_len=128,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
)

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_embeddings": True},
    "qkv bias": {"attention_bias": True},
    "all biases": {"attention_bias": True, "output_bias": True},
    "q/k norm": {"qk_norm": True},
    "window": {"sliding_window": 5},
    "linear rope": {"rope_scaling": LinearRope(factor=4.0)},
    "yarn": {"rope_scaling": YarnRope(factor=4.0, original_max_len=32, attention_factor=1.14)},
    "one KV head": {"num_kv_heads": 1},
    "as many KV heads": {"num_kv_heads": 6},
    "everything": {
        "tie_embeddings": True,
        "attention_bias": True,
        "output_bias": True,
        "qk_norm": True,
        "sliding_window": 7,
    },
}


class Drawn:
    """Random weights by name."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(3)
        self.dtype = dtype
        self.tensors = {
            name: torch.randn(shape, generator=generator, dtype=torch.float64)
            / (shape[-1] ** 0.5 if len(shape) > 1 else 1)
            for name, shape in expected_shapes(config).items()
        }
        self.left = set(self.tensors)

    def take(self, *names: str) -> Tensor:
        self.left -= set(names)
        return torch.cat([self.tensors[name] for name in names]).to(self.dtype)


def dense(config: ModelConfig, weights: dict[str, Tensor], ids: Tensor) -> Tensor:
    """Logits behind every token of one text, [T, V], with neither cache nor batch."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean = x.square().mean(-1, keepdim=True)
        return x / (mean + config.rms_norm_eps).sqrt() * weights[name]

    def dense_layer(x: Tensor, name: str) -> Tensor:
        bias = weights.get(f"{name}_bias")
        y = x @ weights[name].T
        return y if bias is None else y + bias

    def heads(x: Tensor, name: str) -> Tensor:
        y = dense_layer(x, name).view(len(x), -1, config.head_dim)
        return norm(y, f"{name}_norm") if f"{name}_norm" in weights else y

    def turned(x: Tensor) -> Tensor:
        turns, scale = frequencies(config)
        angles = torch.arange(len(x)).double()[:, None, None] * torch.from_numpy(turns)
        first, second = x.chunk(2, -1)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    def attention(x: Tensor, at: str) -> Tensor:
        q, k, v = turned(heads(x, f"{at}q")), turned(heads(x, f"{at}k")), heads(x, f"{at}v")
        shared = config.num_heads // config.num_kv_heads
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / config.head_dim**0.5
        ahead = torch.arange(len(x))[:, None] - torch.arange(len(x))
        hidden = (ahead < 0) | (ahead >= (config.sliding_window or len(x)))
        scores = scores.masked_fill(hidden, -torch.inf)
        y = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)
        return dense_layer(y, f"{at}o")

    x = weights["embed"][ids]
    for layer in range(config.num_layers):
        at = f"layers.{layer}."
        x = x + attention(norm(x, f"{at}attn_norm"), at)
        y = norm(x, f"{at}ffn_norm")
        gate = dense_layer(y, f"{at}gate")
        x = x + dense_layer(gate * gate.sigmoid() * dense_layer(y, f"{at}up"), f"{at}down")
    return norm(x, "norm") @ weights["embed" if config.tie_embeddings else "head"].T


class Paged:
    """Feeds texts to the network in chunks, each text in blocks of its own, in no order."""

    def __init__(self, network: Llama, texts: list[Tensor], block_size: int) -> None:
        self.network, self.texts, self.size = network, texts, block_size
        blocks = -(-max(map(len, texts)) // block_size)
        self.table = torch.randperm(len(texts) * blocks, generator=torch.Generator().manual_seed(1))
        self.table = self.table.view(len(texts), blocks).to(torch.int32)
        self.cache = network.allocate_cache(self.table.numel(), block_size)
        self.cache[:, :, : self.table.numel()] = 0
        self.done = [0] * len(texts)

    def step(self, chunks: dict[int, int]) -> dict[int, Tensor]:
        """Compute the next so many tokens of these texts; the logits behind the last of each."""
        rows = sorted(chunks, key=lambda row: chunks[row] > 1)
        positions = [torch.arange(self.done[row], self.done[row] + chunks[row]) for row in rows]
        for row in rows:
            self.done[row] += chunks[row]
        slots = [
            self.table[row].long()[at // self.size] * self.size + at % self.size
            for row, at in zip(rows, positions, strict=True)
        ]
        offsets = np.cumsum([0, *(chunks[row] for row in rows)]).astype(np.int32)
        lengths = [self.done[row] for row in rows]
        metadata = ExactMetadata(
            query_start_loc=torch.from_numpy(offsets),
            seq_lens=torch.tensor(lengths, dtype=torch.int32),
            block_table=self.table[rows],
            slot_mapping=torch.cat(slots),
            query_offsets=offsets,
            max_query_len=max(chunks.values()),
            max_seq_len=max(lengths),
            num_decodes=sum(chunks[row] == 1 for row in rows),
            is_prefilling=np.array([chunks[row] > 1 for row in rows]),
            host_lens=ExactSeqLens.of(lengths),
        )
        ids = torch.cat([self.texts[row][at] for row, at in zip(rows, positions, strict=True)])
        last = torch.from_numpy(offsets[1:].astype(np.int64) - 1)
        logits = self.network.forward(ids, torch.cat(positions), self.cache, metadata, last)
        return dict(zip(rows, logits, strict=True))


def texts_of(config: ModelConfig, *lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(config.vocab_size, (n,), generator=generator) for n in lengths]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_chunks_and_decodes_equal_the_dense_network(variant: dict[str, Any]) -> None:
    config = dataclasses.replace(BASE, **variant)
    weights = Drawn(config, torch.float64)
    network = Llama(config, weights, torch.float64)
    assert weights.left == set()
    texts = texts_of(config, 23, 17, 20)
    want = [dense(config, weights.tensors, text) for text in texts]
    paged = Paged(network, texts, block_size=4)
    steps = [{0: 9, 1: 3}, {0: 1, 1: 13, 2: 6}, {0: 1, 1: 1, 2: 1}, {2: 12, 0: 1}, {0: 11, 2: 1}]
    for chunks in steps:
        for row, logits in paged.step(chunks).items():
            torch.testing.assert_close(logits, want[row][paged.done[row] - 1], rtol=1e-9, atol=1e-9)
    assert paged.done == [23, 17, 20]


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 0.06)])
@pytest.mark.parametrize("variant", [VARIANTS["plain"], VARIANTS["everything"]], ids=str)
def test_narrower_dtypes_are_near(variant: dict[str, Any], dtype: torch.dtype, near: float) -> None:
    config = dataclasses.replace(BASE, **variant)
    weights = Drawn(config, dtype)
    weights.tensors = {name: w.to(dtype).double() for name, w in weights.tensors.items()}
    paged = Paged(Llama(config, weights, dtype), texts := texts_of(config, 30), 8)
    want = dense(config, weights.tensors, texts[0])
    paged.step({0: 28})
    for position in (28, 29):
        (logits,) = paged.step({0: 1}).values()
        assert logits.dtype == torch.float32
        error = (logits.double() - want[position]).norm() / want[position].norm()
        assert error < near


def test_only_the_last_tokens_asked_for_go_through_the_head() -> None:
    network = Llama(BASE, Drawn(BASE, torch.float64), torch.float64)
    seen: list[int] = []
    head = network._head  # noqa: SLF001

    def counted(x: Tensor) -> Tensor:
        seen.append(x.shape[0])
        return head(x)

    network._head = counted  # noqa: SLF001
    Paged(network, texts_of(BASE, 20, 20), 4).step({0: 20, 1: 11})
    assert seen == [2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_step_without_a_last_token_has_no_logits(dtype: torch.dtype) -> None:
    network = Llama(BASE, Drawn(BASE, dtype), dtype)
    paged = Paged(network, texts_of(BASE, 5), 4)
    metadata = _one_prefill(paged)
    none = torch.zeros(0, dtype=torch.int64)
    logits = network.forward(paged.texts[0], torch.arange(5), paged.cache, metadata, none)
    assert logits.shape == (0, BASE.vocab_size)


def _one_prefill(paged: Paged) -> ExactMetadata:
    offsets = np.array([0, 5], np.int32)
    at = torch.arange(5)
    return ExactMetadata(
        query_start_loc=torch.from_numpy(offsets),
        seq_lens=torch.tensor([5], dtype=torch.int32),
        block_table=paged.table,
        slot_mapping=paged.table[0].long()[at // 4] * 4 + at % 4,
        query_offsets=offsets,
        max_query_len=5,
        max_seq_len=5,
        num_decodes=0,
        is_prefilling=np.array([True]),
        host_lens=ExactSeqLens.of([5]),
    )


def test_every_variant_takes_every_tensor_once() -> None:
    flags = itertools.product([False, True], repeat=4)
    for tied, bias, output_bias, qk_norm in flags:
        config = dataclasses.replace(
            BASE,
            tie_embeddings=tied,
            attention_bias=bias,
            output_bias=output_bias,
            qk_norm=qk_norm,
        )
        weights = Drawn(config, torch.float32)
        Llama(config, weights, torch.float32)
        assert weights.left == set()
