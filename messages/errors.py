"""What goes wrong, as one tree of exceptions and as one message part.

OptimistError
├── ConfigError            an option, field or variable that is wrong, unknown or removed
├── ModelError             a model file that is truncated, inconsistent or unsupported
├── MessageError           a message that cannot be built, encoded or decoded
├── MailboxFull            a sender went beyond its credit
├── WrongOwner             an inbox or socket used outside the process, thread or loop that owns it
├── PeerGone               a client that is not, or no longer, connected
├── RequestError           one request ends; everything else goes on
│   ├── InvalidRequest     the request itself is wrong (HTTP 400)
│   ├── TooLarge           it can never fit this engine (HTTP 400)
│   ├── Overloaded         the queue is full; try again later (HTTP 429)
│   ├── DeadlineExceeded   its deadline passed (HTTP 504)
│   └── RequestFailed      it was accepted and then failed (HTTP 500)
└── EngineError            no request can be served by this engine
    ├── EngineClosed       you closed it
    ├── EngineEnded        it has not started, or ended in good order without you asking
    └── EngineBroken       an actor died beyond its restart budget
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

Code = Literal[
    "invalid_request",
    "too_large",
    "overloaded",
    "deadline_exceeded",
    "request_failed",
    "engine_closed",
    "engine_ended",
    "engine_broken",
]


class OptimistError(Exception):
    """Base of every error that Optimist raises on purpose."""


class ConfigError(OptimistError):
    """An option, field or environment variable is wrong, unknown or removed."""


class ModelError(OptimistError):
    """A model file is truncated, inconsistent or unsupported. Names the file, tensor and reason."""


class MessageError(OptimistError, ValueError):
    """A message cannot be built, encoded or decoded. Names the field."""


class MailboxFull(OptimistError):
    """A sender went beyond its credit: a fault of the sender, not of the load."""


class WrongOwner(OptimistError, RuntimeError):
    """An inbox, socket or client is used outside the process, thread or loop that owns it."""


class PeerGone(OptimistError):
    """A client that is not, or no longer, connected. What was meant for it is lost."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Why a request or an engine cannot go on, in a form that can be sent.

    field: path of the offending field, where there is one.
    retry_after: seconds after which another try is worth it, where it is.
    """

    code: Code
    message: str
    field: str | None = None
    retry_after: float | None = None


class ProblemError(OptimistError):
    """An error that can be sent as a Problem and raised again on the other side."""

    code: ClassVar[Code]
    status: ClassVar[int] = 500

    def __init__(
        self, message: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            code=self.code, message=message, field=field, retry_after=retry_after
        )


class RequestError(ProblemError):
    """One request ends; everything else goes on."""


class InvalidRequest(RequestError):
    """The request itself is wrong: the same request will always be refused."""

    code = "invalid_request"
    status = 400


class TooLarge(RequestError):
    """The request can never fit into this engine's context or memory."""

    code = "too_large"
    status = 400


class Overloaded(RequestError):
    """The queue is full. The same request may be accepted after `problem.retry_after` seconds."""

    code = "overloaded"
    status = 429


class DeadlineExceeded(RequestError):
    """The request's deadline passed before it was complete."""

    code = "deadline_exceeded"
    status = 504


class RequestFailed(RequestError):
    """The request was accepted and failed later, alone."""

    code = "request_failed"
    status = 500


class EngineError(ProblemError):
    """No request can be served by this engine."""

    status = 503


class EngineClosed(EngineError):
    """You closed this engine."""

    code = "engine_closed"


class EngineEnded(EngineError):
    """The engine has not started, or has ended in good order (for instance a drain)."""

    code = "engine_ended"


class EngineBroken(EngineError):
    """An actor died beyond its restart budget. Names actor, exit status and last words."""

    code = "engine_broken"


_BY_CODE: dict[str, type[ProblemError]] = {
    kind.code: kind
    for kind in (
        InvalidRequest,
        TooLarge,
        Overloaded,
        DeadlineExceeded,
        RequestFailed,
        EngineClosed,
        EngineEnded,
        EngineBroken,
    )
}


def raised(problem: Problem) -> ProblemError:
    """The exception that a Problem stands for."""
    return _BY_CODE[problem.code](
        problem.message, field=problem.field, retry_after=problem.retry_after
    )
