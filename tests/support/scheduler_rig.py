"""A scheduler between a device that checks its messages and clients that check their tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from slot_device import Device

from optimist.actors.builder.apply import apply
from optimist.actors.config import DraftTokens, SchedulerConfig
from optimist.actors.scheduler.actor import Scheduler
from optimist.messages.base import column, ints, size
from optimist.messages.control import Resync
from optimist.messages.drafting import Close, Open
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
from optimist.messages.results import Capacity, Logprobs, StepResult
from optimist.messages.slots import Sampling

GREEDY = Sampling(temperature=0.0, seed=0)

M = TypeVar("M")


class Box(Generic[M]):
    """A Ref that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[M] = []

    def send(self, message: M, /) -> None:
        self.sent.append(message)


class Stream:
    """What a client has received of one request."""

    def __init__(self, prompt: list[int], emitted: list[int]) -> None:
        self.prompt = prompt
        self.tokens = list(emitted)
        self.given = len(emitted)
        self.finish: str | None = None
        self.retired: Retired | None = None
        self.cached_len = 0
        self.logprobs: list[Logprobs | None] = []

    @property
    def ended(self) -> bool:
        return self.finish is not None or self.retired is not None


class Rig:
    """Everything around a scheduler. Results wait until `settle` or `step` delivers them."""

    def __init__(
        self, config: SchedulerConfig, capacity: dict[str, int], worker: bool = True
    ) -> None:
        self.now = 100.0
        self.builder: Box[Plan] = Box()
        self.gateway: Box[Placed | Scored | Tokens | Retired | Resync | SchedulerStats] = Box()
        self.worker: Box[Resync] = Box()
        self.proposer: Box[Open | Close] = Box()
        self.capacity = capacity
        self.incarnation = 1
        self.scheduler = Scheduler(
            config,
            self.incarnation,
            builder=self.builder,
            gateway=self.gateway,
            worker=self.worker,
            proposer=self.proposer if config.proposer != "none" else None,
            clock=lambda: self.now,
        )
        self.core = self.scheduler.core
        self.streams: dict[int, Stream] = {}
        self.results: deque[StepResult] = deque()
        self.plans: list[Plan] = []
        self.asked: list[Resync] = []
        self.scored: list[Scored] = []
        self.placed: list[Placed] = []
        self.on_stats: Callable[[SchedulerStats], None] = lambda stats: None
        self.again: float | None = None
        self.scheduler.started()
        self._read()
        if worker:
            self.start_worker()

    def start_worker(self) -> None:
        """A worker comes up with an empty device; whatever the last one owed is lost."""
        self.incarnation += 1
        self.device = Device(
            self.capacity["block_size"],
            self.capacity["max_batch_tokens"],
            getattr(self, "device", None),
        )
        self.results.clear()
        self.scheduler.receive(Capacity(incarnation=self.incarnation, **self.capacity))
        self._read()

    def admit(
        self,
        prompt: int | Iterable[int] = 5,
        max_tokens: int = 8,
        *,
        request: int | None = None,
        emitted: Iterable[int] = (),
        **fields: Any,
    ) -> int:
        """Send an Admit; returns the request's id. An int asks for a fresh prompt of that length."""
        number = max(self.streams, default=0) + 1 if request is None else request
        fresh = range(number * 1000, number * 1000 + prompt) if isinstance(prompt, int) else prompt
        ids, given = list(fresh), list(emitted)
        self.streams[number] = Stream(ids, given)
        self.resend(number, ids, max_tokens, given, **fields)
        return number

    def resend(
        self, request: int, prompt: list[int], max_tokens: int, emitted: list[int], **fields: Any
    ) -> None:
        fields.setdefault("sampling", GREEDY)
        fields.setdefault("credit", 10_000)
        fields["stop_ids"] = column(fields.pop("stop_ids", ()))
        self.receive(
            Admit(
                incarnation=1,
                request=request,
                prompt_ids=column(prompt),
                emitted_ids=column(emitted),
                max_tokens=max_tokens,
                **fields,
            )
        )

    def cancel(self, request: int, keep: int | None = None) -> None:
        self.receive(Cancel(incarnation=1, request=request, keep=keep))

    def grant(self, request: int, credit: int) -> None:
        self.receive(Grant(incarnation=1, request=request, credit=credit))

    def turn(self) -> list[Plan]:
        """Let the scheduler plan; the device runs at once, its results wait."""
        before = len(self.builder.sent)
        self.again = self.scheduler.turn()
        plans = self.builder.sent[before:]
        self.results.extend(self.answer(plan) for plan in plans)
        self.plans.extend(plans)
        self.scheduler.check()
        self.core.check_busy()
        self._read()
        return plans

    def answer(self, plan: Plan) -> StepResult:
        """Build the batch of a plan and let the device run it."""
        batch = apply(plan, block_size=self.device.block_size, incarnation=1)
        tokens = int(ints(plan.draft_counts).sum()) + size(plan.decode_slots)
        tokens += plan.prefill.seq_lens.total() - int(ints(plan.prefill.starts).sum())
        assert tokens <= self.device.max_batch_tokens
        return self.device.run(batch, self.incarnation)

    def settle(self, place: int = 0) -> StepResult:
        """Deliver a waiting result, the oldest unless told otherwise; returns it."""
        result = self.results[place]
        del self.results[place]
        self.receive(result)
        return result

    def step(self) -> list[Plan]:
        """Plan, then deliver one result."""
        plans = self.turn()
        if self.results:
            self.settle()
        return plans

    def drain(self, limit: int = 10_000) -> None:
        """Run until nothing is left to do."""
        for _ in range(limit):
            self.turn()
            if not self.results:
                return
            self.settle()
        raise AssertionError("does not come to an end")

    def delivered(self, request: int) -> list[int]:
        return self.streams[request].tokens

    def assert_clean(self) -> None:
        """Nothing is live, nothing in flight, every block free or idle."""
        assert not self.core.live and not self.core.queue.requests()
        device = self.core.device
        assert device is not None and not device.epoch.flights
        assert device.epoch.pool.available == device.epoch.pool.num_blocks
        assert device.epoch.slots.free == device.epoch.slots.count

    def receive(self, message: Any) -> None:
        self.scheduler.receive(message)
        self.scheduler.check()
        self._read()

    def _read(self) -> None:
        for message in self.gateway.sent:
            if isinstance(message, Tokens):
                self._take(message)
            elif isinstance(message, Retired):
                stream = self.streams[message.request]
                assert not stream.ended, "a request ended twice"
                stream.retired = message
            elif isinstance(message, Resync):
                self.asked.append(message)
            elif isinstance(message, Placed):
                self.placed.append(message)
            elif isinstance(message, SchedulerStats):
                self.on_stats(message)
            else:
                self.scored.append(message)
        self.gateway.sent.clear()

    def _take(self, message: Tokens) -> None:
        stream = self.streams[message.request]
        assert not stream.ended, "tokens after the end"
        assert message.index == len(stream.tokens), "a gap or a repeat"
        for token in ints(message.token_ids).tolist():
            position = len(stream.prompt) + len(stream.tokens)
            assert token in self.device.sampled[message.request, position], "a token from elsewhere"
            stream.tokens.append(token)
        stream.logprobs.extend([message.logprobs] * size(message.token_ids))
        stream.finish = message.finish
        stream.cached_len = message.cached_len


def make_rig(**options: Any) -> Rig:
    """A Rig with a small device; options of SchedulerConfig and fields of Capacity by name."""
    capacity = {
        "num_blocks": 64,
        "block_size": 4,
        "max_slots": 8,
        "max_model_len": 128,
        "max_batch_tokens": options.pop("worker_batch_tokens", 4096),
        "vocab_size": 2**31 - 1,
        "max_prompt_tokens": None,
    }
    capacity |= {
        name: options.pop(name)
        for name in list(options)
        if name in capacity and name != "max_batch_tokens"
    }
    options.setdefault("max_batch_tokens", 64)
    worker = options.pop("worker", True)
    return Rig(SchedulerConfig(**options), capacity, worker)


def drafting(depth: int = 2, drafts: DraftTokens = 3, **options: Any) -> Rig:
    """A rig whose worker always has as many drafts as it is asked for."""
    rig = make_rig(depth=depth, proposer="ngram", draft_tokens=drafts, **options)
    rig.device.held = 99
    return rig


def drafts(plan: Plan) -> list[int]:
    """Drafts of each decode row."""
    found: list[int] = ints(plan.draft_counts).tolist()
    return found
