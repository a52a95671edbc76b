"""How an actor or a process ended that should not have."""

from __future__ import annotations

from typing import NamedTuple

from optimist.messages.errors import ConfigError, EngineBroken, ModelError, OptimistError

_AS_THEY_ARE: dict[str, type[OptimistError]] = {
    kind.__name__: kind for kind in (ConfigError, ModelError)
}


class Death(NamedTuple):
    """actor: whose. reason: exit status or what the exception says, and the last words.

    kind: class name of the exception, "" where there was none. cause: the exception itself, where
    it happened in this process.
    """

    actor: str
    reason: str
    kind: str = ""
    cause: BaseException | None = None

    @property
    def text(self) -> str:
        """The whole of it in words, without the actor."""
        return f"{self.kind}: {self.reason}" if self.kind else self.reason


def by_exception(actor: str, error: BaseException) -> Death:
    """The death of an actor that raised; of a group with one member, the member tells."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return Death(actor, str(error), type(error).__name__, error)


def start_error(death: Death) -> OptimistError:
    """What a failed start raises: a wrong option or model as what it is, else EngineBroken."""
    kind = _AS_THEY_ARE.get(death.kind)
    if kind is not None:
        return kind(death.reason)
    return EngineBroken(f"{death.actor} did not start: {death.text}")


def broken(death: Death, why: str) -> EngineBroken:
    """What every open request ends with when nobody is restarted any more."""
    return EngineBroken(f"{death.actor} died: {death.text}\nnot restarted: {why}")
