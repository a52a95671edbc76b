"""A few of the seeded runs; `python -m optimist.testing.kill_runs --runs 50` does them all."""

from __future__ import annotations

import pytest

from optimist.testing.kill_runs import plan, run

SEEDS = (2, 4, 10)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_every_token_is_the_oracles_whoever_dies(seed: int) -> None:
    assert await run(seed) >= len(plan(seed).kills)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_token_is_the_oracles_when_all_but_the_gateway_die() -> None:
    assert await run(3, "embedded") == 1


def test_a_seed_decides_everything_and_seeds_differ() -> None:
    assert plan(3) == plan(3)
    assert len({repr(plan(seed)) for seed in range(20)}) == 20
    killed = {kill.actor for seed in range(50) for kill in plan(seed).kills}
    assert killed == {"worker", "scheduler", "builder"}
