"""What a step brought: tokens to deliver, requests that end, blocks for the cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.epoch import Epoch, Flight
from optimist.actors.scheduler.logprobs import by_token
from optimist.actors.scheduler.registry import Registry
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.base import ints, size
from optimist.messages.errors import Problem
from optimist.messages.requests import FinishReason, Retired, Tokens
from optimist.messages.results import StepResult

MISSING = -1
"""stands for the token of a row that a result should have named and did not"""


class Settlement:
    """Applies results to an epoch, in the order of their steps."""

    def __init__(
        self,
        epoch: Epoch,
        departures: Departures,
        registry: Registry,
        counters: Counters,
        incarnation: int,
    ) -> None:
        self._epoch = epoch
        self._departures = departures
        self._registry = registry
        self._counters = counters
        self._incarnation = incarnation

    def settle(self, flight: Flight, result: StepResult) -> list[Tokens | Retired]:
        """Settle the oldest step in flight; returns what the gateway is to be told.

        A request ends on settled tokens alone. Rows of requests that ended earlier are thrown away;
        a slot whose last step this was is given back.
        """
        slots = self._epoch.slots
        slots.steps[flight.slots] -= 1
        slots.kv[flight.slots] = flight.lens
        slots.min_in_flight[flight.sampling] -= 1
        slots.max_in_flight[flight.sampling] -= 1
        tokens, places = self._tokens(flight, result)
        messages = self._deliver(flight.sampling, tokens, places, result)
        self._registry.offer(flight.slots)
        for slot in flight.slots[slots.leaving[flight.slots]].tolist():
            self._departures.settle(slot)
        self._counters.steps += 1
        return messages

    def _tokens(self, flight: Flight, result: StepResult) -> tuple[Ints, Rows | None]:
        """The token of each sampling row, MISSING where there is none; and its place in the result,
        None when the places are those of the rows.
        """
        tokens = ints(result.token_ids)
        same = (
            result.slots == flight.slots_column
            and result.generations == flight.generations_column
            and result.token_counts == np.ones(len(flight.sampling), "<i4").tobytes()
        )
        return (tokens, None) if same else self._matched(flight, result)

    def _matched(self, flight: Flight, result: StepResult) -> tuple[Ints, Rows]:
        """The same for a result with other rows, or more or fewer tokens, than the plan asked for."""
        counts = ints(result.token_counts)
        starts = np.cumsum(counts) - counts
        names = zip(ints(result.slots).tolist(), ints(result.generations).tolist(), strict=True)
        found = {name: int(starts[i]) for i, name in enumerate(names) if counts[i] == 1}
        wanted = zip(
            ints(flight.slots_column).tolist(),
            ints(flight.generations_column).tolist(),
            strict=True,
        )
        places = np.array([found.pop(name, MISSING) for name in wanted], np.intp)
        self._counters.ignored["row"] += size(result.slots) - int((places != MISSING).sum())
        tokens = ints(result.token_ids)
        return np.array([tokens[p] if p >= 0 else MISSING for p in places], np.int32), places

    def _deliver(
        self, rows: Rows, tokens: Ints, places: Rows | None, result: StepResult
    ) -> list[Tokens | Retired]:
        slots = self._epoch.slots
        wanted = ~slots.dropped[rows]
        failed = rows[wanted & (tokens == MISSING)].tolist()
        wanted &= tokens != MISSING
        if not wanted.all():
            self._counters.wasted_tokens += int((~wanted & (tokens != MISSING)).sum())
            places = np.flatnonzero(wanted) if places is None else places[wanted]
            rows, tokens = rows[wanted], tokens[wanted]
        slots.append(rows, tokens)
        self._counters.emitted_tokens += len(rows)
        finish = self._finished(rows, tokens)
        messages: list[Tokens | Retired] = []
        messages.extend(self._messages(rows, tokens, places, finish, result))
        messages.extend(self._fail(slot, result.step) for slot in failed)
        ended = rows[list(finish)]
        self._registry.offer(ended)
        for slot in ended.tolist():
            self._departures.drop(slot)
        return messages

    def _finished(self, rows: Rows, tokens: Ints) -> dict[int, FinishReason]:
        """Which of these rows are complete, and why: the first of stop id, max_tokens and context."""
        slots = self._epoch.slots
        stop: NDArray[np.bool_] = (slots.stop_ids[rows] == tokens[:, None]).any(axis=1)
        settled = slots.settled[rows]
        full = (settled >= slots.token_limit[rows]) | (settled >= self._epoch.context_limit)
        return {
            place: "stop" if stop[place] else "length"
            for place in np.flatnonzero(stop | full).tolist()
        }

    def _messages(
        self,
        rows: Rows,
        tokens: Ints,
        places: Rows | None,
        finish: dict[int, FinishReason],
        result: StepResult,
    ) -> list[Tokens]:
        slots, incarnation = self._epoch.slots, self._incarnation
        indices = (slots.settled[rows] - slots.prompt_len[rows] - 1).tolist()
        ids, cached = slots.request_ids[rows].tolist(), slots.cached_len[rows].tolist()
        buffer = np.ascontiguousarray(tokens, "<i4").tobytes()
        logprobs = by_token(result.logprobs)
        at = range(len(ids)) if places is None else places.tolist()
        return [
            Tokens(
                incarnation=incarnation,
                request=ids[i],
                index=indices[i],
                token_ids=buffer[4 * i : 4 * i + 4],
                cached_len=cached[i],
                finish=finish.get(i),
                logprobs=logprobs.get(at[i]),
            )
            for i in range(len(ids))
        ]

    def _fail(self, slot: int, step: int) -> Retired:
        """End a request whose token the worker did not send."""
        request = self._epoch.slots.request(slot).id
        self._departures.drop(slot)
        message = f"step {step} returned no single token for the request"
        return Retired(
            incarnation=self._incarnation,
            request=request,
            problem=Problem(code="request_failed", message=message),
        )
