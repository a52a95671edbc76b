"""Options that clash are refused by a whole engine before a weight is read, in every placement."""

from __future__ import annotations

from typing import Any

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


def drafting(made: EngineConfig, depth: int = 2, **options: Any) -> EngineConfig:
    replace, told = msgspec.structs.replace, ProposerConfig(**{"proposer": "ngram", **options})
    return replace(
        made,
        scheduler=replace(
            made.scheduler, proposer=told.proposer, draft_tokens=told.draft_tokens, depth=depth
        ),
        proposer=told,
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


async def test_an_operator_that_comes_with_what_was_loaded_is_refused_by_name() -> None:
    made = drafting(config("inline", executor="exact_stage:Brings"))
    with pytest.raises(ConfigError, match=r"operator exact_stage\.exact_attention .*depth 2"):
        await starts(made)


async def test_the_same_operator_serves_where_plans_are_exact() -> None:
    made = config("inline", executor="exact_stage:Planted")
    await starts(made)
    await starts(drafting(made, depth=1))


async def test_clashing_options_are_refused_before_anything_starts() -> None:
    made = config("inline", executor="exact_stage:Planted")
    made = msgspec.structs.replace(made, proposer=ProposerConfig(draft_tokens=3))
    with pytest.raises(ConfigError, match=r"draft_tokens: expected the same as proposer"):
        await starts(made)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngram_min": 5, "ngram_max": 2}, "ngram_max: expected at least ngram_min"),
        ({"proposer": "suffix", "suffix_probability": 2.0}, "suffix_probability: expected above 0"),
        ({"proposer": "nosuch:Class"}, "proposer: cannot import 'nosuch:Class': ModuleNotFound"),
        (
            {"proposer": "raises_on_import:Mine"},
            r"proposer: cannot import .* OSError: the table of",
        ),
        (
            {"proposer": "optimist.actors.config:EngineConfig"},
            "proposer: expected a subclass of Proposer",
        ),
    ],
)
async def test_a_wrong_option_of_a_proposer_is_refused(
    options: dict[str, Any], message: str
) -> None:
    made = drafting(config("inline", executor="exact_stage:Loads"), **options)
    loaded = Loads.loaded
    with pytest.raises(ConfigError, match=message):
        await starts(made)
    assert Loads.loaded == loaded


async def test_a_proposer_that_is_not_there_is_refused_by_a_process_too() -> None:
    made = drafting(config("embedded", executor="exact_stage:Loads"), proposer="nosuch:Class")
    with pytest.raises(ConfigError, match="proposer: cannot import 'nosuch:Class'"):
        await starts(made)


@pytest.mark.parametrize(("given", "longest"), [(None, 512), (100, 100)])
async def test_more_drafts_than_a_context_has_room_for_are_refused(
    given: int | None, longest: int
) -> None:
    made = drafting(config("inline", executor="exact_stage:Loads"), draft_tokens=512)
    made = msgspec.structs.replace(
        made, worker=msgspec.structs.replace(made.worker, max_model_len=given)
    )
    with pytest.raises(ConfigError, match=f"draft_tokens: 512 drafts and max_model_len {longest}"):
        await starts(made)
