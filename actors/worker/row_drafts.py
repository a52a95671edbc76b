"""The host's drafts of a batch, held against what the batch has room for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import RowDrafts
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.errors import MessageError


def checked_drafts(batch: Batch, drafts: RowDrafts | None, vocab_size: int) -> RowDrafts:
    """What runs on the decode rows: these, or none. Raises MessageError when they do not fit."""
    room = ints(batch.draft_counts)
    if drafts is None:
        drafts = RowDrafts(np.zeros_like(room), np.zeros(0, np.int32))
        if not room.any():
            # Nobody drafts: no room, no drafts, nothing to compare.
            return drafts
    _check_counts(drafts.counts, room, exact=isinstance(batch, ExactBatch))
    ids = drafts.ids
    if len(ids) != drafts.counts.sum():
        raise MessageError(f"drafts.ids: expected {drafts.counts.sum()} tokens, got {len(ids)}")
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise MessageError(
            f"drafts.ids: expected tokens from 0 to {vocab_size - 1}, got {ids.min()} to {ids.max()}"
        )
    return drafts


def _check_counts(counts: NDArray[np.int32], room: NDArray[np.int32], *, exact: bool) -> None:
    if counts.shape != room.shape or (counts > room).any() or (counts < 0).any():
        raise MessageError(
            f"drafts.counts: expected at most batch.draft_counts {room.tolist()}, "
            f"got {counts.tolist()}"
        )
    if exact and (counts != room).any():
        raise MessageError(
            f"drafts.counts: expected exactly batch.draft_counts {room.tolist()} in an ExactBatch, "
            f"got {counts.tolist()}"
        )
