"""How likely the tokens of prompts were: what a step brought of it, and requests that want nothing else."""

from __future__ import annotations

import numpy as np

from optimist.actors.scheduler.epoch import Epoch, Flight
from optimist.actors.scheduler.logprobs import by_row
from optimist.actors.scheduler.registry import Registry
from optimist.actors.scheduler.request import Request
from optimist.messages.base import ints
from optimist.messages.errors import Problem
from optimist.messages.requests import Retired, Scored, Tokens
from optimist.messages.results import Logprobs, PromptScores, StepResult

Found = dict[tuple[int, int], tuple[int, Logprobs]]
"""by slot and generation: number of the first token in the prompt, and the values from there on"""


class Scores:
    """Hands on each prompt token's value once, in order, whatever is computed again.

    over: slots that `settle` found at their end; they are marked as dropped, and still to be given back.
    """

    def __init__(self, epoch: Epoch, registry: Registry, incarnation: int) -> None:
        self.over: list[int] = []
        self._epoch = epoch
        self._registry = registry
        self._incarnation = incarnation

    def settle(self, flight: Flight, result: StepResult) -> list[Scored | Tokens | Retired]:
        """What is news for the gateway. A row whose values are missing fails its request."""
        slots, messages = self._epoch.slots, list[Scored | Tokens | Retired]()
        self.over = []
        found: Found | None = None
        for slot, end in zip(flight.prefill.tolist(), flight.ends.tolist(), strict=True):
            request = slots.request(slot)
            if slots.dropped[slot] or not request.unscored:
                continue
            found = _found(result.prompt) if found is None else found
            first, values = found.get((slot, int(slots.generation[slot])), (0, Logprobs()))
            news = self._news(request, first, values, min(end + 1, request.prompt_len))
            messages += [self._failed(slot, result.step)] if news is None else news
            if news is not None and request.token_limit == request.prompt_len:
                messages += self._ended(slot, request)
        return messages

    def _news(
        self, request: Request, first: int, values: Logprobs, known: int
    ) -> list[Scored] | None:
        """The values that are new, up to the prompt's token `known`; None when some are missing."""
        if known <= request.scored:
            return []
        count = len(values.tokens) // 4
        skip = request.scored - first
        if not first or skip < 0 or first + count != known:
            return None
        request.scored = known
        rest = by_row(values, np.array([skip], np.int32), np.array([count - skip], np.int32))
        return [
            Scored(
                incarnation=self._incarnation,
                request=request.id,
                first=first + skip,
                logprobs=rest[0],
            )
        ]

    def _ended(self, slot: int, request: Request) -> list[Tokens]:
        """The end of a request that wanted no token, once its prompt is through."""
        if request.unscored:
            return []
        self._registry.offer(np.array([slot], np.intp))
        self._end(slot)
        return [
            Tokens(
                incarnation=self._incarnation,
                request=request.id,
                index=0,
                token_ids=b"",
                cached_len=request.cached_len,
                finish="length",
            )
        ]

    def _failed(self, slot: int, step: int) -> Retired:
        request = self._epoch.slots.request(slot).id
        self._end(slot)
        message = f"step {step} returned no log-probabilities of the prompt, or not all of them"
        return Retired(
            incarnation=self._incarnation,
            request=request,
            problem=Problem(code="request_failed", message=message),
        )

    def _end(self, slot: int) -> None:
        self._epoch.slots.dropped[slot] = True
        self.over.append(slot)


def _found(scores: PromptScores | None) -> Found:
    if scores is None:
        return {}
    counts = ints(scores.counts)
    starts = (counts.cumsum() - counts).astype(np.int32)
    values = by_row(scores.logprobs, starts, counts)
    names = zip(ints(scores.slots).tolist(), ints(scores.generations).tolist(), strict=True)
    firsts = ints(scores.firsts).tolist()
    return {name: (firsts[i], values.get(i, Logprobs())) for i, name in enumerate(names)}
