"""The options of supervision, each seen in what becomes of an engine whose worker is ill-treated."""

from __future__ import annotations

import os
import signal
from typing import Any

import anyio
import msgspec
import pytest

from optimist.actors.config import EngineConfig, WorkerConfig
from optimist.actors.gateway.chunks import Completion, complete
from optimist.cli.parser import parse
from optimist.cli.settings import engine_config
from optimist.messages.client import Generate
from optimist.messages.errors import EngineBroken
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import Troupe, bring_up, hang_seconds

pytestmark = pytest.mark.anyio
PARAMS = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _config(*options: str) -> EngineConfig:
    """The engine that the options describe, with a worker that starts quickly."""
    config = engine_config(parse(["generate", "x", "--placement", "embedded", *options]))
    worker = msgspec.structs.replace(
        config.worker,
        executor="optimist.testing.integer_model:IntegerExecutor",
        executor_options={"vocab_size": 272},
        max_model_len=64,
        kv_blocks=16,
        max_slots=4,
    )
    return msgspec.structs.replace(config, worker=worker)


async def _ask(troupe: Troupe) -> Completion:
    assert troupe.gateway is not None
    stream = await troupe.gateway.submit(Generate(request="x", prompt="abc", params=PARAMS))
    return complete([chunk async for chunk in stream])


async def _kill_worker(troupe: Troupe, how: signal.Signals = signal.SIGKILL) -> None:
    """Ill-treat the worker, and ask for something that needs another life of it."""
    os.kill(troupe.pids["worker+builder+scheduler"], how)
    assert len((await _ask(troupe)).token_ids) == 4


async def _killed(times: int, *options: str) -> int:
    """Kill the worker so often. Returns how many new lives there were."""
    async with bring_up(_config(*options), ByteTokenizer()) as troupe:
        await _ask(troupe)
        for _ in range(times):
            await _kill_worker(troupe)
        return troupe.restarts


async def test_restarts() -> None:
    assert await _killed(1) == 1
    with pytest.raises(EngineBroken, match="worker"):
        await _killed(1, "--restarts", "0")


async def test_restart_window() -> None:
    with pytest.raises(EngineBroken, match="worker"):
        await _killed(2, "--restarts", "1")
    assert await _killed(2, "--restarts", "1", "--restart-window", "0.001") == 2


async def test_hang_timeout(quick_cells: str) -> None:
    config = _config("--hang-timeout", "1.5")
    async with bring_up(config, ByteTokenizer(), module=quick_cells) as troupe:
        await _ask(troupe)
        with anyio.fail_after(60):
            await _kill_worker(troupe, signal.SIGSTOP)
        assert troupe.restarts == 1


@pytest.mark.parametrize(
    ("worker", "seconds"),
    [
        ({"executor": "triton", "device": "cpu"}, 3600.0),
        ({"executor": "triton", "device": "cuda:0"}, 60.0),
        ({"device": "cpu"}, 60.0),
    ],
    ids=str,
)
def test_an_interpreted_step_may_take_longer(worker: dict[str, Any], seconds: float) -> None:
    silent = EngineConfig(worker=WorkerConfig(**worker))
    assert hang_seconds(silent) == seconds
    assert hang_seconds(msgspec.structs.replace(silent, hang_timeout=7.0)) == 7.0


async def test_stop_timeout() -> None:
    with anyio.fail_after(60):
        async with bring_up(_config("--stop-timeout", "0.2"), ByteTokenizer()) as troupe:
            await _ask(troupe)
            pid = troupe.pids["worker+builder+scheduler"]
            os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
