"""`ngram` and `suffix` on the native library: the same drafts, all rows of a step in one call."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import NO_DRAFTS, Ids, RehearsingProposer, StepRows, Worth
from optimist.actors.proposer.options import check_ngram, check_suffix
from optimist.kernels.native.lookup import NativeLookup, ngram_lookup, suffix_lookup


class _Native(RehearsingProposer):
    """Raises ConfigError where the library is missing, and for an option out of range."""

    def __init__(self, config: ProposerConfig) -> None:
        super().__init__(config)
        self._lookup = self._make(config)
        self._salts: dict[int, str | None] = {}

    @abstractmethod
    def _make(self, config: ProposerConfig) -> NativeLookup: ...

    @property
    def nbytes(self) -> int:
        """Memory of all texts and their indices."""
        return self._lookup.nbytes

    def shares(self, slot: int, generation: int, salt: str | None) -> None:
        self._salts[slot] = salt

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._lookup.open(slot, token_ids, self._salts.pop(slot, None))

    def close(self, slot: int, generation: int) -> None:
        self._lookup.close(slot)

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._one(slot, token_ids, 0)

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        return self._one(slot, NO_DRAFTS, max_drafts)

    def step(self, rows: StepRows) -> tuple[Ids, Ids]:
        return self._lookup.step(rows.slots, rows.counts, rows.most, rows.token_ids)

    def rehearse(self, rows: StepRows, max_drafts: int) -> Worth:
        return Worth(*self._lookup.rehearse(rows.slots, rows.counts, max_drafts, rows.token_ids))

    def _one(self, slot: int, token_ids: Ids, most: int) -> Ids:
        slots, counts, wanted = np.array([[slot], [len(token_ids)], [most]], np.int32)
        return self._lookup.step(slots, counts, wanted, token_ids)[1]


class NativeNgram(_Native):
    """See NgramProposer."""

    def _make(self, config: ProposerConfig) -> NativeLookup:
        check_ngram(config.ngram_min, config.ngram_max)
        return ngram_lookup(config.ngram_min, config.ngram_max)


class NativeSuffix(_Native):
    """See SuffixProposer, whose memory it takes too."""

    def _make(self, config: ProposerConfig) -> NativeLookup:
        check_suffix(config)
        depth, capacity = config.suffix_depth, config.suffix_tokens
        return suffix_lookup(depth, capacity, config.suffix_probability)
