"""From a batch and its drafts to the rows of a native step, and from what was chosen to an outcome."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Outcome, RowDrafts
from optimist.actors.worker.no_token import answered
from optimist.actors.worker.row_drafts import checked_drafts
from optimist.kernels.native.shapes import Choice, Chosen, Ints, Rows
from optimist.messages.base import column, floats, ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.errors import MessageError
from optimist.messages.results import Logprobs
from optimist.messages.slots import OpenedSlot

UNKNOWN = -1
"""a length that only the device knows"""


class Planned(NamedTuple):
    """Rows for the device. needed: tokens that each row's blocks must hold, or suffice for, [R]."""

    rows: Rows
    needed: NDArray[np.int64]


def planned(
    batch: Batch, drafts: RowDrafts | None, vocab_size: int, *, itself: bool = False
) -> Planned:
    """The rows of a batch. Raises MessageError when they contradict each other or their drafts.

    itself: the device drafts, as many tokens as the batch has room for.
    """
    held = _own(batch, drafts) if itself else checked_drafts(batch, drafts, vocab_size)
    counts = np.zeros(ints(batch.slots).size, np.int32)
    counts[: batch.num_decodes] = held.counts
    if isinstance(batch, ExactBatch):
        starts, samples = ints(batch.query_start_loc), ints(batch.samples)
        queries = starts[1:] - starts[:-1]
        lengths = batch.seq_lens.exact()
        needed = lengths.astype(np.int64)
    else:
        queries, samples, lengths, needed = _optimistic(batch, held)
    if (queries <= counts).any():
        raise MessageError(f"batch: expected queries of at least one token, got {queries.tolist()}")
    return Planned(Rows(ints(batch.slots), queries, lengths, samples, counts, held.ids), needed)


def _own(batch: Batch, drafts: RowDrafts | None) -> RowDrafts:
    if drafts is not None:
        raise MessageError("drafts: expected none from the host, this device drafts itself")
    return RowDrafts(ints(batch.draft_counts), np.zeros(0, np.int32))


def _optimistic(
    batch: OptimisticBatch, drafts: RowDrafts
) -> tuple[Ints, Ints, Ints, NDArray[np.int64]]:
    prefill, decodes = batch.prefill, batch.num_decodes
    # bound, exact on prefill rows: queries and lengths of prompt chunks
    known = prefill.seq_lens.exact()
    queries = np.concatenate((1 + drafts.counts, known - ints(prefill.starts)))
    samples = np.concatenate((np.ones(decodes, np.int32), ints(prefill.samples)))
    lengths = np.concatenate((np.full(decodes, UNKNOWN, np.int32), known))
    return queries, samples, lengths, np.concatenate((bounds(batch), known)).astype(np.int64)


def bounds(batch: Batch) -> Ints:
    """Tokens that the blocks of decode rows must have room for, [D]."""
    if isinstance(batch, ExactBatch):
        return batch.seq_lens.exact()[: batch.num_decodes]
    # bound, sizing: blocks that the table must hold; the device goes by its own lengths
    return batch.bound.sizing_array(reader="native_rows")


def choice_of(opened: OpenedSlot) -> Choice:
    """How the tokens of a request are chosen."""
    sampling = opened.sampling
    return Choice(
        seed=sampling.seed,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        presence=sampling.presence_penalty,
        frequency=sampling.frequency_penalty,
        repetition=sampling.repetition_penalty,
        top_k=sampling.top_k,
        min_tokens=sampling.min_tokens,
        prompt_len=opened.prompt_len,
        alternatives=sampling.logprobs,
        bias_ids=ints(sampling.bias_ids),
        bias_values=floats(sampling.bias_values),
        stop_ids=ints(sampling.stop_ids),
    )


def outcome(batch: Batch, rows: Rows, chosen: Chosen, asked: Ints) -> Outcome:
    """What a step produced. asked: alternatives of each row that sampled, -1 for no report, [S]."""
    which = np.flatnonzero(rows.samples)
    if not rows.drafts.any() and (chosen.ids >= 0).all():
        return _one_each(batch, rows, which, chosen, asked)
    drafts = rows.drafts[which]
    places = 1 + drafts
    counts = answered(chosen.counts, chosen.ids, places)
    at = np.arange(places.sum()) - np.repeat(np.cumsum(places) - places, places)
    filled = at < np.repeat(counts, places)
    return Outcome(
        slots=rows.slots[which],
        generations=ints(batch.generations)[which],
        token_counts=counts,
        token_ids=chosen.ids[filled],
        drafts_run=drafts,
        logprobs=_logprobs(chosen, np.repeat(asked, places)[filled], filled),
    )


def plain_outcome(batch: Batch, rows: Rows, chosen: Chosen) -> Outcome | None:
    """The same where every row chose, and none has drafts or asks for a report. None: one has no token."""
    if chosen.ids.min(initial=0) < 0:
        return None
    same = rows.slots, ints(batch.generations)
    return Outcome(*same, chosen.counts, chosen.ids, rows.drafts, logprobs=None)


def _one_each(
    batch: Batch, rows: Rows, which: NDArray[np.intp], chosen: Chosen, asked: Ints
) -> Outcome:
    """The same without drafts: a token of each row."""
    report = _logprobs(chosen, asked, np.ones(which.size, np.bool_)) if (asked >= 0).any() else None
    return Outcome(
        slots=rows.slots[which],
        generations=ints(batch.generations)[which],
        token_counts=chosen.counts,
        token_ids=chosen.ids,
        drafts_run=np.zeros(which.size, np.int32),
        logprobs=report,
    )


def _logprobs(chosen: Chosen, asked: Ints, filled: NDArray[np.bool_]) -> Logprobs | None:
    """asked: of each token, [T]."""
    tokens = np.flatnonzero(asked >= 0)
    if not tokens.size:
        return None
    places = np.flatnonzero(filled)[tokens]
    counts = np.minimum(asked[tokens], chosen.top_ids.shape[1])
    wanted = np.arange(chosen.top_ids.shape[1]) < counts[:, None]
    return Logprobs(
        tokens=column(tokens),
        chosen=chosen.logprobs[places].astype("<f4").tobytes(),
        ranks=column(chosen.ranks[places]),
        counts=column(counts),
        top_ids=column(chosen.top_ids[places][wanted]),
        top_values=chosen.top_values[places][wanted].astype("<f4").tobytes(),
    )
