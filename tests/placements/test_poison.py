"""A request that takes the worker along in each step it is in is refused by name; all others finish."""

from __future__ import annotations

import anyio
import pytest
from integer_stage import ASKED, POISON, Audience, config

from optimist.actors.config import EngineConfig
from optimist.messages.errors import RequestFailed
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.following import Asked, Follower
from optimist.troupe import bring_up

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

EXECUTOR = "integer_stage:Poisoned"
PLACES = {
    "embedded": config("embedded", executor=EXECUTOR),
    "processes": config("processes", executor=EXECUTOR),
    "processes, in one group": config(
        "processes", executor=EXECUTOR, groups=("worker+builder+scheduler",)
    ),
}


@pytest.mark.parametrize("place", PLACES)
async def test_it_is_refused_after_two_deaths_and_all_others_finish(place: str) -> None:
    made: EngineConfig = PLACES[place]
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        assert troupe.gateway is not None
        audience = Audience(troupe.gateway, ASKED[:2])
        poison = Follower(troupe.gateway, Asked(prompt_ids=(POISON, 3, 4)))

        async def refused() -> None:
            with pytest.raises(RequestFailed, match="two steps that died"):
                await poison.follow()

        async with anyio.create_task_group() as group:
            group.start_soon(refused)
            group.start_soon(audience.follow)
        assert troupe.restarts == 2
        assert poison.token_ids == []
