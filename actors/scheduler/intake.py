"""Whether a request is taken at all."""

from __future__ import annotations

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.recovery import MAX_STRIKES, REFUSED_REPLAY
from optimist.actors.scheduler.request import Request
from optimist.actors.scheduler.slots import Ints
from optimist.messages.base import ints
from optimist.messages.errors import Problem
from optimist.messages.results import Capacity

LONGEST_RETRY = 30.0
"""seconds after which another try is suggested at the latest"""


def unfit(request: Request, capacity: Capacity, context_limit: int) -> Problem | None:
    """Why this request can never run on this device, or None.

    One that has emitted tokens and is too long now can still be finished, so it is not refused.
    """
    length = len(request.tokens)
    if length == 0:
        return _invalid("prompt", "expected at least one token, got none")
    for field, ids in _ids(request):
        if ids.size and int(ids.max()) >= capacity.vocab_size:
            return _invalid(
                field, f"expected token ids below {capacity.vocab_size}, got {int(ids.max())}"
            )
    if length == request.prompt_len and length + 1 > context_limit:
        message = (
            f"prompt: expected at most {context_limit - 1} tokens, so that one more fits,"
            f" got {length}"
        )
        return Problem(code="too_large", message=message, field="prompt")
    return None


def _ids(request: Request) -> tuple[tuple[str, Ints], ...]:
    """Token ids that the device uses as an index, with the field they come from."""
    return (
        ("prompt", request.tokens),
        ("logit_bias", ints(request.sampling.bias_ids)),
        ("stop_token_ids", ints(request.sampling.stop_ids)),
    )


def _invalid(field: str, message: str) -> Problem:
    return Problem(code="invalid_request", message=f"{field}: {message}", field=field)


class Intake:
    """Refuses requests that would wait too long, before they wait, and those that must not be tried again.

    A request that can be admitted at once does not count as waiting. While the worker has not said what it
    can hold, everything is taken: these are the requests of an earlier life, or few.
    """

    def __init__(self, config: SchedulerConfig, queue: Queue) -> None:
        self._config = config
        self._queue = queue
        self._interval = 1.0
        self._last: float | None = None

    def admitted(self, count: int, now: float) -> None:
        """So many requests left the queue for a slot: what the advice to retry is made of."""
        if count and self._last is not None:
            self._interval += 0.2 * ((now - self._last) / count - self._interval)
        if count:
            self._last = now

    def refusal(self, request: Request, epoch: Epoch | None) -> Problem | None:
        """Why this request cannot wait here, or None. One that has emitted tokens was accepted before."""
        if request.strikes >= MAX_STRIKES:
            return REFUSED_REPLAY
        if epoch is None or request.given or len(self._queue) < epoch.slots.free:
            return None
        waiting = len(self._queue) - epoch.slots.free
        tokens = self._queue.prompt_tokens + request.prompt_len
        if waiting < self._config.max_waiting and tokens <= self._config.max_waiting_tokens:
            return None
        return Problem(
            code="overloaded",
            message=f"{len(self._queue)} requests with {self._queue.prompt_tokens} tokens wait",
            retry_after=min(max(self._interval, 0.1), LONGEST_RETRY),
        )
