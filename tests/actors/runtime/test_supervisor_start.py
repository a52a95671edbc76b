"""The supervisor over children that do what the test says: how a start can fail."""

from __future__ import annotations

import anyio
import pytest
from scripted_children import NAMES, Stage, settled

from optimist.messages.errors import ConfigError, EngineBroken, ModelError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "raised", "text"),
    [
        ("ConfigError", ConfigError, "^bad option$"),
        ("ModelError", ModelError, "^bad option$"),
        ("ValueError", EngineBroken, "^builder did not start: ValueError: bad option$"),
        ("", EngineBroken, "^builder did not start: bad option$"),
    ],
)
async def test_a_child_that_dies_while_it_starts_fails_the_start_with_its_own_error(
    kind: str, raised: type[Exception], text: str
) -> None:
    stage = Stage()
    stage["builder"].starts_well = False
    async with stage.supervisor() as supervisor:
        async with anyio.create_task_group() as group:

            async def start() -> None:
                with pytest.raises(raised, match=text):
                    await supervisor.start()

            group.start_soon(start)
            await settled()
            stage["builder"].die("bad option", kind)
        await supervisor.stop()
    assert stage.told == []
    assert len(stage["builder"].incarnations) == 1


async def test_a_child_that_sleeps_for_ever_fails_the_start_in_time() -> None:
    stage = Stage()
    stage["worker"].starts_well = False
    async with stage.supervisor(start_timeout=0.05) as supervisor:
        with pytest.raises(
            EngineBroken, match=r"worker did not start: was not ready within 0\.05 s"
        ):
            await supervisor.start()
        await supervisor.stop()


async def test_a_start_that_is_cancelled_can_be_stopped() -> None:
    stage = Stage()
    stage["worker"].starts_well = False
    async with stage.supervisor() as supervisor:
        with anyio.move_on_after(0.02):
            await supervisor.start()
        await supervisor.stop()
    assert stage.log[-2:] == ["ask worker", "end worker"]


async def test_a_start_that_is_cancelled_when_a_life_ends_is_cancelled() -> None:
    stage = Stage()
    stage["worker"].starts_well = False
    async with stage.supervisor() as supervisor, anyio.create_task_group() as group:
        group.start_soon(supervisor.start)
        await settled()
        # Both at one moment, as when a life ends of the same cancellation.
        supervisor._lives["worker"].ended.set()  # noqa: SLF001
        supervisor._look()  # noqa: SLF001
        group.cancel_scope.cancel()


async def test_the_start_waits_for_the_last_one_although_the_first_was_ready_before_it_began() -> (
    None
):
    stage = Stage()
    stage["gateway"].starts_late = True
    async with stage.supervisor() as supervisor:
        await supervisor.start()
        assert all(stage[name].is_ready for name in NAMES)
        await supervisor.stop()
