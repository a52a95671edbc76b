"""Credit pauses a row, and never the scheduler."""

from __future__ import annotations

from scheduler_rig import make_rig


def test_credit_pauses_its_own_row_only(depth: int) -> None:
    rig = make_rig(depth=depth)
    slow, quick = rig.admit(5, 10, credit=3), rig.admit(5, 10)
    rig.drain()
    assert len(rig.delivered(slow)) == 3 and rig.streams[slow].finish is None
    assert len(rig.delivered(quick)) == 10
    rig.grant(slow, 2)
    rig.drain()
    assert len(rig.delivered(slow)) == 5
    rig.grant(slow, 100)
    rig.drain()
    assert len(rig.delivered(slow)) == 10 and rig.streams[slow].finish == "length"
    rig.assert_clean()


def test_a_request_without_credit_holds_up_nobody_and_starts_with_its_first_grant(
    depth: int,
) -> None:
    rig = make_rig(depth=depth, max_slots=1)
    parked, other = rig.admit(5, 2, credit=0), rig.admit(5, 2)
    rig.drain()
    assert rig.streams[other].finish == "length" and rig.delivered(parked) == []
    rig.grant(parked, 2)
    rig.drain()
    assert rig.streams[parked].finish == "length"
    rig.assert_clean()


def test_a_slot_without_credit_gives_way_when_nothing_else_can_run(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=2)
    slow = [rig.admit(5, 10, credit=2) for _ in range(2)]
    rig.drain()
    other = rig.admit(5, 4)
    rig.drain()
    assert rig.streams[other].finish == "length"
    for request in slow:
        rig.grant(request, 50)
    rig.drain()
    assert [len(rig.delivered(request)) for request in slow] == [10, 10]
    rig.assert_clean()


def test_a_slot_without_credit_gives_way_after_a_while_when_others_run(depth: int) -> None:
    rig = make_rig(depth=depth, max_slots=2)
    slow, running, waiting = rig.admit(5, 10, credit=2), rig.admit(5, 100), rig.admit(5, 4)
    for _ in range(30):
        rig.step()
    assert rig.streams[waiting].finish == "length"
    assert rig.streams[running].finish is None and len(rig.delivered(slow)) == 2
