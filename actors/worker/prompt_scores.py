"""Which tokens of a step tell how likely a prompt was, and what is said of them. Host data only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import column, ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.results import Logprobs, PromptScores

Ints = NDArray[np.int32]
Floats = NDArray[np.floating]


class Asked(NamedTuple):
    """Prompt tokens whose log-probabilities a step can tell, of P rows, N in all.

    slots, generations: [P]. firsts: number of each row's first one in its prompt, [P]; counts: [P].
    places: the query token behind which each one stands, [N] int64. ids: which it is, [N].
    alternatives: reported beside it, [N].
    """

    slots: Ints
    generations: Ints
    firsts: Ints
    counts: Ints
    places: NDArray[np.int64]
    ids: Ints
    alternatives: Ints


class PromptWishes:
    """The prompts in the slots whose log-probabilities are wanted."""

    def __init__(self) -> None:
        self._wanted: dict[int, tuple[Ints, int]] = {}

    def __bool__(self) -> bool:
        """Whether a prompt in a slot has any."""
        return bool(self._wanted)

    def move(self, batch: Batch) -> None:
        """Requests leave slots, others move in."""
        if self._wanted:
            for slot in ints(batch.closed).tolist():
                self._wanted.pop(slot, None)
        for opened in batch.opened:
            self._wanted.pop(opened.slot, None)
            if opened.sampling.prompt_logprobs >= 0:
                prompt = ints(opened.token_ids)[: opened.prompt_len]
                self._wanted[opened.slot] = prompt, opened.sampling.prompt_logprobs

    def asked(self, batch: Batch, offsets: Ints) -> Asked | None:
        """What this step can tell, None where nobody asks. offsets: where each row's query begins, [R + 1]."""
        if not self._wanted:
            return None
        decodes = batch.num_decodes
        slots, ends = ints(batch.slots)[decodes:], _ends(batch)
        starts = ends - np.diff(offsets)[decodes:]
        rows = [
            (row, start, self._wanted[slot])
            for row, (slot, start) in enumerate(zip(slots.tolist(), starts.tolist(), strict=True))
            if slot in self._wanted and start + 1 < len(self._wanted[slot][0])
        ]
        if not rows:
            return None
        which = np.array([row for row, _, _ in rows])
        told = [prompt[start + 1 : ends[row] + 1] for row, start, (prompt, _) in rows]
        counts = np.array([len(ids) for ids in told], np.int32)
        firsts = np.array([start + 1 for _, start, _ in rows], np.int32)
        begins = offsets[decodes:-1][which].astype(np.int64)
        within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        most = np.array([most for _, _, (_, most) in rows], np.int32)
        return Asked(
            slots=slots[which],
            generations=ints(batch.generations)[decodes:][which],
            firsts=firsts,
            counts=counts,
            places=np.repeat(begins, counts) + within,
            ids=np.concatenate(told),
            alternatives=np.repeat(most, counts),
        )


def _ends(batch: Batch) -> Ints:
    """Tokens of the prefill rows behind the step."""
    if isinstance(batch, ExactBatch):
        return batch.seq_lens.exact()[batch.num_decodes :]
    # bound, exact on prefill rows: which tokens of a prompt a chunk holds
    return batch.prefill.seq_lens.exact()


def prompt_scores(
    asked: Asked, chosen: Floats, ranks: NDArray[np.integer], top_ids: Ints, top_values: Floats
) -> PromptScores:
    """The message part. chosen, ranks: [N]. top_ids, top_values: alternatives, best first, [N, A]."""
    wanted = np.arange(top_ids.shape[1]) < asked.alternatives[:, None]
    return PromptScores(
        slots=column(asked.slots),
        generations=column(asked.generations),
        firsts=column(asked.firsts),
        counts=column(asked.counts),
        logprobs=Logprobs(
            tokens=column(np.arange(len(asked.ids))),
            chosen=chosen.astype("<f4").tobytes(),
            ranks=column(ranks),
            counts=column(wanted.sum(-1)),
            top_ids=column(top_ids[wanted]),
            top_values=top_values[wanted].astype("<f4").tobytes(),
        ),
    )
