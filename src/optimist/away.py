"""Requests of a client whose connection was lost, and what takes them up again on the next one."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import msgspec

from optimist.messages.client import CancelRequest, Failed, Generate, Resume
from optimist.messages.errors import RequestFailed
from optimist.remote_stream import Inflow


class Away:
    """since: when the connection was lost, None while there is one. patience: seconds to be without.

    Also those that nobody wants any more, until the gateway has said that they have ended.
    """

    def __init__(self, patience: float) -> None:
        self.since: float | None = None
        self._patience = patience
        self._left: dict[str, Resume] = {}
        self._resumed: set[str] = set()

    def resumable(self, generate: Generate) -> Generate:
        """The request as it is sent: with a key where another connection can go on with it."""
        params = generate.params
        if not self._patience or params.n != 1 or params.prompt_logprobs is not None:
            return generate
        return msgspec.structs.replace(generate, resume_key=uuid4().hex)

    def lost(self, now: float) -> None:
        """The connection is gone, or the next one too before anything could go on."""
        self.since = now if self.since is None else self.since

    def leave(self, name: str, inflow: Inflow) -> None:
        """Nobody wants this request any more: it is to end, on this connection or the next."""
        if inflow.key:
            self._left[name] = _resume(name, inflow)

    def ended(self, name: str) -> None:
        """One that nobody wants has ended."""
        self._left.pop(name, None)

    def back(self, inflows: Mapping[str, Inflow]) -> list[Resume | CancelRequest]:
        """There is a connection again: what is to be said for the requests of the one before."""
        if self.since is None:
            return []
        self._resumed = set(inflows)
        messages: list[Resume | CancelRequest] = [_resume(*named) for named in inflows.items()]
        for left in self._left.values():
            messages += [left, CancelRequest(request=left.request)]
        self.since = None
        return messages

    def never_came(self, failed: Failed) -> bool:
        """Whether this says that the gateway does not know a request that went on. Said once of each:
        one that was lost on its way, and had no answer, can be asked for again.
        """
        if failed.problem.code != RequestFailed.code or failed.request not in self._resumed:
            return False
        self._resumed.discard(failed.request)
        return True

    def too_long(self, now: float) -> bool:
        """Whether it has been without a connection for longer than anybody waits."""
        return self.since is not None and now - self.since >= self._patience

    def give_up(self) -> str:
        """Forget what waits. Returns why."""
        self.since, self._left = None, {}
        return f"the connection was lost, and not back within {self._patience:g} s"


def _resume(name: str, inflow: Inflow) -> Resume:
    return Resume(request=name, resume_key=inflow.key, next_index=inflow.next_index)
