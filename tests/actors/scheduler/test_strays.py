"""Messages that come twice, too early, too late, or about nobody."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from scheduler_rig import make_rig

from optimist.messages.base import column, ints
from optimist.messages.control import Drain
from optimist.messages.results import StepResult

STOP = 7


def test_a_live_request_admitted_again_is_ignored_and_counted(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.step()
    rig.resend(request, [1, 2, 3], 9, [])
    assert rig.core.counters.ignored["duplicate_admit"] == 1
    rig.drain()
    assert len(rig.delivered(request)) == 4
    rig.assert_clean()


def test_repeated_unknown_and_foreign_results_are_ignored_and_counted(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4)
    rig.turn()
    result = rig.settle()
    rig.receive(result)
    rig.receive(StepResult(incarnation=2, epoch=result.epoch, step=77))
    rig.receive(StepResult(incarnation=2, epoch=99, step=1))
    assert rig.core.counters.ignored["stale_result"] == 3
    rig.drain()
    assert len(rig.delivered(request)) == 4


def test_a_result_that_comes_before_the_one_ahead_of_it_waits() -> None:
    rig = make_rig(depth=2)
    request = rig.admit(5, 4)
    rig.turn()
    early = rig.settle(1)
    rig.receive(early)
    assert rig.delivered(request) == [] and rig.core.counters.ignored["stale_result"] == 1
    rig.settle()
    assert len(rig.delivered(request)) == 2
    rig.drain()


def test_messages_about_requests_that_are_gone_or_of_no_known_kind_are_counted() -> None:
    rig = make_rig()
    rig.grant(5, 3)
    rig.cancel(5)
    rig.receive(cast("Any", Drain(incarnation=1)))
    assert rig.core.counters.ignored == {
        "unknown_grant": 1,
        "unknown_cancel": 1,
        "message": 1,
    }


def test_a_row_that_the_worker_leaves_out_fails_alone(depth: int) -> None:
    rig = make_rig(depth=depth)
    requests = [rig.admit(5, 4) for _ in range(3)]
    rig.turn()
    whole = rig.results.popleft()
    kept = [0, 2]
    rig.receive(
        StepResult(
            incarnation=2,
            epoch=whole.epoch,
            step=whole.step,
            slots=b"".join(whole.slots[4 * i : 4 * i + 4] for i in kept) + column([99]),
            generations=column([0, 0, 0]),
            token_counts=column([1, 1, 1]),
            token_ids=b"".join(whole.token_ids[4 * i : 4 * i + 4] for i in kept) + column([1]),
            drafts_run=column([0, 0, 0]),
        )
    )
    assert rig.core.counters.ignored["row"] == 1
    rig.drain()
    retired = rig.streams[requests[1]].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "request_failed"
    assert [len(rig.delivered(r)) for r in requests] == [4, 0, 4]
    rig.assert_clean()


def test_a_row_for_which_no_token_could_be_chosen_fails_alone_and_leaves_no_cache(
    depth: int,
) -> None:
    rig = make_rig(depth=depth)
    requests = [rig.admit(9, 4) for _ in range(3)]
    rig.turn()
    whole = rig.results.popleft()
    ids = ints(whole.token_ids).tolist()
    counts, kept = column([1, 0, 1]), column([ids[0], ids[2]])
    rig.receive(msgspec.structs.replace(whole, token_counts=counts, token_ids=kept))
    retired = rig.streams[requests[1]].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "request_failed"
    assert "no finite numbers" in retired.problem.message
    rig.drain()
    assert [len(rig.delivered(r)) for r in requests] == [4, 0, 4]
    rig.assert_clean()
