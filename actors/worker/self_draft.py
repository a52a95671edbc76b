"""Drafts by the target's own first layers, with its own head."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from optimist.actors.worker.device_proposer import Capture, LogitsProposer, Round
from optimist.actors.worker.draft_pass import hidden_of
from optimist.actors.worker.limits import draft_layers
from optimist.actors.worker.step_graphs import Network, StepGraphs
from optimist.models.llama import Llama


class SelfDraft(LogitsProposer):
    """Shares the target's cache: what it writes for a draft, the target's pass over it writes again.

    layers: how many, None is a quarter of them. Raises ConfigError unless some layers are left out.
    """

    operators = (Llama.hidden,)

    def __init__(self, model: Llama, layers: int | None) -> None:
        self._layers = draft_layers(model.config, layers)
        self._model = model
        self._graphs: StepGraphs | None = None

    def capture(self, graphs: Capture) -> None:
        self._graphs = graphs(Network(self._model, layers=self._layers), 0)

    def logits(self, round: Round, drafted: int) -> Tensor:
        which = round.wanting(drafted)
        one = np.ones_like(which)
        network = Network(self._model, round.state.cache, self._layers)
        x = hidden_of(network, self._graphs, round, which, one, one + drafted)
        return self._model.logits(x)
