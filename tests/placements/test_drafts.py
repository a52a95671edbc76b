"""Drafts in whole engines: wherever the proposer is and whatever it does, answers are the oracle's."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from integer_stage import ASKED, MAX_MODEL_LEN, MODEL, Audience, config, right_answers
from waiting import until

from optimist.actors.config import EngineConfig, Placement, ProposerConfig
from optimist.messages.requests import SchedulerStats
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.following import answer_to
from optimist.testing.lying_proposer import Lie
from optimist.troupe import Troupe, bring_up

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PATIENT = 1000.0
"""steps that are waited for drafts: however late they come"""
WEARY = 10.0
"""where there may be none: they come in time on a busy machine too, and nobody waits for ever"""

SCRIPT = "optimist.testing.script_proposer:FileScript"
LIAR = "optimist.testing.lying_proposer:LyingActor"
PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")


@pytest.fixture
def texts(tmp_path: Path) -> str:
    """A file with what is asked and what is right."""
    path = tmp_path / "texts.json"
    answers = [[*one.prompt_ids, *answer_to(one, MODEL, MAX_MODEL_LEN)] for one in ASKED]
    path.write_text(json.dumps(answers))
    return str(path)


def drafting(
    made: EngineConfig, proposer: str, depth: int = 2, wait: float = PATIENT, **options: Any
) -> EngineConfig:
    replace = msgspec.structs.replace
    return replace(
        made,
        worker=replace(made.worker, draft_wait=wait),
        scheduler=replace(made.scheduler, proposer=proposer, depth=depth, draft_tokens=4),
        proposer=ProposerConfig(proposer=proposer, draft_tokens=4, proposer_options=options),
    )


def scripted(made: EngineConfig, texts: str, depth: int = 2, wait: float = PATIENT) -> EngineConfig:
    vocab = MODEL.vocab_size
    return drafting(made, SCRIPT, depth, wait, texts=texts, script="right", vocab_size=vocab)


async def statistics(troupe: Troupe, rounds: int = 1) -> SchedulerStats:
    """What the scheduler says when it has emitted what was asked so often."""
    gateway, tokens = troupe.gateway, rounds * sum(one.max_tokens for one in ASKED)
    assert gateway is not None
    await until(
        lambda: gateway.scheduler_stats and gateway.scheduler_stats.emitted_tokens >= tokens
    )
    assert gateway.scheduler_stats is not None
    return gateway.scheduler_stats


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_right_drafts_take_fewer_steps(placement: Placement, depth: int, texts: str) -> None:
    async with bring_up(config(placement), ByteTokenizer(272)) as troupe:
        await right_answers(troupe)
        plain = await statistics(troupe)
    made = scripted(config(placement), texts, depth=depth)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        await right_answers(troupe)
        found = await statistics(troupe)
        assert troupe.restarts == 0
    assert found.accepted_tokens == found.drafted_tokens > 0
    assert found.steps < 0.75 * plain.steps


@pytest.mark.parametrize("groups", [("proposer",), ("worker+proposer",)])
@pytest.mark.parametrize("placement", PLACEMENTS[1:])
async def test_a_proposer_can_be_grouped(
    placement: Placement, groups: tuple[str, ...], texts: str
) -> None:
    made = scripted(config(placement, groups=groups), texts)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        assert any(cell.startswith(groups[0]) for cell in troupe.pids)
        await right_answers(troupe)
        assert (await statistics(troupe)).accepted_tokens > 0


@pytest.mark.parametrize("proposer", ["ngram", "suffix"])
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_ours_draft_in_the_workers_process(placement: Placement, proposer: str) -> None:
    made = drafting(config(placement), proposer)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        cells = [cell for cell in troupe.pids if cell.startswith("worker+proposer")]
        assert len(cells) == (placement != "inline")
        await right_answers(troupe)
        assert troupe.restarts == 0


LIARS: tuple[Lie, ...] = ("wrong-slot", "future-step", "too-many", "no-such-token", "silent")


@pytest.mark.parametrize(("placement", "depth"), [("embedded", 2), ("inline", 1)])
@pytest.mark.parametrize("lie", LIARS)
async def test_a_liar_changes_no_token(
    lie: Lie, placement: Placement, depth: int, texts: str
) -> None:
    told: dict[str, Any] = {"inner": SCRIPT, "texts": texts, "vocab_size": MODEL.vocab_size}
    made = drafting(config(placement), LIAR, depth, WEARY, lie=lie, **told)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        assert ("proposer" in troupe.pids) is (placement == "embedded"), "it has its own process"
        await right_answers(troupe)
        assert troupe.restarts == 0
        found = await statistics(troupe)
    if lie == "too-many":
        assert found.accepted_tokens == found.drafted_tokens > 0, "what is too much is cut off"
    elif lie in ("wrong-slot", "future-step"):
        # They look like drafts where that slot, or that step, is there when they come.
        assert 4 * found.accepted_tokens <= found.drafted_tokens
    else:
        assert found.drafted_tokens == 0, "nothing of it is a draft"


async def test_a_proposer_that_is_killed_comes_back_and_drafts_again(texts: str) -> None:
    made = scripted(config("embedded", sleep_ms=2.0), texts, wait=WEARY)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        first = troupe.pids["proposer"]
        audience = Audience(troupe.gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(audience.follow)
            await until(lambda: audience.delivered >= 8)
            os.kill(first, signal.SIGKILL)
        await until(lambda: troupe.pids.get("proposer") not in (None, first))
        before, rounds = await statistics(troupe), 1
        accepted = before.accepted_tokens
        with anyio.fail_after(60):
            while accepted <= before.accepted_tokens:
                await right_answers(troupe)
                rounds += 1
                accepted = (await statistics(troupe, rounds)).accepted_tokens
        assert troupe.gateway is not None and troupe.gateway.health().healthy
        assert troupe.restarts == 1


async def test_a_proposer_that_stands_still_midway_costs_a_few_waits_and_drafts_again(
    texts: str,
) -> None:
    made = scripted(config("embedded", sleep_ms=1.0), texts, wait=WEARY)
    async with bring_up(made, ByteTokenizer(272)) as troupe:
        audience = Audience(troupe.gateway)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(audience.follow)
                await until(lambda: audience.delivered >= 8)
                os.kill(troupe.pids["proposer"], signal.SIGSTOP)
            await right_answers(troupe)
            stopped = await statistics(troupe, 2)
            await right_answers(troupe)
            later = await statistics(troupe, 3)
        finally:
            os.kill(troupe.pids["proposer"], signal.SIGCONT)
        assert later.drafted_tokens == stopped.drafted_tokens
        assert later.drafts_us == stopped.drafts_us, "after some silence nobody waits"
        accepted, rounds = stopped.accepted_tokens, 3
        with anyio.fail_after(60):
            while accepted == stopped.accepted_tokens:
                await right_answers(troupe)
                rounds += 1
                accepted = (await statistics(troupe, rounds)).accepted_tokens
        assert troupe.restarts == 0
