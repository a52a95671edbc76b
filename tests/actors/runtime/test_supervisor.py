"""The supervisor over children that do what the test says: deaths, restarts and the end."""

from __future__ import annotations

import anyio
import pytest
from scripted_children import NAMES, Stage, settled

from optimist.actors.runtime.policy import Backoff, Branch, Budget, Tree
from optimist.actors.runtime.supervisor import Supervisor
from optimist.messages.control import Fault, Restarted
from optimist.messages.errors import EngineBroken

pytestmark = pytest.mark.anyio


async def test_start_is_in_order_and_stop_in_reverse() -> None:
    stage = Stage()
    async with stage.supervisor() as supervisor:
        await supervisor.start()
        assert stage.log == [f"start {name}" for name in NAMES]
        stage.log.clear()
        await supervisor.stop()
    assert stage.log == [f"{what} {name}" for name in reversed(NAMES) for what in ("ask", "end")]
    assert stage.told == []


async def test_a_child_that_does_not_stop_in_time_is_killed_and_the_others_stop_well() -> None:
    stage = Stage()
    stage["scheduler"].stops_well = False
    async with stage.supervisor(stop_limit=0.05) as supervisor:
        await supervisor.start()
        await supervisor.stop()
    assert stage.log[-6:] == [
        "ask scheduler",
        "kill scheduler",
        "ask builder",
        "end builder",
        "ask worker",
        "end worker",
    ]


async def test_a_dead_child_is_told_restarted_and_told_again() -> None:
    stage = Stage()
    async with stage.supervisor() as supervisor:
        await supervisor.start()
        stage["builder"].die("was killed by SIGKILL")
        await settled()
        assert stage.told == [
            Fault(incarnation=0, actor="builder", reason="was killed by SIGKILL"),
            Restarted(incarnation=0, actor="builder"),
        ]
        assert supervisor.restarts == 1
        await supervisor.stop()


async def test_incarnations_come_from_one_increasing_counter() -> None:
    stage = Stage()
    async with stage.supervisor() as supervisor:
        await supervisor.start()
        for name in ("worker", "scheduler", "worker"):
            stage[name].die("x")
            await settled()
        await supervisor.stop()
    assert [stage[name].incarnations for name in NAMES] == [[1, 5, 7], [2], [3, 6], [4]]


async def test_rest_for_one_restarts_the_later_ones_without_calling_them_dead() -> None:
    stage = Stage()
    async with stage.supervisor("rest_for_one") as supervisor:
        await supervisor.start()
        stage.log.clear()
        stage["builder"].die("x")
        await settled()
        assert stage.log == [
            "end builder",
            "ask gateway",
            "end gateway",
            "ask scheduler",
            "end scheduler",
            "start builder",
            "start scheduler",
            "start gateway",
        ]
        assert [type(message) for message in stage.told] == [Fault, Restarted, Restarted, Restarted]
        await supervisor.stop()


async def test_rest_for_one_two_deaths_at_once_start_nobody_twice() -> None:
    stage = Stage()
    async with stage.supervisor("rest_for_one") as supervisor:
        await supervisor.start()
        stage["worker"].die("x")
        stage["builder"].die("y")
        await settled()
        running = {name: 0 for name in NAMES}
        for event in stage.log:
            what, name = event.split()
            running[name] += {"start": 1, "end": -1, "kill": -1}.get(what, 0)
            assert running[name] in (0, 1), stage.log
        assert set(running.values()) == {1}
        await supervisor.stop()


async def test_past_the_budget_the_fault_is_final_and_only_the_gateway_is_left() -> None:
    stage = Stage()
    async with stage.supervisor(restarts=1) as supervisor:
        await supervisor.start()
        for _ in range(2):
            stage["worker"].die("process 12 exited with status 9")
            await settled()
        assert supervisor.ended.is_set()
        assert isinstance(supervisor.broken, EngineBroken)
        final = stage.told[-1]
        assert isinstance(final, Fault) and final.final and final.actor == "worker"
        assert "process 12 exited with status 9" in final.reason
        assert "more than 1 deaths within 30 s" in final.reason
        assert stage.log[-4:] == ["ask scheduler", "end scheduler", "ask builder", "end builder"]
        await supervisor.stop()
        assert stage.log[-2:] == ["ask gateway", "end gateway"]


async def test_the_death_of_a_gateway_that_cannot_be_replaced_is_final() -> None:
    stage = Stage()
    async with stage.supervisor() as supervisor:
        await supervisor.start()
        stage["gateway"].die("boom", "RuntimeError")
        await settled()
        assert supervisor.broken is not None
        assert "gateway died: RuntimeError: boom" in str(supervisor.broken)
        await supervisor.stop()


async def test_a_restarted_child_that_is_not_ready_in_time_dies_again_until_the_budget_ends() -> (
    None
):
    stage = Stage()
    async with stage.supervisor(restarts=2, start_timeout=0.05) as supervisor:
        await supervisor.start()
        stage["worker"].starts_well = False
        stage["worker"].die("first")
        with anyio.fail_after(60):
            await supervisor.ended.wait()
        assert "was not ready within 0.05 s" in str(supervisor.broken)
        assert len(stage["worker"].incarnations) == 3
        await supervisor.stop()


async def test_a_death_while_stopping_is_not_answered_by_a_restart() -> None:
    stage = Stage()
    stage["gateway"].stops_well = False
    async with stage.supervisor(stop_limit=0.05) as supervisor:
        await supervisor.start()
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.stop)
            await settled()
            stage["worker"].die("x")
    assert stage["worker"].incarnations == [1]
    assert stage.told == []


async def test_a_restart_that_waits_is_dropped_when_the_engine_stops() -> None:
    stage = Stage()
    branches = tuple(Branch(name, 5.0) for name in NAMES)
    tree = Tree(branches, Budget(5, 30.0), backoff=Backoff(first=0.05))
    async with anyio.create_task_group() as group:
        supervisor = Supervisor(
            tree, stage.children.values(), group, stage.told.append, start_timeout=5.0
        )
        await supervisor.start()
        stage["worker"].die("x")
        await settled()
        stage["worker"].die("y")
        await supervisor.stop()
        await anyio.sleep(0.1)
        assert len(stage["worker"].incarnations) == 2


async def test_cancelling_the_group_kills_every_child() -> None:
    stage = Stage()
    async with stage.supervisor() as supervisor:
        await supervisor.start()
    assert sorted(stage.log[-4:]) == sorted(f"kill {name}" for name in NAMES)
