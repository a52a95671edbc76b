"""Drafts of the host that may be used: which slots they are for, behind which step, and how many.

Pure: without clock, device or address.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Limits, RowDrafts
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.drafting import Drafts
from optimist.messages.errors import MessageError

Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]

EMPTY_SLOT = -1
"""generation of a slot that no request is in"""

NEVER = -1
"""the step of what has not happened in this epoch"""


class KeptDrafts:
    """Columns by slot. A draft belongs behind the step in which its slot last sampled, and nowhere else.

    dropped: rows of Drafts that were of no use, by reason. generation: of the request in each slot,
    [max_slots]; EMPTY_SLOT without. sampled: the step in which it last sampled, [max_slots]; NEVER before.
    """

    def __init__(self, limits: Limits) -> None:
        self.dropped: Counter[str] = Counter()
        self._vocab_size = limits.vocab_size
        self._most = limits.max_model_len
        self._slots = limits.max_slots
        self.reset()

    def reset(self) -> None:
        """A new epoch: every slot is empty."""
        self.generation: Ints = np.full(self._slots, EMPTY_SLOT, np.int32)
        self.sampled: NDArray[np.int64] = np.full(self._slots, NEVER, np.int64)
        self._count: Ints = np.zeros(self._slots, np.int32)
        self._ids: Ints = np.zeros((self._slots, 8), np.int32)
        self._final: Mask = np.zeros(self._slots, np.bool_)

    def open(self, slot: int, generation: int) -> None:
        """A request moves in, and has not sampled."""
        self.generation[slot] = generation
        self.sampled[slot], self._count[slot], self._final[slot] = NEVER, 0, False

    def close(self, slots: Ints) -> None:
        """Requests leave."""
        self.generation[slots] = EMPTY_SLOT

    def of(self, batch: Batch) -> RowDrafts:
        """Of its decode rows, as many as there are and there is room for.

        Raises MessageError when it counts on drafts that were not announced.
        """
        slots, room = ints(batch.slots)[: batch.num_decodes], ints(batch.draft_counts)
        counts = np.minimum(self._count[slots], room)
        if isinstance(batch, ExactBatch) and (counts < room).any():
            row = int(np.flatnonzero(counts < room)[0])
            raise MessageError(
                f"batch.draft_counts: expected at most {counts[row]} in slot {slots[row]}, got {room[row]}"
            )
        ids = self._ids[slots][np.arange(self._ids.shape[1]) < counts[:, None]]
        return RowDrafts(counts.astype(np.int32), ids)

    def went_on(self, slots: Ints, step: int) -> None:
        """These sample in a step that is submitted now: no drafts behind that are here yet."""
        self.sampled[slots] = step
        self._count[slots] = 0
        self._final[slots] = False

    def hold(self, slots: Ints, most: Ints) -> Ints:
        """How many drafts there are for the next step of each of these, [S]: from now on no others.

        most: that are of use, [S].
        """
        self._final[slots] = True
        self._count[slots] = np.minimum(self._count[slots], most)
        return self._count[slots]

    def open_behind(self, step: int) -> bool:
        """Whether some slot can still take drafts behind this step."""
        open_for: Mask = (self.sampled == step) & ~self._final
        return bool((open_for & (self.generation != EMPTY_SLOT)).any())

    def keep(self, drafts: Drafts) -> None:
        """Take over what is neither stale, nor of another slot or request, nor no token at all."""
        slots, counts = ints(drafts.slots), ints(drafts.counts)
        rows, ids = np.repeat(np.arange(len(slots)), counts), ints(drafts.token_ids)
        good = np.ones(len(slots), np.bool_)
        at = np.minimum(slots, self._slots - 1)
        checks = (
            ("slot", (at == slots) & (self.generation[at] == ints(drafts.generations))),
            ("stale", self.sampled[at] == drafts.after_step),
            ("held", ~self._final[at]),
            ("count", counts <= self._most),
            ("vocabulary", np.bincount(rows[ids >= self._vocab_size], minlength=len(slots)) == 0),
        )
        for reason, passed in checks:
            self.dropped[reason] += int(np.count_nonzero(good & ~passed))
            good &= passed
        self._store(slots[good], counts[good], ids[good[rows]])

    def _store(self, slots: Ints, counts: Ints, ids: Ints) -> None:
        if (wide := int(counts.max(initial=0))) > self._ids.shape[1]:
            self._ids = np.pad(self._ids, ((0, 0), (0, wide)))
        within = np.arange(len(ids)) - np.repeat(counts.cumsum() - counts, counts)
        self._ids[np.repeat(slots, counts), within] = ids
        self._count[slots] = counts
