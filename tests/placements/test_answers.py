"""Every placement gives the oracle's tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from integer_stage import config, right_answers

from optimist.actors.config import EngineConfig
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import bring_up

pytestmark = pytest.mark.anyio

PLACEMENTS = {
    "inline": config("inline"),
    "embedded": config("embedded"),
    "processes": config("processes"),
    "scheduler+builder": config("processes", groups=("scheduler+builder",)),
    "worker+builder": config("processes", groups=("worker+builder",)),
    "gateway+scheduler": config("processes", groups=("gateway+scheduler",)),
}


@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS.keys())
async def test_answers_are_the_oracles(placement: EngineConfig) -> None:
    async with bring_up(placement, ByteTokenizer(272)) as troupe:
        await right_answers(troupe)
        assert troupe.restarts == 0


async def test_a_cell_holds_only_what_its_actors_need(run_root: Path) -> None:
    async with bring_up(config("processes"), ByteTokenizer(272)) as troupe:
        assert sorted(troupe.pids) == ["builder", "scheduler", "worker"]
        for pid in troupe.pids.values():
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert "libtorch" not in maps and "tokenizers" not in maps
        (directory,) = run_root.iterdir()
        assert sorted(path.name for path in directory.iterdir()) == [
            "builder.sock",
            "gateway.sock",
            "lock",
            "scheduler.sock",
            "worker.sock",
        ]
