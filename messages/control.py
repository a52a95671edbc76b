"""Between the supervisor and its actors, and between actors that have lost each other."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from optimist.messages.base import ActorMessage


class Hello(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Child process to supervisor, first of all: which cell it is, and its process id."""

    cell: str
    pid: int


class Start(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to child process, in answer to Hello: which actors to run, and with what.

    actors: names, in starting order. life: the incarnation that they are given.
    directory: where the sockets of the actors are, mode 0700.
    config: the EngineConfig as JSON text; each actor takes its part.
    path: where to look for `module:Class`, after the child's own import path.
    """

    actors: tuple[str, ...]
    life: int
    directory: str
    config: bytes
    path: tuple[str, ...] = ()


class Ready(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Actor to supervisor, when it can take messages. detail: what to tell the user, one line."""

    actor: str
    detail: str = ""


class Progress(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Actor to supervisor, while it starts: done of total, in words of what. May be dropped."""

    actor: str
    what: str
    done: int
    total: int


class Beat(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Child process to supervisor, every beat interval: its loop turns.

    dropped: frames since the last beat that were no messages, by the actor on whose socket they came.
    """

    cell: str
    dropped: dict[str, int] = msgspec.field(default_factory=dict)


class Dropped(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to gateway: so many more frames on an actor's socket were no messages."""

    actor: str
    frames: int


class Drain(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to gateway: refuse new requests, finish those that run."""

    urgent: ClassVar[bool] = True


class Drained(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Child process to supervisor, after Drain: nothing is left of what its gateway had taken."""


class Stop(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to actor: end now, in good order."""

    urgent: ClassVar[bool] = True


class Fault(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Actor to supervisor when it fails, and supervisor to gateway when an actor is lost.

    To the worker too, when the proposer is.

    actor: who failed. reason: exception or exit status, and the last words on its stderr.
    kind: class name of the exception, "" where there was none.
    final: beyond the restart budget: the engine ends.
    """

    urgent: ClassVar[bool] = True

    actor: str
    reason: str
    kind: str = ""
    final: bool = False


class Restarted(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to gateway, when a lost actor is ready again: health turns green.

    To the worker too, when the proposer is.
    """

    actor: str


SyncMode = Literal["off", "warn", "error"]
"""What a host read of a device tensor inside a step does."""


class SyncCheck(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Supervisor to worker, when the engine's owner switches: how its steps are checked from now on.

    To every later life of the worker too, once it is ready.
    """

    mode: SyncMode


class Resync(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """From an actor that knows nothing, or found a gap, to the one that can tell it again.

    builder to scheduler: send the unsettled plans again. scheduler to gateway: admit every live
    request again. gateway to scheduler: say how things stand. scheduler to worker: send Capacity.
    worker to scheduler: a batch is missing.
    proposer to scheduler: send Open again for every slot. proposer to worker: send it Capacity.
    epoch, step: the first step wanted; 0 and 0 for an actor that knows nothing.
    """

    actor: str
    epoch: int = 0
    step: int = 0
