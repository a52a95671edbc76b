"""A toy that drafts with itself: each of its drafts is right, as long as its own cache is."""

from __future__ import annotations

from typing import Self

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.testing.torch_toy import toy_network


class TwinExecutor(TorchExecutor):
    """Target and draft model are two networks with the same weights, and two caches."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        return cls(toy_network(), config, draft=toy_network())
