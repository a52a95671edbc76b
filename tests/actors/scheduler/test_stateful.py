"""Any order of events: invariants after each, and what every client has received in the end."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from scheduler_rig import Rig, make_rig

from optimist.messages.control import Resync

STOP = 7
SHARED = list(range(50, 90))


class Events(RuleBasedStateMachine):
    """Admissions, cancellations, grants, late, early and repeated results, deaths and deadlines."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig
        self.max_tokens: dict[int, int] = {}
        self.stops: dict[int, int] = {}
        self.may_be_retired: set[int] = set()
        self.deaths = 0

    @rule(
        length=st.integers(1, 24),
        shared=st.booleans(),
        max_tokens=st.integers(1, 12),
        credit=st.integers(0, 15),
        stop=st.integers(0, 14),
        priority=st.integers(0, 2),
        deadline=st.sampled_from([None, None, None, 1.0, 5.0]),
        use_cache=st.sampled_from([True, True, False]),
        salt=st.sampled_from(["", "", "other"]),
        emitted=st.sampled_from([0, 0, 0, 2]),
    )
    def admit(
        self,
        length: int,
        shared: bool,
        max_tokens: int,
        credit: int,
        stop: int,
        priority: int,
        deadline: float | None,
        use_cache: bool,
        salt: str,
        emitted: int,
    ) -> None:
        rig = self.rig
        request = len(rig.streams) + 1
        rig.device.scripted[request, length + stop] = STOP
        rig.admit(
            SHARED[:length] if shared else length,
            max_tokens,
            request=request,
            credit=credit,
            stop_ids=(STOP,),
            priority=priority,
            deadline=None if deadline is None else rig.now + deadline,
            use_cache=use_cache,
            cache_salt=salt,
            emitted=[900_000 + i for i in range(emitted)],
        )
        self.max_tokens[request] = max_tokens
        self.stops[request] = stop
        if deadline is not None:
            self.may_be_retired.add(request)

    @rule()
    def turn(self) -> None:
        self.rig.turn()

    @rule()
    def steps(self) -> None:
        for _ in range(4):
            self.rig.step()

    @precondition(lambda self: self.rig.results)
    @rule()
    def settle(self) -> None:
        self.rig.settle()

    @precondition(lambda self: len(self.rig.results) > 1)
    @rule()
    def settle_the_newest_first(self) -> None:
        result = self.rig.settle(-1)
        self.rig.receive(result)
        self.rig.settle()

    @precondition(lambda self: self.rig.results)
    @rule()
    def settle_twice(self) -> None:
        self.rig.receive(self.rig.settle())

    @rule(request=st.integers(1, 12), keep=st.one_of(st.none(), st.integers(0, 10)))
    def cancel(self, request: int, keep: int | None) -> None:
        self.may_be_retired.add(request)
        self.rig.cancel(request, keep)

    @rule(request=st.integers(1, 12), credit=st.integers(1, 10))
    def grant(self, request: int, credit: int) -> None:
        self.rig.grant(request, credit)

    @rule(seconds=st.sampled_from([0.1, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.rig.now += seconds

    @precondition(lambda self: self.deaths < 3)
    @rule()
    def worker_dies(self) -> None:
        self.deaths += 1
        late = list(self.rig.results)
        self.rig.start_worker()
        for result in late:
            self.rig.receive(result)

    @rule(epoch=st.sampled_from([0, None, 99]), step=st.integers(0, 5))
    def somebody_asks_again(self, epoch: int | None, step: int) -> None:
        number = self.rig.incarnation if epoch is None else epoch
        before = len(self.rig.builder.sent)
        self.rig.receive(Resync(incarnation=1, actor="builder", epoch=number, step=step))
        again = self.rig.builder.sent[before:]
        steps = [plan.step for plan in again]
        assert steps == sorted(steps) and len(steps) <= self.rig.core.config.depth

    def teardown(self) -> None:
        rig = self.rig
        for request in list(rig.streams):
            rig.grant(request, 1000)
        rig.drain()
        rig.assert_clean()
        for request, stream in rig.streams.items():
            self.check_end(request, stream.finish)

    def check_end(self, request: int, finish: str | None) -> None:
        stream = self.rig.streams[request]
        if stream.retired is not None:
            problem = stream.retired.problem
            excused = request in self.may_be_retired or self.deaths >= 2
            assert excused or (problem and problem.code == "too_large"), problem
            return
        assert finish is not None
        cut = self.stops[request] + 1 if self.stops[request] >= stream.given else 10**9
        room = self.rig.core.device.epoch.context_limit - len(stream.prompt)  # type: ignore[union-attr]
        expected = max(min(cut, self.max_tokens[request], room), stream.given)
        assert len(stream.tokens) == expected
        assert finish == ("stop" if expected == cut else "length")


@pytest.mark.parametrize("drafts", [0, 3], ids=["plain", "drafts"])
def test_any_order_of_events(depth: int, drafts: int) -> None:
    class Machine(Events):
        def __init__(self) -> None:
            rig = make_rig(
                depth=depth,
                num_blocks=8,
                max_slots=4,
                max_model_len=30,
                max_chunk=7,
                proposer="ngram" if drafts else "none",
                draft_tokens=drafts,
            )
            rig.device.held = 2
            rig.device.script = lambda request, room: (
                room,
                (request + rig.device.serial) % (room + 1),
            )
            super().__init__(rig)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
