"""Drafts by the target's own first layers, with its own head."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from optimist.actors.worker.device_proposer import LogitsProposer, Round
from optimist.actors.worker.draft_pass import draft_pass
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama


def draft_layers(model: ModelConfig, layers: int | None) -> int:
    """How many layers draft. Raises ConfigError, naming the option, unless some are left out."""
    total = model.num_layers
    wanted = max(1, total // 4) if layers is None else layers
    if not 1 <= wanted < total:
        raise ConfigError(
            f"worker.draft_layers: expected 1 to {total - 1} of the model's {total} layers, "
            f"got {wanted}"
        )
    return wanted


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
