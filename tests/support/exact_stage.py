"""Executors that cannot run optimistic plans, as somebody might write them."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress
from optimist.kernels.metadata import ExactMetadata, Metadata
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.testing.integer_model import IntegerExecutor


def exact_attention(q: Tensor, metadata: ExactMetadata) -> Tensor:
    """An operator that needs the lengths on the host."""
    return q[: metadata.host_lens.total()]


def any_attention(q: Tensor, metadata: Metadata) -> Tensor:
    """One that goes by what the device knows."""
    return q[metadata.seq_lens]


def untyped(q, metadata):  # type: ignore[no-untyped-def]
    """One that does not say what it takes."""
    return q[metadata.seq_lens]


class Loads(IntegerExecutor):
    """Says so when it is loaded."""

    loaded = 0

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        Loads.loaded += 1
        return super().load(config, progress)


class ExactOnly(Loads):
    """Runs exact batches alone."""

    takes = (ExactBatch,)


class OptimisticOnly(Loads):
    """Runs optimistic batches alone."""

    takes = (OptimisticBatch,)


class Planted(Loads):
    """Has an operator among its own that takes exact metadata alone."""

    operators = (any_attention, exact_attention)


class Brings(Loads):
    """Makes something of its own, when it is loaded, that takes exact metadata alone."""

    brought = (exact_attention,)


class Vague(Loads):
    """Has an operator that does not say what it takes."""

    operators = (untyped,)
