"""The policy as a whole: synchronous, without clock or address of its own."""

from __future__ import annotations

from typing import assert_never

from optimist.actors.config import SchedulerConfig
from optimist.actors.scheduler import told
from optimist.actors.scheduler.acceptance import Totals
from optimist.actors.scheduler.check import check, check_busy
from optimist.actors.scheduler.counters import Counters, Pace, together
from optimist.actors.scheduler.deadlines import Deadlines
from optimist.actors.scheduler.device import Device
from optimist.actors.scheduler.epoch import Epoch, Flight
from optimist.actors.scheduler.intake import Intake, unfit
from optimist.actors.scheduler.prefix_cache import Digest
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.recently import Recently
from optimist.actors.scheduler.recovery import REFUSED_REPLAY, evacuate, unsettled
from optimist.actors.scheduler.request import FAR, Request, finish_of, request_of
from optimist.actors.scheduler.settle import News
from optimist.messages.control import Resync
from optimist.messages.drafting import Close, Open
from optimist.messages.errors import Problem
from optimist.messages.plans import Plan
from optimist.messages.requests import (
    Admit,
    Cancel,
    Grant,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.messages.results import Capacity, StepResult

TOO_LATE = Problem(code="deadline_exceeded", message="the deadline of the request has passed")


class Core:
    """Live requests, the queue, and the device once there is one.

    Methods return what the gateway is to be told. What is of no use is counted and ignored, never fatal.
    """

    def __init__(
        self, config: SchedulerConfig, incarnation: int, digest: Digest | None = None
    ) -> None:
        self.config = config
        self.incarnation = incarnation
        self.digest = digest
        self.counters = Counters()
        self.queue = Queue()
        self.live: dict[int, Request] = {}
        self.device: Device | None = None
        self._intake = Intake(config, self.queue)
        self._deadlines = Deadlines()
        self._recently = Recently()
        self._pace = Pace()
        self._arrivals = 0
        self._gateway = 0

    def admit(self, admit: Admit) -> list[News]:
        """Put a request into the queue, or refuse it. A newer gateway's first one ends all older ones."""
        if admit.incarnation < self._gateway:
            return self._ignore("stale_admit")
        if admit.incarnation > self._gateway:
            self._outlive_gateway(admit.incarnation)
        if (known := self.live.get(admit.request)) is not None:
            # A newborn scheduler may get an Admit first that was meant for the one before it.
            known.strikes = max(known.strikes, admit.strikes)
            return self._ignore("duplicate_admit")
        self._arrivals += 1
        request = request_of(admit, self._arrivals)
        request.use_cache &= self.config.prefix_cache
        if (problem := self._intake.refusal(request, self.epoch)) is not None:
            return [self._retired(request, problem)]
        self.live[request.id] = request
        self._deadlines.add(request)
        self.queue.push(request)
        self._pace.changed()
        return [] if self.device is None else self._screen([request], self.device.epoch)

    def cancel(self, cancel: Cancel) -> list[News]:
        """End a request at once. What its steps in flight bring is thrown away."""
        request = self.live.get(cancel.request) or self._recently.take(cancel.request)
        if request is None:
            return self._ignore("unknown_cancel")
        if cancel.keep is not None:
            self._cut(request, request.prompt_len + max(cancel.keep, 0))
        return [self._end(request, None)] if cancel.request in self.live else []

    def grant(self, grant: Grant) -> None:
        """A client has taken tokens: its row may go on."""
        request = self.live.get(grant.request)
        if request is None or grant.credit < 1:
            self._ignore("unknown_grant")
            return
        request.credit_limit = min(request.credit_limit + grant.credit, FAR)
        if request.slot < 0:
            self.queue.credited(request)
        elif self.device is not None:
            epoch = self.device.epoch
            epoch.slots.ceiling[request.slot] = min(epoch.context_limit, request.credit_limit)

    def settle(self, result: StepResult, now: float) -> list[News]:
        """Take a result; settle it and those that waited for it, in the order of their steps."""
        flight = self._flight(result)
        if self.device is None or flight is None:
            return self._ignore("stale_result")
        flight.result = result
        flights, messages = self.device.epoch.flights, list[News]()
        while flights and (first := flights[0].result) is not None:
            messages += self.device.settlement.settle(flights.popleft(), first)
            self.counters.last_step_at = now
        self._forget_ended(messages)
        self._pace.changed()
        return messages

    def capacity(self, capacity: Capacity) -> list[News]:
        """A worker says what it can hold. A new incarnation of it begins a new epoch."""
        old, messages = self.epoch, list[News]()
        if old is not None and capacity.incarnation <= old.worker:
            return self._ignore("known_capacity")
        if old is not None:
            messages += [self._end(r, REFUSED_REPLAY) for r in evacuate(old, self.queue)]
        if self.device is not None:
            self.counters.drafts = self._drafts()
        for request in self.live.values():
            request.digests.clear()
        self._recently.forget_all()
        self.device = Device(
            self.config, self.incarnation, capacity, self.queue, self.counters, self.digest
        )
        self._pace.changed()
        return messages + self._screen(self.queue.requests(), self.device.epoch)

    def replay(self, resync: Resync) -> list[Plan]:
        """The unsettled plans that an actor asks for."""
        return unsettled(self.device.epoch, resync) if self.device else []

    def running(self) -> list[Open]:
        """What a proposer that knows nothing is to be told."""
        return [] if self.epoch is None else told.running(self.epoch, self.incarnation)

    def moved(self, plan: Plan | None = None) -> list[Open | Close]:
        """And of slots that requests left since the last call, or move into with a plan just made."""
        return [] if self.epoch is None else told.moved(self.epoch, self.incarnation, plan)

    def expire(self, now: float) -> list[News]:
        """End the requests whose deadline has passed."""
        return [self._end(request, TOO_LATE) for request in self._deadlines.passed(now)]

    def plan(self, now: float) -> Plan | None:
        """The next step, if one may be in flight and something can run."""
        if self.device is None or len(self.device.epoch.flights) >= self.config.depth:
            return None
        plan = self.device.planner.plan()
        if plan is not None:
            self._intake.admitted(len(plan.opened), now)
        return plan

    def stats(self, now: float) -> SchedulerStats | None:
        """How things stand, when it is time to say so."""
        if self.device is None or not self._pace.due(now):
            return None
        epoch, counters = self.device.epoch, self.counters
        running = int(epoch.slots.active.sum())
        drafts = self._drafts()
        return SchedulerStats(
            incarnation=self.incarnation,
            waiting=len(self.live) - running,
            running=running,
            free_blocks=epoch.pool.available,
            num_blocks=epoch.pool.num_blocks,
            steps=counters.steps,
            preemptions=counters.preemptions,
            prompt_tokens=counters.prompt_tokens,
            cached_tokens=counters.cached_tokens,
            emitted_tokens=counters.emitted_tokens,
            wasted_tokens=counters.wasted_tokens,
            last_step_at=counters.last_step_at,
            max_model_len=epoch.context_limit,
            proposer=self.config.proposer,
            draft_rows=drafts.rows,
            drafted_tokens=drafts.drafted,
            accepted_tokens=drafts.accepted,
            accepted_at=drafts.per_position,
            step_us=counters.step_us,
            gap_us=counters.gap_us,
            batch_us=counters.batch_us,
            drafts_us=counters.drafts_us,
            steps_ahead=counters.steps_ahead,
        )

    def asked(self) -> None:
        """A gateway wants to know how things stand."""
        self._pace.asked()

    def wait(self, now: float) -> float | None:
        """Seconds until something is to be done without a message, None when nothing is."""
        stats = self._pace.wait(now) if self.device is not None else None
        waits = [w for w in (stats, self._deadlines.wait(now)) if w is not None]
        return min(waits, default=None)

    def check(self) -> None:
        """Raise AssertionError if an invariant does not hold."""
        check(self.queue, self.live, self.epoch, self.config)

    def check_busy(self) -> None:
        """Right after planning: raise AssertionError if something could run and nothing does."""
        check_busy(self.queue, self.epoch)

    @property
    def epoch(self) -> Epoch | None:
        """The life of the device, None before the first."""
        return self.device.epoch if self.device is not None else None

    def _drafts(self) -> Totals:
        """What became of all drafts, on this device and on those before it."""
        before, length = self.counters.drafts, self.device.length if self.device else None
        return before if length is None else together(before, length.totals())

    def _flight(self, result: StepResult) -> Flight | None:
        """The step in flight that a result is of, if it is the first result of it."""
        epoch = self.epoch
        if epoch is None or result.epoch != epoch.number:
            return None
        found = (f for f in epoch.flights if f.step == result.step and f.result is None)
        return next(found, None)

    def _screen(self, requests: list[Request], epoch: Epoch) -> list[News]:
        """Answer those that need no step: complete already, or too large for this device."""
        messages: list[News] = []
        for request in requests:
            if (finish := finish_of(request, epoch.context_limit)) is not None:
                messages.append(
                    Tokens(
                        incarnation=self.incarnation,
                        request=request.id,
                        index=len(request.tokens) - request.prompt_len,
                        token_ids=b"",
                        cached_len=request.cached_len,
                        finish=finish,
                    )
                )
                self._forget(request)
            elif problem := unfit(request, epoch.capacity, epoch.context_limit):
                messages.append(self._end(request, problem))
        return messages

    def _cut(self, request: Request, tokens: int) -> None:
        """Nothing past so many tokens stands: it is neither cached nor counted as emitted."""
        known = len(request.tokens)
        if self.device is not None:
            self.device.registry.forget_after(request, tokens)
            if request.slot >= 0:
                known = int(self.device.epoch.slots.settled[request.slot])
        back = max(known - max(tokens, request.prompt_len + request.given), 0)
        self.counters.emitted_tokens -= back
        self.counters.wasted_tokens += back

    def _outlive_gateway(self, incarnation: int) -> None:
        """A new gateway: nobody reads the requests of the one before it any more."""
        self._gateway = incarnation
        for request in list(self.live.values()):
            self._end(request, None)

    def _end(self, request: Request, problem: Problem | None) -> Retired:
        if request.slot >= 0 and self.device is not None:
            self.device.departures.drop(request.slot)
        self._forget(request)
        return self._retired(request, problem)

    def _forget(self, request: Request) -> None:
        self.queue.remove(request)
        self.live.pop(request.id, None)
        self._deadlines.remove(request)
        self._pace.changed()

    def _forget_ended(self, messages: list[News]) -> None:
        for message in messages:
            match message:
                case Tokens(finish=None) | Scored():
                    pass
                case Tokens():
                    self._recently.add(self.live[message.request])
                    self._forget(self.live[message.request])
                case Retired():
                    self._forget(self.live[message.request])
                case _:
                    assert_never(message)

    def _retired(self, request: Request, problem: Problem | None) -> Retired:
        return Retired(incarnation=self.incarnation, request=request.id, problem=problem)

    def _ignore(self, reason: str) -> list[News]:
        self.counters.ignored[reason] += 1
        return []
