"""Drafts accepted beside the optimum, on a network whose distributions are known."""

from __future__ import annotations

import anyio
import pytest

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress
from optimist.bench.optimum import Watched
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.chain import OTHER, PARAMETERS, TARGET, VOCAB

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class WatchedChain(Watched):
    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> WatchedChain:
        return cls(TARGET, config, draft=OTHER, progress=progress)


async def accepted_and_optimum(verify: str) -> tuple[float, float]:
    async with Engine(
        "chain",
        "inline",
        tokenizer=ByteTokenizer(VOCAB),
        executor=f"{__name__}:WatchedChain",
        dtype="float32",
        proposer="draft-model",
        draft_model="chain",
        draft_tokens=3,
        verify=verify,
    ) as engine:

        async def ask(number: int) -> None:
            own = PARAMETERS[number % len(PARAMETERS)]
            params = SamplingParams(max_tokens=100, ignore_eos=True, seed=number, **own)
            await engine.complete([number % VOCAB], params, want_text=False)

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(ask, number)
    said = WatchedChain.tallies.pop().said()
    assert said["tried"] > 4000
    return said["accepted"], said["optimum"]


async def test_rejection_sampling_accepts_as_many_as_can_be() -> None:
    accepted, optimum = await accepted_and_optimum("rejection")
    assert 0.05 < optimum < 0.95 and abs(accepted - optimum) < 0.04


async def test_drafts_drawn_with_the_targets_noise_come_near_it() -> None:
    accepted, optimum = await accepted_and_optimum("sample")
    assert optimum / (2 - optimum) - 0.04 < accepted < optimum + 0.04
