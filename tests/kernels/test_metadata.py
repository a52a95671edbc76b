"""The device-side form of a batch: length algebra without a host read, and cuts without leaks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from paged_rows import optimistic, paged

from optimist.kernels.metadata import ExactMetadata, Metadata, OptimisticMetadata
from optimist.kernels.sync_check import checked_step

QUERIES, LENGTHS = (1, 1, 4, 3), (5, 9, 4, 11)


def both(padding: int = 0, rows: int = 0) -> list[Metadata]:
    exact = paged((*QUERIES, *[0] * rows), (*LENGTHS, *[0] * rows), padding=padding).metadata
    return [exact, optimistic(exact, 2)]


@pytest.mark.parametrize("metadata", both(), ids=["exact", "optimistic"])
def test_computed_tokens_are_lengths_minus_queries_and_computed_once(metadata: Metadata) -> None:
    got = metadata.compute_num_computed_tokens()
    assert got.tolist() == [4, 8, 0, 8]
    assert metadata.compute_num_computed_tokens() is got


@pytest.mark.parametrize("metadata", both(padding=2, rows=1), ids=["exact", "optimistic"])
def test_token_to_req_indices_maps_padding_to_row_0(metadata: Metadata) -> None:
    buffer = torch.full((16,), -7, dtype=torch.int32)
    got = metadata.token_to_req_indices(buffer)
    assert got.tolist() == [0, 1, 2, 2, 2, 2, 3, 3, 3, 0, 0]
    assert got.data_ptr() == buffer.data_ptr()
    assert buffer[11:].eq(-7).all()
    other = torch.zeros(11, dtype=torch.int32)
    assert metadata.token_to_req_indices(other).tolist() == got.tolist()
    assert other.tolist() == got.tolist()


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (torch.zeros(20), "int32"),
        (torch.zeros(4, 5, dtype=torch.int32), "vector"),
        (torch.zeros(8, dtype=torch.int32), "at least 9"),
        (torch.zeros(20, dtype=torch.int32, device="meta"), "device cpu"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(buffer: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        both()[0].token_to_req_indices(buffer)


def test_the_algebra_reads_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    for metadata in both(padding=2, rows=1):
        buffer = torch.zeros(16, dtype=torch.int32)
        with checked_step():
            metadata.compute_num_computed_tokens()
            metadata.token_to_req_indices(buffer)
            metadata.unpadded(9, 4)


@pytest.mark.parametrize("padded", both(padding=3, rows=2), ids=["exact", "optimistic"])
def test_unpadded_cuts_every_field_of_rows_and_tokens(padded: Metadata) -> None:
    padded.compute_num_computed_tokens()
    cut = padded.unpadded(9, 4)
    assert type(cut) is type(padded)
    plain = both()[isinstance(padded, OptimisticMetadata)]
    for field in dataclasses.fields(cut):
        got, want = getattr(cut, field.name), getattr(plain, field.name)
        if isinstance(got, torch.Tensor):
            assert torch.equal(got, want) or field.name in ("slot_mapping", "block_table")
            assert got.shape[0] == want.shape[0]
        elif isinstance(got, np.ndarray):
            assert np.array_equal(got, want)
    assert cut.compute_num_computed_tokens().tolist() == [4, 8, 0, 8]
    assert (cut.max_query_len, cut.max_seq_len) == (padded.max_query_len, padded.max_seq_len)


def test_unpadded_cuts_host_lengths_of_either_kind() -> None:
    exact, bound = (metadata.unpadded(1, 1) for metadata in both(rows=1))
    assert isinstance(exact, ExactMetadata)
    assert exact.host_lens.exact().tolist() == [5]
    assert isinstance(bound, OptimisticMetadata)
    assert (bound.decode_bound.max(), bound.prefill_lens.count()) == (7, 0)
    with pytest.raises(ValueError, match="at most 9 tokens and 5 rows"):
        both(rows=1)[0].unpadded(9, 6)


def test_fields_that_disagree_on_the_rows_are_refused() -> None:
    exact, bound = both()
    for metadata, name in (
        (exact, "block_table"),
        (exact, "query_start_loc"),
        (exact, "is_prefilling"),
        (exact, "host_lens"),
        (bound, "decode_bound"),
        (bound, "prefill_lens"),
    ):
        value = getattr(metadata, name)
        short = value.rows(0, 1) if hasattr(value, "rows") else value[:1]
        with pytest.raises(ValueError, match=name):
            dataclasses.replace(metadata, **{name: short})
