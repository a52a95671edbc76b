"""Plans with drafts: by bound while steps overlap, by what waits at the worker where they do not."""

from __future__ import annotations

import msgspec
import pytest
from scheduler_rig import Rig, drafting, drafts

from optimist.messages.base import column, ints, size
from optimist.messages.control import Resync
from optimist.messages.drafting import Close, Open
from optimist.messages.plans import OptimisticPlan, Plan
from optimist.messages.requests import SchedulerStats

STOP = 7


def bound(plan: Plan) -> list[int]:
    assert isinstance(plan, OptimisticPlan)
    found: list[int] = plan.decode_bound.sizing_array(reader="tests").tolist()
    return found


def test_every_plan_is_optimistic_while_steps_overlap_and_somebody_drafts() -> None:
    rig = drafting(drafts=0)
    rig.admit(5, 4)
    rig.drain()
    assert {type(plan) for plan in rig.plans} == {OptimisticPlan}


def test_a_bound_counts_every_draft_of_the_steps_in_flight() -> None:
    rig = drafting()
    rig.device.script = lambda request, room: (room, 0)
    rig.admit(5, 40)
    _, second = rig.turn()
    assert bound(second) == [5 + 1 + 3] and drafts(second) == [3]
    rig.settle()
    (third,) = rig.turn()
    assert bound(third) == [5 + 4 + 1 + 3]
    rig.settle()
    (fourth,) = rig.turn()
    assert bound(fourth) == [6 + 4 + 1 + 3]


def test_a_draft_is_not_planned_past_max_tokens_though_it_may_be_rejected() -> None:
    rig = drafting(drafts=8)
    request = rig.admit(5, 4)
    rig.drain()
    assert [drafts(plan) for plan in rig.plans][:2] == [[], [2]]
    assert len(rig.delivered(request)) == 4
    rig.assert_clean()


def test_a_row_sits_out_while_drafts_in_flight_may_reach_the_context_limit() -> None:
    rig = drafting(max_model_len=12)
    rig.device.script = lambda request, room: (room, 0)
    request = rig.admit(6, 40)
    counts = [drafts(plan) for plan in rig.turn()]
    while rig.results:
        rig.settle()
        counts += [drafts(plan) for plan in rig.turn()]
    assert counts[:2] == [[], [3]] and sum(map(sum, counts)) >= 4
    assert len(rig.delivered(request)) == 6 and rig.streams[request].finish == "length"


def test_a_cold_step_of_a_prompt_does_not_make_drafts_look_dear() -> None:
    rig = drafting(drafts="auto")
    prompts = set[int]()

    def run() -> None:
        while rig.turn() or rig.results:
            prompts.update(plan.step for plan in rig.plans if plan.prefill.slots)
            result = rig.results.popleft()
            took = 500_000 if result.step in prompts else 3_000
            rig.receive(msgspec.structs.replace(result, step_us=took))

    rig.device.script = lambda request, room: (0, 0)
    rig.admit(16, 8)
    run()
    rig.device.script = lambda request, room: (room, room)
    before = len(rig.plans)
    rig.admit(20, 60)
    run()
    assert len(rig.plans) - before < 30


def test_credit_counts_every_draft_in_flight() -> None:
    rig = drafting()
    rig.device.script = lambda request, room: (room, 0)
    request = rig.admit(5, 40, credit=4)
    _, second = rig.turn()
    assert drafts(second) == [2]
    rig.settle()
    assert rig.turn() == []
    rig.settle()
    (third,) = rig.turn()
    assert drafts(third) == [1]
    rig.grant(request, 100)
    rig.drain()


def test_drafts_take_no_block_that_running_requests_may_need() -> None:
    rig = drafting(num_blocks=6, block_size=1, drafts=5, max_model_len=7)
    rig.admit(3, 3)
    _, second = rig.turn()
    assert drafts(second) == [1]
    rig.drain()
    assert rig.core.counters.preemptions == 0


def test_drafts_are_shed_before_anybody_is_preempted() -> None:
    rig = drafting(num_blocks=8, block_size=1, drafts=3, max_model_len=8)
    rig.device.script = lambda request, room: (room, 0)
    one, two = rig.admit(2, 2), rig.admit(2, 2)
    rig.drain()
    assert rig.core.counters.preemptions == 0
    assert len(rig.delivered(one)) == len(rig.delivered(two)) == 2


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("stop_at", "kept"), [(5, 1), (6, 2), (7, 3), (8, 4), (9, 5)])
def test_tokens_behind_a_stop_token_are_neither_delivered_nor_counted(
    depth: int, stop_at: int, kept: int
) -> None:
    rig = drafting(depth=depth)
    rig.device.scripted[1, stop_at] = STOP
    request = rig.admit(5, 40, stop_ids=(STOP,))
    rig.drain()
    assert len(rig.delivered(request)) == kept and rig.streams[request].finish == "stop"
    assert rig.core.counters.emitted_tokens == kept
    rig.assert_clean()


