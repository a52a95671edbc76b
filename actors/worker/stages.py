"""A step on its way through the worker: ready, running, computed, done."""

from __future__ import annotations

from typing import NamedTuple

from optimist.actors.worker.base import Outcome, Prepared, Ticket
from optimist.actors.worker.core import Times
from optimist.messages.batches import Batch


class Ready(NamedTuple):
    """A step that lacks nothing but the device."""

    batch: Batch
    submit: Prepared


class Running(NamedTuple):
    """A step on the device."""

    batch: Batch
    ticket: Ticket


class Computed(NamedTuple):
    """A step that has been computed, whose tokens nobody has read. at: when it ended."""

    batch: Batch
    ticket: Ticket
    at: float


class Done(NamedTuple):
    """A step whose tokens are readable."""

    batch: Batch
    outcome: Outcome
    times: Times
