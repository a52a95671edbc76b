"""The consumer's end of a request of a Client."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from optimist.messages.client import Delta, Generate
from optimist.messages.errors import EngineEnded
from optimist.messages.params import SamplingParams
from optimist.remote_stream import Inflow, RemoteStream


def inflow() -> Inflow:
    return Inflow(Generate(request="a", prompt="hi", params=SamplingParams()))


def stream(inflow: Inflow, leave: Callable[[], None] = lambda: None) -> RemoteStream:
    return RemoteStream(inflow, leave, abandon=leave)


def more(inflow: Inflow) -> None:
    inflow.put(Delta(request="a", choice=0, index=0, token_ids=(1,), text="x"))


@pytest.mark.anyio
async def test_woken_by_an_ending_connection_and_cancelled_with_it_a_reader_is_cancelled() -> None:
    coming = inflow()
    reader = stream(coming)
    async with anyio.create_task_group() as group:
        group.start_soon(reader.__anext__)
        await anyio.wait_all_tasks_blocked()
        coming.fail(EngineEnded("the connection has ended"))
        group.cancel_scope.cancel()
    with pytest.raises(EngineEnded, match="the connection has ended"):
        await reader.__anext__()


@pytest.mark.anyio
async def test_a_cancelled_reader_leaves_what_has_come() -> None:
    coming = inflow()
    reader = stream(coming)
    more(coming)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await reader.__anext__()
    assert scope.cancelled_caught
    assert (await reader.__anext__()).text == "x"
    reader.close()
