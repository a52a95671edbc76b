"""Every configuration of the Triton kernels that is shipped, as a call that launches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from optimist.kernels.add_rms_norm.triton import add_rms_norm
from optimist.kernels.advance.triton import advance
from optimist.kernels.kv_cache import head_bytes
from optimist.kernels.kv_write.triton import kv_write
from optimist.kernels.linear_int4 import Int4
from optimist.kernels.linear_int4.triton import linear_int4
from optimist.kernels.linear_int8 import Int8
from optimist.kernels.linear_int8.triton import linear_int8
from optimist.kernels.metadata import ExactMetadata
from optimist.kernels.ngram.triton import ngram
from optimist.kernels.paged_attention.triton import paged_attention, prepare
from optimist.kernels.place.triton import place
from optimist.kernels.rms_norm.triton import rms_norm
from optimist.kernels.rope.triton import rope_
from optimist.kernels.sampling.triton import distribution, greedy, sample
from optimist.kernels.sampling.types import Edits, Penalties, Rows
from optimist.kernels.silu_and_mul.triton import silu_and_mul
from optimist.kernels.token_to_req_indices.triton import token_to_req_indices
from optimist.kernels.verify.triton import block, compare, reject
from optimist.kernels.verify.types import Noise, Places
from optimist.messages.lengths import ExactSeqLens

HEAD_SIZES = (64, 80, 96, 128, 256)

FP8 = {
    "cuda:80": torch.float8_e5m2,
    "cuda:90": torch.float8_e4m3fn,
    "hip:gfx942": torch.float8_e4m3fnuz,
}
"""what a cache of eight bits holds on each target: what its instructions convert"""

_BF16, _F32 = torch.bfloat16, torch.float32


Call = Callable[[], object]


def _on_no_device(*shape: int, dtype: torch.dtype = _BF16) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _metadata(queries: list[int], lengths: list[int], decodes: int, blocks: int) -> ExactMetadata:
    offsets = np.concatenate(([0], np.cumsum(queries))).astype(np.int32)
    rows = len(queries)
    return ExactMetadata(
        query_start_loc=_on_no_device(rows + 1, dtype=torch.int32),
        seq_lens=_on_no_device(rows, dtype=torch.int32),
        block_table=_on_no_device(rows, blocks, dtype=torch.int32),
        slot_mapping=_on_no_device(int(offsets[-1]), dtype=torch.int64),
        query_offsets=offsets,
        max_query_len=max(queries),
        max_seq_len=max(lengths),
        num_decodes=decodes,
        is_prefilling=np.arange(rows) >= decodes,
        host_lens=ExactSeqLens.of(lengths),
    )


def attention(
    dim: int,
    *,
    queries: int = 1,
    decodes: bool = True,
    splits: int = 1,
    size: int = 16,
    window: int | None = None,
    softcap: float | None = None,
    held: torch.dtype = _BF16,
    dtype: torch.dtype = _BF16,
) -> Call:
    """Attention of 32 rows with so many query tokens each, 16 heads that share 4 KV heads."""

    def call() -> object:
        metadata = _metadata([queries] * 32, [1000] * 32, 32 if decodes else 0, 1024 // size)
        q = _on_no_device(32 * queries, 24, dim, dtype=dtype)[:, :16]
        cache = _layer_cache(8, size, dim, held)
        plan = prepare(metadata, cache, dtype=dtype, window=window, splits=splits)
        return paged_attention(q, cache, plan, scale=dim**-0.5, softcap=softcap)

    return call


def _layer_cache(heads: int, size: int, dim: int, held: torch.dtype) -> Tensor:
    width = head_bytes(dim, held) // held.itemsize
    return _on_no_device(heads, 4096, size, width, dtype=held)


def _attention() -> dict[str, Call]:
    found = {"P=64": attention(128, size=64)}
    whole = partial(attention, held=_F32, dtype=_F32)
    for dim in HEAD_SIZES:
        found |= {
            f"decode D={dim}": attention(dim),
            f"decode split D={dim}": attention(dim, splits=8),
            f"decode drafts D={dim}": attention(dim, queries=5),
            f"prefill D={dim}": attention(dim, queries=64, decodes=False),
        }
        found |= {
            f"decode float32 D={dim}": whole(dim),
            f"decode drafts float32 D={dim}": whole(dim, queries=5),
            f"prefill float32 D={dim}": whole(dim, queries=64, decodes=False),
        }
    capped = partial(attention, 128, queries=64, decodes=False, window=512, softcap=30.0)
    return found | {
        "decode many drafts": attention(128, queries=17),
        "decode split float32": whole(128, splits=8),
        "window softcap": capped(),
        "window softcap float32": capped(held=_F32, dtype=_F32),
    }


def _dense() -> dict[str, Call]:
    tokens, width = 64, 4096
    weight = _on_no_device(width, dtype=_F32)
    turns = _on_no_device(tokens, 1, 128, dtype=_F32)
    qkv = _on_no_device(tokens, 48, 128)
    slots = _on_no_device(tokens, dtype=torch.int64)
    return {
        "rms_norm": lambda: rms_norm(_on_no_device(tokens, width, dtype=_F32), weight, 1e-5),
        "rms_norm heads": lambda: rms_norm(qkv[:, :40], weight[:128], 1e-5),
        "add_rms_norm": lambda: add_rms_norm(
            _on_no_device(tokens, width, dtype=_F32), _on_no_device(tokens, width), weight, 1e-5
        ),
        "silu_and_mul": lambda: silu_and_mul(_on_no_device(tokens, 2 * 14336)),
        "rope": lambda: rope_(qkv[:, :40], turns, turns),
        "kv_write": lambda: kv_write(qkv[:, 32:], _on_no_device(16, 4096, 16, 128), slots),
    }


def _steps() -> dict[str, Call]:
    slots, width, rows, tokens = 256, 8193, 64, 320

    def longs(count: int) -> Tensor:
        return _on_no_device(count, dtype=torch.int64)

    def words(*shape: int) -> Tensor:
        return _on_no_device(*shape, dtype=torch.int32)

    return {
        "place": lambda: place(
            words(slots, width),
            longs(rows),
            words(rows + 1),
            words(rows),
            words(rows, 512),
            16,
            row=longs(tokens),
        ),
        "advance": lambda: advance(
            words(slots),
            words(slots, width),
            longs(rows),
            words(rows),
            words(rows),
            longs(tokens),
            longs(tokens),
            longs(tokens),
        ),
        "token_to_req_indices": lambda: token_to_req_indices(words(rows + 1), words(tokens)),
        "ngram": lambda: ngram(
            words(slots, width), longs(rows), words(rows), 5, shortest=2, longest=5
        ),
    }


def _linears() -> dict[str, Call]:
    outputs, inputs = 4096, 4096
    eight = Int8(
        _on_no_device(outputs, inputs, dtype=torch.int8), _on_no_device(outputs, dtype=_F32)
    )
    groups = _on_no_device(outputs, inputs // 32)
    four = Int4(_on_no_device(outputs, inputs // 2, dtype=torch.uint8), groups, groups)
    one, few, many = (_on_no_device(tokens, inputs) for tokens in (1, 32, 64))
    whole = _on_no_device(64, inputs, dtype=_F32)
    return {
        "linear_int8 T=64": lambda: linear_int8(many, eight),
        "linear_int8 float32": lambda: linear_int8(whole, eight),
        "linear_int4 float32": lambda: linear_int4(whole, four),
        "linear_int8 T=1": lambda: linear_int8(one, eight),
        "linear_int8 T=32": lambda: linear_int8(few, eight),
        "linear_int4 T=1": lambda: linear_int4(one, four),
        "linear_int4 T=32": lambda: linear_int4(few, four),
    }


def sampling_rows(rows: int, vocab: int) -> Rows:
    """Rows that use everything."""

    def numbers(dtype: torch.dtype = _F32) -> Tensor:
        return _on_no_device(rows, dtype=dtype)

    counts = _on_no_device(rows, vocab, dtype=torch.int32)
    known = _on_no_device(rows, vocab, dtype=torch.bool)
    edits = Edits(numbers(torch.int64), numbers(torch.int64), numbers())
    return Rows(
        numbers(),
        numbers(torch.int64),
        numbers(torch.int64),
        Penalties(counts, known, numbers(), numbers(), numbers()),
        (edits,),
        numbers(torch.int32),
        50,
        numbers(),
        numbers(),
    )


def _choices() -> dict[str, Call]:
    rows, vocab = 64, 128_256
    logits = _on_no_device(rows, vocab, dtype=_F32)
    whole = sampling_rows(rows, vocab)
    warm = Rows(whole.temperature, whole.seed, whole.position)
    longs = _on_no_device(rows, dtype=torch.int64)
    counts = _on_no_device(16, dtype=torch.int64)
    grid = _on_no_device(16, 5, dtype=torch.int64)
    places = Places(np.arange(17, dtype=np.int32), 4, longs, grid, counts, longs)
    noise = Noise(longs, longs)
    return {
        "sampling greedy": lambda: greedy(logits),
        "sampling temperature": lambda: sample(logits, warm),
        "sampling everything": lambda: sample(logits, whole),
        "sampling distribution": lambda: distribution(logits, whole),
        "verify compare": lambda: compare(longs, places),
        "verify rejection": lambda: reject(logits, logits, places, noise),
        "verify rejection certain": lambda: reject(logits, None, places, noise),
        "verify block": lambda: block(logits, logits, places, noise),
        "verify block certain": lambda: block(logits, None, places, noise),
    }


def _narrow(held: torch.dtype) -> dict[str, Call]:
    kv, slots = _on_no_device(64, 48, 128)[:, 32:], _on_no_device(64, dtype=torch.int64)
    cache = _layer_cache(16, 16, 128, held)
    found: dict[str, Call] = {"kv_write fp8": lambda: kv_write(kv, cache, slots)}
    for dim in HEAD_SIZES:
        found |= {
            f"paged_attention decode fp8 D={dim}": attention(dim, held=held),
            f"paged_attention decode drafts fp8 D={dim}": attention(dim, queries=5, held=held),
            f"paged_attention prefill fp8 D={dim}": attention(
                dim, queries=64, decodes=False, held=held
            ),
        }
    return found | {
        "paged_attention decode split fp8": attention(128, splits=8, held=held),
        "paged_attention decode many drafts fp8": attention(128, queries=17, held=held),
        "paged_attention prefill fp8 float32": attention(
            128, queries=64, decodes=False, held=held, dtype=_F32
        ),
        "paged_attention window softcap fp8": attention(
            128, queries=64, decodes=False, window=512, softcap=30.0, held=held
        ),
    }


def builds(target: str) -> Mapping[str, Call]:
    """What is shipped for a target such as `cuda:90`, by name."""
    return {**BUILDS, **_narrow(FP8[target])}


BUILDS: Mapping[str, Call] = {
    **_dense(),
    **_steps(),
    **_linears(),
    **_choices(),
    **{f"paged_attention {name}": call for name, call in _attention().items()},
}
"""what is shipped for every target alike"""
