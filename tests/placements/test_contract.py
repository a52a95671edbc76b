"""Options that clash are refused by a whole engine before a weight is read, in every placement."""

from __future__ import annotations

import msgspec
import pytest
from exact_stage import Loads
from integer_stage import config

from optimist.actors.config import EngineConfig, Placement, ProposerConfig
from optimist.messages.errors import ConfigError
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import bring_up

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")


def drafting(made: EngineConfig, depth: int = 2) -> EngineConfig:
    replace = msgspec.structs.replace
    return replace(
        made,
        scheduler=replace(made.scheduler, proposer="ngram", depth=depth),
        proposer=ProposerConfig(proposer="ngram"),
    )


async def starts(made: EngineConfig) -> None:
    async with bring_up(made, ByteTokenizer(272)):
        pass


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_planted_operator_is_refused_by_name(placement: Placement) -> None:
    made = drafting(config(placement, executor="exact_stage:Planted"))
    loaded = Loads.loaded
    with pytest.raises(ConfigError, match=r"operator exact_stage\.exact_attention .*depth 2"):
        await starts(made)
    assert Loads.loaded == loaded


async def test_the_same_operator_serves_where_plans_are_exact() -> None:
    made = config("inline", executor="exact_stage:Planted")
    await starts(made)
    await starts(drafting(made, depth=1))


async def test_clashing_options_are_refused_before_anything_starts() -> None:
    made = config("inline", executor="exact_stage:Planted")
    made = msgspec.structs.replace(made, proposer=ProposerConfig(draft_tokens=3))
    with pytest.raises(ConfigError, match=r"draft_tokens: expected the same as proposer"):
        await starts(made)
