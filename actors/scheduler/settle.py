"""What a step brought: tokens to deliver, requests that end, blocks for the cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.scheduler.brought import Brought, brought
from optimist.actors.scheduler.counters import Counters
from optimist.actors.scheduler.departures import Departures
from optimist.actors.scheduler.draft_length import DraftLength
from optimist.actors.scheduler.epoch import Epoch, Flight
from optimist.actors.scheduler.logprobs import by_row
from optimist.actors.scheduler.prompt_scores import Scores
from optimist.actors.scheduler.registry import Registry
from optimist.actors.scheduler.slots import Ints, Rows
from optimist.messages.base import ints
from optimist.messages.errors import Problem
from optimist.messages.requests import FinishReason, Retired, Scored, Tokens
from optimist.messages.results import StepResult

Grid = NDArray[np.int32]
"""tokens of rows, [N, W], padded behind each row's own"""


News = Scored | Tokens | Retired
"""what the gateway is told of requests"""


class Cut(NamedTuple):
    """keep: tokens of each row that are delivered, [N], >= 1. finish: places of rows that end with them."""

    keep: Ints
    finish: dict[int, FinishReason]


class Settlement:
    """Applies results to an epoch, in the order of their steps.

    length: learns what became of drafts, None where nobody drafts.
    """

    def __init__(
        self,
        epoch: Epoch,
        departures: Departures,
        registry: Registry,
        counters: Counters,
        incarnation: int,
        length: DraftLength | None,
    ) -> None:
        self._epoch = epoch
        self._departures = departures
        self._registry = registry
        self._counters = counters
        self._incarnation = incarnation
        self._length = length
        self._scores = Scores(epoch, registry, incarnation)

    def settle(self, flight: Flight, result: StepResult) -> list[News]:
        """Settle the oldest step in flight; returns what the gateway is to be told.

        A request ends on settled tokens alone. Rows of requests that ended earlier are thrown away;
        a slot whose last step this was is given back.
        """
        slots = self._epoch.slots
        slots.steps[flight.slots] -= 1
        if flight.prefill.size:
            slots.kv[flight.prefill] = flight.ends
        slots.min_in_flight[flight.sampling] -= 1
        slots.max_in_flight[flight.sampling] -= 1 + flight.drafts
        news = brought(flight, result)
        self._counters.ignored["row"] += news.unknown
        if self._length is not None:
            self._learn(self._length, flight, news, result)
        messages: list[News] = [*self._scores.settle(flight, result)]
        messages += self._deliver(news, result)
        for slot in self._scores.over:
            self._departures.drop(slot)
        self._registry.offer(flight.slots)
        for slot in flight.slots[slots.leaving[flight.slots]].tolist():
            self._departures.settle(slot)
        self._counters.settled(result)
        return messages

    def _learn(
        self, length: DraftLength, flight: Flight, news: Brought, result: StepResult
    ) -> None:
        """Correct what was planned as if every draft were right, and remember what the step took."""
        slots, rows, accepted = self._epoch.slots, news.slots, news.counts - 1
        slots.held[rows] = news.held
        queries = len(flight.slots) - len(flight.prefill)
        if news.planned.any():
            slots.computed[rows] -= news.planned - accepted
            queries += int(news.run.sum())
        # With prompts in it a step says nothing of drafts: one that is the first of its size, in a worker
        # that has just started, can take a hundred times what it takes later.
        step_us = 0 if flight.prefill.size else result.step_us
        idle = result.gap_us - result.batch_us
        length.ran(queries, step_us, news.run, idle if flight.asked.any() else None)

    def _judge(self, news: Brought, keep: Ints) -> None:
        """Remember which drafts were right, of those that a request lived to use. keep: as in Cut.

        Behind the token that ends a request nothing is asked of a draft: such ones count as never made.
        """
        if self._length is None or not news.asked.any():
            return
        slots, rows, ended = self._epoch.slots, news.slots, keep < news.counts
        drafted = np.where(ended, keep, news.run)
        accepted = np.where(ended, keep, news.counts - 1)
        slots.drafted[rows] += drafted
        slots.accepted[rows] += accepted
        self._length.settle(rows, drafted, accepted, news.asked)

    def _deliver(self, news: Brought, result: StepResult) -> list[Tokens | Retired]:
        slots = self._epoch.slots
        failed = [slot for slot in news.failed.tolist() if not slots.dropped[slot]]
        dropped = slots.dropped[news.slots]
        if dropped.any():
            self._counters.wasted_tokens += int(news.counts[dropped].sum())
            news = news.only(np.flatnonzero(~dropped))
        cut = self._append(news, ints(result.token_ids))
        self._judge(news, cut.keep)
        messages: list[Tokens | Retired] = []
        messages.extend(self._messages(news, cut, result))
        messages.extend(self._fail(slot, result.step, slot in news.empty) for slot in failed)
        if cut.finish:
            ended = news.slots[list(cut.finish)]
            self._registry.offer(ended)
            for slot in ended.tolist():
                self._departures.drop(slot)
        return messages

    def _append(self, news: Brought, tokens: Ints) -> Cut:
        """Take over the tokens of these rows up to the end of each request. tokens: of the whole step."""
        slots, rows, counts = self._epoch.slots, news.slots, news.counts
        width = int(counts.max(initial=0))
        if width > 1:
            at = news.starts[:, None] + np.arange(width)
            grid = tokens[np.minimum(at, len(tokens) - 1)]
            cut = self._cut(rows, counts, grid)
            kept = grid[np.arange(width) < cut.keep[:, None]]
            self._counters.wasted_tokens += int(counts.sum()) - len(kept)
        else:
            kept = tokens[news.starts]
            cut = self._cut_ones(rows, counts, kept)
        slots.append(rows, cut.keep, kept)
        slots.kv[rows] = slots.settled[rows] - 1
        self._counters.emitted_tokens += len(kept)
        return cut

    def _cut_ones(self, rows: Rows, counts: Ints, tokens: Ints) -> Cut:
        """See _cut. Where each row brought one token it is kept, and may be the last."""
        slots = self._epoch.slots
        stopped: NDArray[np.bool_] = (slots.stop_ids[rows] == tokens[:, None]).any(axis=1)
        full = slots.settled[rows] + 1 >= np.minimum(
            slots.token_limit[rows], self._epoch.context_limit
        )
        return Cut(counts, _endings(stopped, full))

    def _cut(self, rows: Rows, counts: Ints, grid: Grid) -> Cut:
        """Where each row ends, and why: the first of stop id, max_tokens and context."""
        slots, width = self._epoch.slots, np.arange(1, grid.shape[1] + 1)
        stops: NDArray[np.bool_] = (slots.stop_ids[rows][:, None] == grid[:, :, None]).any(axis=2)
        stops &= width <= counts[:, None]
        stop = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, counts + 1)
        limit = np.minimum(slots.token_limit[rows], self._epoch.context_limit) - slots.settled[rows]
        keep = np.minimum(np.minimum(counts, stop), limit).astype(np.int32)
        stopped, full = keep == stop, keep == limit
        return Cut(keep, _endings(stopped, full))

    def _messages(self, news: Brought, cut: Cut, result: StepResult) -> list[Tokens]:
        slots, incarnation, rows = self._epoch.slots, self._incarnation, news.slots
        indices = (slots.settled[rows] - slots.prompt_len[rows] - cut.keep).tolist()
        ids, cached = slots.request_ids[rows].tolist(), slots.cached_len[rows].tolist()
        drafted, accepted = slots.drafted[rows].tolist(), slots.accepted[rows].tolist()
        starts = (4 * news.starts).tolist()
        ends = (4 * (news.starts + cut.keep)).tolist()
        logprobs = by_row(result.logprobs, news.starts, cut.keep)
        columns = zip(ids, indices, starts, ends, cached, drafted, accepted, strict=True)
        finish, token_ids = cut.finish, result.token_ids
        return [
            Tokens(
                incarnation=incarnation,
                request=request,
                index=index,
                token_ids=token_ids[start:end],
                cached_len=cached_len,
                drafted=run,
                accepted=right,
                finish=finish.get(i) if finish else None,
                logprobs=logprobs.get(i) if logprobs else None,
            )
            for i, (request, index, start, end, cached_len, run, right) in enumerate(columns)
        ]

    def _fail(self, slot: int, step: int, empty: bool) -> Retired:
        """End a request whose tokens the worker did not send. empty: since none could be chosen."""
        request = self._epoch.slots.request(slot)
        message = f"step {step} returned no tokens for the request, or more than it can have"
        if empty:
            message = (
                f"step {step} computed logits that are no finite numbers, or parameters of the request forbid "
                "every token: none could be chosen"
            )
            # Its keys and values may be no numbers either.
            self._registry.forget_after(request, 0)
        self._departures.drop(slot)
        return Retired(
            incarnation=self._incarnation,
            request=request.id,
            problem=Problem(code="request_failed", message=message),
        )


def _endings(stopped: NDArray[np.bool_], full: NDArray[np.bool_]) -> dict[int, FinishReason]:
    """How rows end, by their place, where they do: by a stop id, or because they are full."""
    places = (stopped | full).nonzero()[0].tolist()
    return {place: "stop" if stopped[place] else "length" for place in places}
