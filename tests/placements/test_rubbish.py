"""A pickle that would leave a mark, into every frame of every socket of a served engine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest
import tokenizer_files
import zmq
from integer_stage import MAX_MODEL_LEN, MODEL, config

from optimist.actors.config import GatewayConfig
from optimist.client import Client
from optimist.messages.params import SamplingParams
from optimist.testing.following import Asked, answer_to
from optimist.troupe import bring_up

pytestmark = pytest.mark.anyio
ACTORS = ("builder", "gateway", "scheduler", "worker")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Mark:
    """Whoever unpickles it makes a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def throw(kind: int, endpoint: str, rubbish: list[bytes]) -> None:
    """As a message, as one of several frames, and as the name of the sender."""
    with zmq.Context() as context, context.socket(kind) as socket:
        if kind == zmq.DEALER:
            socket.routing_id = rubbish[0]
        socket.connect(endpoint)
        for each in rubbish:
            socket.send(each)
            socket.send_multipart([b"", each])


async def test_no_actor_loads_it_and_metrics_count_it(run_root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    rubbish = [pickle.dumps(Mark(mark), protocol) for protocol in range(6)]
    model = str(tokenizer_files.write_byte_level(tmp_path, "folder"))
    door = f"ipc://{run_root.parent / 'door'}"
    gateway = GatewayConfig(model=model, port=0, zmq=door)
    placement = msgspec.structs.replace(config("processes"), gateway=gateway)
    async with bring_up(placement, gateway_here=False) as troupe:
        http = troupe.details["gateway"].split(" and ")[0]
        sockets = {path.stem: f"ipc://{path}" for path in run_root.rglob("*.sock")}
        assert sorted(sockets) == list(ACTORS)
        for endpoint in sockets.values():
            await anyio.to_thread.run_sync(throw, zmq.PUSH, endpoint, rubbish)
        await anyio.to_thread.run_sync(throw, zmq.DEALER, door, rubbish)
        async with (
            httpx.AsyncClient(base_url=http, timeout=60) as client,
            Client(door, timeout=60) as ours,
        ):
            json = {"content-type": "application/json"}
            answer = await client.post("/v1/completions", content=rubbish[0], headers=json)
            assert answer.status_code == 400
            counted = [f'dropped_frames_total{{actor="{actor}"}} 12.0' for actor in ACTORS]
            with anyio.fail_after(60):
                text = ""
                while not all(one in text for one in counted):
                    await anyio.sleep(0.05)
                    text = (await client.get("/metrics")).text
            params = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True)
            with anyio.fail_after(60):
                told = (await ours.complete([1, 2, 3], params)).token_ids
        expected = answer_to(Asked(prompt_ids=(1, 2, 3), max_tokens=8), MODEL, MAX_MODEL_LEN)
        assert list(told) == expected
        assert not troupe.restarts
    assert not mark.exists()
    pickle.loads(rubbish[0])
    assert mark.exists()
