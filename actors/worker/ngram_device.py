"""Drafts by looking the last tokens of a slot up among those before them, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from optimist.actors.proposer.options import check_ngram
from optimist.actors.worker.device_proposer import Round, TokenProposer
from optimist.actors.worker.torch_rows import longest
from optimist.kernels.device import upload


class NgramDevice(TokenProposer):
    """Finds what the host's `ngram` finds, without a proposer that a step waits for.

    shortest, longest: how many last tokens must have occurred before. Raises ConfigError, naming the
    option, for numbers that cannot be. A step has room for drafts whether there is a match or not:
    without one the last token is drafted again.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        check_ngram(shortest, longest)
        self._shortest, self._longest = shortest, longest

    def tokens(self, round: Round) -> Tensor:
        state = round.state
        slots = upload(round.rows.slots[: round.rows.num_decodes].astype(np.int64), state.device)
        computed = state.computed.index_select(0, slots)
        # bound, sizing: how much of the slots is looked at; device lengths decide what counts
        known = state.token_ids[:, : longest(round.batch) + 1]
        found = state.kernels.ngram(
            known, slots, computed + 1, round.most, shortest=self._shortest, longest=self._longest
        )
        return torch.where(found < 0, state.tokens_at(slots, computed)[:, None], found)