@pytest.mark.parametrize("depth", [1, 2])
def test_max_tokens_cuts_accepted_drafts(depth: int) -> None:
    rig = drafting(depth=depth)
    rig.device.script = lambda request, room: (room, room)
    requests = [rig.admit(5, limit) for limit in (1, 2, 3, 6, 7)]
    rig.drain()
    assert [len(rig.delivered(r)) for r in requests] == [1, 2, 3, 6, 7]
    assert rig.core.counters.emitted_tokens == 19


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(3, 3)], (1, 3, 3, (1, 1, 1))),
        ([(3, 1)], (1, 3, 1, (1, 0, 0))),
        ([(3, 2), (3, 1)], (2, 6, 3, (2, 1, 0))),
        ([(1, 1)], (1, 1, 1, (1,))),
        ([(0, 0)], (0, 0, 0, ())),
        ([(3, 0), (3, 0)], (2, 6, 0, (0, 0, 0))),
    ],
)
def test_what_became_of_drafts_is_counted_by_position(
    answers: list[tuple[int, int]], expected: tuple[object, ...]
) -> None:
    rig = drafting()
    stats: list[SchedulerStats] = []
    rig.on_stats = stats.append
    rig.device.script = lambda request, room: answers[request - 1] if room == 3 else (0, 0)
    requests = [rig.admit(5, 6) for _ in answers]
    rig.turn()
    rig.settle()
    rig.settle()
    rig.now += 1.0
    rig.device.script = lambda request, room: (0, 0)
    rig.turn()
    last = stats[-1]
    found = (last.draft_rows, last.drafted_tokens, last.accepted_tokens, last.accepted_at)
    assert found == expected
    rig.drain()
    assert all(len(rig.delivered(r)) == 6 for r in requests)


def test_a_result_with_more_tokens_or_drafts_than_planned_ends_its_request_alone() -> None:
    rig = drafting()
    good, bad = rig.admit(5, 9), rig.admit(5, 9)
    rig.turn()
    rig.settle()
    result = rig.results.popleft()
    counts = ints(result.token_counts).tolist()
    forged = msgspec.structs.replace(
        result,
        token_counts=column([counts[0], counts[1] + 1]),
        token_ids=result.token_ids + column([5]),
    )
    rig.receive(forged)
    retired = rig.streams[bad].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "request_failed"
    rig.drain()
    assert len(rig.delivered(good)) == 9
    rig.assert_clean()


def test_the_proposer_is_told_who_moves_in_and_who_has_left() -> None:
    rig = drafting()
    rig.admit(5, 2)
    rig.drain()
    opened, closed = rig.proposer.sent
    assert isinstance(opened, Open) and isinstance(closed, Close)
    assert (opened.step, opened.slot, opened.generation, size(opened.token_ids)) == (0, 0, 0, 5)
    assert (closed.slot, closed.generation) == (0, 0)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_the_proposer_is_told_with_whom_a_request_shares_its_text(prefix_cache: bool) -> None:
    rig = drafting(prefix_cache=prefix_cache)
    rig.admit(5, 9, cache_salt="alice")
    rig.admit(5, 9, use_cache=False)
    rig.turn()
    rig.receive(Resync(incarnation=9, actor="proposer"))
    told = [(one.cache_salt, one.use_cache) for one in rig.proposer.sent if isinstance(one, Open)]
    assert told == [("alice", True), ("", False)] * 2


def test_a_newborn_proposer_is_told_of_every_running_request_and_its_settled_tokens() -> None:
    rig = drafting()
    rig.admit(5, 30)
    rig.turn()
    rig.settle()
    rig.settle()
    rig.turn()
    rig.proposer.sent.clear()
    rig.receive(Resync(incarnation=9, actor="proposer"))
    (opened,) = rig.proposer.sent
    assert isinstance(opened, Open)
    assert (opened.step, size(opened.token_ids)) == (2, 5 + 1 + 4)


def test_a_preempted_request_keeps_what_it_knows_of_its_drafts(depth: int) -> None:
    rig = drafting(depth=depth, num_blocks=10, block_size=2, max_model_len=20, max_slots=4)
    requests = [rig.admit(4, 12) for _ in range(3)]
    rig.drain()
    assert rig.core.counters.preemptions > 0
    assert [len(rig.delivered(r)) for r in requests] == [12, 12, 12]
    rig.assert_clean()


def test_rows_take_turns_with_drafts_where_there_is_not_one_for_each() -> None:
    rig = drafting(depth=1, max_batch_tokens=7)
    for _ in range(4):
        rig.admit(1, 100)
    for _ in range(6):
        rig.step()
    given = [drafts(*rig.step()) for _ in range(8)]
    assert [sum(counts) for counts in zip(*given, strict=True)] == [6] * 4


def judged(rig: Rig) -> tuple[int, int]:
    """Drafts that were counted, and those of them that were right."""
    assert rig.core.device is not None and rig.core.device.length is not None
    totals = rig.core.device.length.totals()
    return totals.drafted, totals.accepted


def test_drafts_of_a_request_that_has_ended_are_not_counted() -> None:
    rig = drafting()
    request = rig.admit(5, 40)
    rig.turn()
    rig.settle()
    rig.cancel(request)
    rig.drain()
    assert judged(rig) == (0, 0)


def test_drafts_behind_a_stop_token_are_not_counted() -> None:
    rig = drafting(depth=1)
    rig.device.scripted[1, 7] = STOP
    rig.device.script = lambda request, room: (room, room)
    rig.admit(5, 40, stop_ids=(STOP,))
    rig.drain()
    assert judged(rig) == (2, 2)


def test_a_wait_is_put_down_to_drafts_where_some_were_asked_for(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, waits = drafting(depth=depth), set[int | None]()
    assert rig.core.device is not None and rig.core.device.length is not None
    monkeypatch.setattr(rig.core.device.length, "ran", lambda *args: waits.add(args[3]))
    rig.admit(5, 9)
    rig.drain()
    assert waits == {None, 0}
