"""Looking up the last tokens on the device, in torch and in Triton: what the host's proposer finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist.actors.proposer.ngram import continuation, match
from optimist.kernels.ngram import CARD, cpu
from optimist.kernels.ngram import triton as triton_ngram
from optimist.kernels.ngram.triton import ngram
from optimist.kernels.sync_check import checked_step

VERSIONS = (ngram, cpu.ngram)

BY_HAND = {
    "longest": ([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], [9, 2, 3]),
    "rightmost of equals": ([2, 3, 7, 2, 3, 8, 2, 3], [8, 2, 3]),
    "overlap goes on with itself": ([5, 4, 4, 4], [4, 4, 4]),
    "no match": ([1, 2, 3, 4], [-1, -1, -1]),
    "too short": ([7], [-1, -1, -1]),
}


@pytest.mark.parametrize(("tokens", "want"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(tokens: list[int], want: list[int], device: str) -> None:
    known = torch.zeros(2, 16, dtype=torch.int32)
    known[1, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
    slots, lengths = torch.tensor([1]), torch.tensor([len(tokens)], dtype=torch.int32)
    for version in VERSIONS:
        there = (known.to(device), slots.to(device), lengths.to(device))
        assert version(*there, 3, shortest=2, longest=4).tolist() == [want]
    assert CARD.reference(known, slots, lengths, 3, shortest=2, longest=4).tolist() == [want]


@pytest.mark.parametrize(("shortest", "longest"), [(1, 1), (1, 3), (2, 5)])
def test_rows_equal_the_spec_and_the_host(
    shortest: int, longest: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_ngram, "BLOCK", 16)
    rng = np.random.default_rng(longest)
    known = torch.from_numpy(rng.integers(0, 4, (9, 60)).astype(np.int32))
    slots = torch.from_numpy(rng.permutation(9).astype(np.int64))
    lengths = torch.from_numpy(rng.integers(1, 60, 9).astype(np.int32))
    limits = {"shortest": shortest, "longest": longest}
    want = CARD.reference(known, slots, lengths, 5, **limits)
    for version in VERSIONS:
        got = version(known.to(device), slots.to(device), lengths.to(device), 5, **limits)
        assert got.dtype == torch.int32
        assert got.tolist() == want.tolist()
    for row, slot in enumerate(slots.tolist()):
        tokens = known[slot, : lengths[row]].numpy()
        end = match(tokens, shortest, longest)
        host = [-1] * 5 if end is None else continuation(tokens, end, 5).tolist()
        assert want[row].tolist() == host


def test_no_rows_and_no_drafts(device: str) -> None:
    known = torch.zeros(2, 8, dtype=torch.int32, device=device)
    for rows, count in ((0, 3), (2, 0)):
        slots = torch.zeros(rows, dtype=torch.int64, device=device)
        lengths = torch.ones(rows, dtype=torch.int32, device=device)
        for version in VERSIONS:
            got = version(known, slots, lengths, count, shortest=1, longest=2)
            assert got.shape == (rows, count)


def test_nothing_is_read_on_the_host(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    known = torch.zeros(2, 8, dtype=torch.int32, device=device)
    slots, lengths = torch.tensor([1], device=device), torch.tensor([5], device=device).int()
    with checked_step():
        for version in VERSIONS:
            version(known, slots, lengths, 3, shortest=1, longest=2)
