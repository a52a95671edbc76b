"""Drafts by the target's own first layers, with its own head."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from optimist.actors.worker.device_proposer import LogitsProposer, Round
from optimist.actors.worker.draft_pass import draft_pass
from optimist.actors.worker.limits import draft_layers
from optimist.models.llama import Llama


class SelfDraft(LogitsProposer):
    """Shares the target's cache: what it writes for a draft, the target's pass over it writes again.

    layers: how many, None is a quarter of them. Raises ConfigError unless some layers are left out.
    """

    def __init__(self, model: Llama, layers: int | None) -> None:
        self._layers = draft_layers(model.config, layers)
        self._model = model

    def logits(self, round: Round, drafted: int) -> Tensor:
        which = round.wanting(drafted)
        one = np.ones_like(which)
        step = draft_pass(round.batch, round.rows, round.state, which, one, one + drafted)
        x = self._model.hidden(
            step.ids, step.positions, round.state.cache, step.metadata, self._layers
        )
        return self._model.logits(x)
