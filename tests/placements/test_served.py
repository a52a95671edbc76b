"""The gateway in a process of its own, as `serve` has it: clients come in from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import tokenizer_files
from integer_stage import MAX_MODEL_LEN, MODEL, config, gone
from waiting import until

from optimist.actors.config import EngineConfig, GatewayConfig
from optimist.client import Client
from optimist.messages.errors import EngineBroken, ProblemError
from optimist.messages.params import SamplingParams
from optimist.testing.following import Asked, answer_to
from optimist.troupe import Troupe, bring_up

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
]

PARAMS = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)
ANSWER = answer_to(Asked(prompt_ids=(1, 2, 3), max_tokens=24), MODEL, MAX_MODEL_LEN)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tokenizer_files.write_byte_level(tmp_path, "folder"))


def served(model: str, run_root: Path, **rest: Any) -> EngineConfig:
    base = config("processes", **rest)
    endpoint = f"ipc://{run_root.parent / 'door'}"
    gateway = GatewayConfig(model=model, zmq=endpoint, credit=8)
    worker = msgspec.structs.replace(base.worker, max_slots=2)
    return msgspec.structs.replace(base, gateway=gateway, worker=worker)


@asynccontextmanager
async def serving(placement: EngineConfig) -> AsyncIterator[Troupe]:
    async with bring_up(placement, gateway_here=False) as troupe:
        assert troupe.gateway is None
        assert troupe.details["gateway"] == placement.gateway.zmq
        yield troupe


async def ask(endpoint: str, params: SamplingParams = PARAMS) -> list[int]:
    async with Client(endpoint, timeout=60) as client:
        return list((await client.complete([1, 2, 3], params)).token_ids)


async def restarted(troupe: Troupe, times: int) -> None:
    await until(lambda: troupe.restarts == times)


async def test_a_client_from_outside_gets_the_oracles_tokens(model: str, run_root: Path) -> None:
    placement = served(model, run_root)
    async with serving(placement) as troupe:
        assert sorted(troupe.pids) == ["builder", "gateway", "scheduler", "worker"]
        pids = list(troupe.pids.values())
        with anyio.fail_after(60):
            assert await ask(placement.gateway.zmq) == ANSWER
    assert all(gone(pid) for pid in pids)


async def test_another_actor_killed_while_a_client_reads_its_stream_continues(
    model: str, run_root: Path
) -> None:
    placement = served(model, run_root, sleep_ms=3.0)
    async with serving(placement) as troupe:
        got: list[int] = []
        with anyio.fail_after(60):
            async with Client(placement.gateway.zmq, timeout=60) as client:
                async for chunk in client.generate([1, 2, 3], PARAMS):
                    got += chunk.token_ids
                    if len(got) >= 4 and not troupe.restarts:
                        os.kill(troupe.pids["scheduler"], signal.SIGKILL)
                        await until(lambda: troupe.restarts)
    assert got == ANSWER


async def test_killed_gateways_leave_no_slot_taken_and_the_next_one_serves(
    model: str, run_root: Path
) -> None:
    placement = served(model, run_root, sleep_ms=10.0)
    long = SamplingParams(max_tokens=200, temperature=0, ignore_eos=True)
    async with serving(placement) as troupe:
        for deaths in (1, 2):
            with anyio.fail_after(60):
                async with Client(placement.gateway.zmq, timeout=60) as client:
                    streams = [client.generate([1, 2, 3, deaths], long) for _ in range(2)]
                    for stream in streams:
                        await stream.__anext__()
                    os.kill(troupe.pids["gateway"], signal.SIGKILL)
                    for stream in streams:
                        with pytest.raises(ProblemError):
                            async for _ in stream:
                                pass
                await restarted(troupe, deaths)
                assert await ask(placement.gateway.zmq) == ANSWER
        async with Client(placement.gateway.zmq, timeout=60) as client:
            with anyio.fail_after(60):
                while (stats := await client.stats()).waiting + stats.running:
                    await anyio.sleep(0.05)


async def test_a_restarted_gateway_is_found_where_the_first_one_was(
    model: str, run_root: Path
) -> None:
    placement = served(model, run_root)
    gateway = msgspec.structs.replace(placement.gateway, zmq="tcp://127.0.0.1:*", port=0)
    async with bring_up(
        msgspec.structs.replace(placement, gateway=gateway), gateway_here=False
    ) as troupe:
        doors = troupe.details["gateway"]
        endpoint = doors.split(" and ")[-1]
        assert not endpoint.endswith("*") and ":0" not in doors
        pid = troupe.pids["gateway"]
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(60):
            assert await ask(endpoint) == ANSWER
        assert troupe.details["gateway"] == doors
        assert troupe.pids["gateway"] != pid


async def test_past_the_budget_a_client_is_told_which_actor_died_and_how(
    model: str, run_root: Path
) -> None:
    placement = served(model, run_root, sleep_ms=50.0, restarts=0)
    async with serving(placement) as troupe:
        with anyio.fail_after(60):
            async with Client(placement.gateway.zmq, timeout=60) as client:
                stream = client.generate([1, 2, 3], PARAMS)
                await stream.__anext__()
                os.kill(troupe.pids["worker"], signal.SIGKILL)
                with pytest.raises(EngineBroken, match=r"worker.*was killed by SIGKILL"):
                    async for _ in stream:
                        pass
            with pytest.raises(EngineBroken, match=r"worker.*was killed by SIGKILL"):
                await troupe.wait_ended()
            assert list(troupe.pids) == ["gateway"]
