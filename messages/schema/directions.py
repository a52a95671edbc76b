"""Who sends what to whom: one closed union for each direction, and every message in at least one."""

from __future__ import annotations

from typing import Any

from optimist.messages.base import Message
from optimist.messages.batches import Batch
from optimist.messages.client import ClientMessage, ServerMessage
from optimist.messages.control import (
    Beat,
    Drain,
    Drained,
    Dropped,
    Fault,
    Hello,
    Progress,
    Ready,
    Restarted,
    Resync,
    Start,
    Stop,
    SyncCheck,
)
from optimist.messages.drafting import Accepted, Close, Drafts, Open, Rehearsed
from optimist.messages.plans import Plan
from optimist.messages.requests import (
    Admit,
    Cancel,
    Grant,
    Placed,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.messages.results import Capacity, StepResult

CLIENT_DIRECTIONS: dict[str, Any] = {
    "client to gateway": ClientMessage,
    "gateway to client": ServerMessage,
}
"""The client protocol: between programs of different versions."""

ACTOR_DIRECTIONS: dict[str, Any] = {
    "gateway to scheduler": Admit | Cancel | Grant,
    "scheduler to gateway": Placed | Scored | Tokens | Retired | SchedulerStats | Resync,
    "scheduler to builder": Plan,
    "builder to scheduler": Resync,
    "builder to worker": Batch,
    "scheduler to worker": Resync,
    "worker to scheduler": StepResult | Capacity | Resync,
    "scheduler to proposer": Open | Close,
    "worker to proposer": Accepted | Capacity,
    "proposer to worker": Drafts | Resync,
    "proposer to scheduler": Rehearsed | Resync,
    "child process to supervisor": Hello | Ready | Progress | Beat | Drained | Placed | Fault,
    "supervisor to child process": (
        Start | Stop | Drain | Dropped | Placed | Fault | Restarted | SyncCheck
    ),
}
"""Between the actors of one engine, which are always of one version."""

DIRECTIONS = CLIENT_DIRECTIONS | ACTOR_DIRECTIONS


def members(union: Any) -> tuple[type[Message], ...]:
    """The message classes of a union, or of a single class."""
    return getattr(union, "__args__", (union,))


def every_message() -> tuple[type[Message], ...]:
    """Each message class once, in the order of the directions."""
    return tuple(dict.fromkeys(kind for union in DIRECTIONS.values() for kind in members(union)))
