"""`ExactMetadata | OptimisticMetadata`: what attention is told about the rows of a step.

Device tensors are true when the step runs. Of lengths the host has exact ones in the one type and
bounds in the other, so that an operator which needs exact host lengths says so in its signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels.token_to_req_indices import token_to_req_indices
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound


@dataclass(kw_only=True, eq=False)
class _Metadata:
    """What both kinds hold. Rows are ordered decode first, then prefill.

    query_start_loc: where each row's query begins, and the total, [R + 1] int32, device; its tail
        repeats the total on padding rows.
    seq_lens: tokens in the cache after the step, the query included, [R] int32, device; 0 on padding.
    block_table: [R, B] int32, device; entries behind a row's last block name the null block.
    slot_mapping: KV slot each token is written to, block * P + offset, [T] int64, device; -1: nowhere.
    query_offsets: query_start_loc on the host, [R + 1] int32: how many tokens were scheduled is no
        secret of the device.
    max_query_len: longest query. max_seq_len: no row is longer; in the optimistic kind, a bound.
    num_decodes: rows before it decode, the others prefill: the phase, not the shape of the query.
    is_prefilling: [R] bool, host; False on padding rows.
    """

    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    slot_mapping: Tensor
    query_offsets: NDArray[np.int32]
    max_query_len: int
    max_seq_len: int
    num_decodes: int
    is_prefilling: NDArray[np.bool_]
    _computed: Tensor | None = field(default=None, init=False, repr=False)
    _requests: Tensor | None = field(default=None, init=False, repr=False)
    _owner: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        rows = self.num_rows
        for name, got, expected in (
            ("query_start_loc", self.query_start_loc.shape[0], rows + 1),
            ("block_table", self.block_table.shape[0], rows),
            ("query_offsets", self.query_offsets.shape[0], rows + 1),
            ("is_prefilling", self.is_prefilling.shape[0], rows),
        ):
            if got != expected:
                raise ValueError(f"{name}: expected {expected} entries for {rows} rows, got {got}")

    @property
    def num_rows(self) -> int:
        """R, padding rows included."""
        return self.seq_lens.shape[0]

    @property
    def num_tokens(self) -> int:
        """T, padding tokens included."""
        return self.slot_mapping.shape[0]

    def compute_num_computed_tokens(self) -> Tensor:
        """Tokens in the cache before the step, [R] int32, on the device; computed once."""
        if self._computed is None:
            self._computed = self.seq_lens - self.query_start_loc.diff()
        return self._computed

    def token_to_req_indices(self, buffer: Tensor) -> Tensor:
        """The row of each token, [T] int32, in `buffer`, which the caller owns; computed once.

        Tokens behind the last query map to row 0. Raises ValueError unless buffer is a vector of
        int32 with at least T entries on the metadata's device.
        """
        _check_buffer(buffer, self.num_tokens, self.seq_lens.device)
        out = buffer[: self.num_tokens]
        if self._requests is None:
            self._requests = token_to_req_indices(self.query_start_loc, out)
            self._owner = buffer
        elif self._owner is not buffer:
            out.copy_(self._requests)
        return out

    def _cut(self, num_tokens: int, num_rows: int, **lengths: Any) -> Self:
        if not 0 <= num_rows <= self.num_rows or not 0 <= num_tokens <= self.num_tokens:
            raise ValueError(
                f"unpadded: expected at most {self.num_tokens} tokens and {self.num_rows} rows, "
                f"got {num_tokens} and {num_rows}"
            )
        return replace(
            self,
            query_start_loc=self.query_start_loc[: num_rows + 1],
            seq_lens=self.seq_lens[:num_rows],
            block_table=self.block_table[:num_rows],
            slot_mapping=self.slot_mapping[:num_tokens],
            query_offsets=self.query_offsets[: num_rows + 1],
            is_prefilling=self.is_prefilling[:num_rows],
            num_decodes=min(self.num_decodes, num_rows),
            **lengths,
        )


@dataclass(kw_only=True, eq=False)
class ExactMetadata(_Metadata):
    """Of an ExactBatch. host_lens: seq_lens on the host, exact, [R]."""

    host_lens: ExactSeqLens

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rows("host_lens", self.host_lens.count(), self.num_rows)

    def unpadded(self, num_tokens: int, num_rows: int) -> ExactMetadata:
        """The first rows and tokens alone: padding cannot leak. The maxima stay."""
        return self._cut(num_tokens, num_rows, host_lens=self.host_lens.rows(0, num_rows))


@dataclass(kw_only=True, eq=False)
class OptimisticMetadata(_Metadata):
    """Of an OptimisticBatch. Of decode rows the host has a bound and nothing else.

    decode_bound: no decode row is longer, [num_decodes]. prefill_lens: of the others, [R - num_decodes].
    """

    decode_bound: SeqLensUpperBound
    prefill_lens: ExactSeqLens

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_rows("decode_bound", self.decode_bound.count(), self.num_decodes)
        _check_rows("prefill_lens", self.prefill_lens.count(), self.num_rows - self.num_decodes)

    def unpadded(self, num_tokens: int, num_rows: int) -> OptimisticMetadata:
        """The first rows and tokens alone: padding cannot leak. The maxima stay."""
        decodes = min(self.num_decodes, num_rows)
        # bound, handing on: padding rows are left out, the others keep their bounds
        return self._cut(
            num_tokens,
            num_rows,
            decode_bound=self.decode_bound.rows(0, decodes),
            prefill_lens=self.prefill_lens.rows(0, num_rows - decodes),
        )


Metadata = ExactMetadata | OptimisticMetadata


def _check_rows(name: str, got: int, expected: int) -> None:
    if got != expected:
        raise ValueError(f"{name}: expected {expected} rows, got {got}")


def _check_buffer(buffer: Tensor, tokens: int, device: torch.device) -> None:
    if buffer.dtype != torch.int32 or buffer.dim() != 1:
        raise ValueError(f"buffer: expected a vector of int32, got {buffer.dtype} {buffer.shape}")
    if buffer.device != device:
        raise ValueError(f"buffer: expected device {device}, got {buffer.device}")
    if buffer.shape[0] < tokens:
        raise ValueError(f"buffer: expected at least {tokens} entries, got {buffer.shape[0]}")
