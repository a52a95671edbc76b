"""What became of drafts, as programs and people are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from optimist.engine import Engine
    from optimist.messages.requests import SchedulerStats

PATIENCE_S = 2.0
"""how long the scheduler, which says how things stand a few times a second, is waited for"""


async def speculation(engine: Engine, tokens: int) -> dict[str, Any]:
    """Of an engine that has generated so many tokens: who drafted, how much, and how much was right."""
    gateway = engine.gateway
    with anyio.move_on_after(PATIENCE_S):
        while (stats := gateway.scheduler_stats) is None or stats.emitted_tokens < tokens:
            await anyio.sleep(0.01)
    return said(engine.config.scheduler.proposer, gateway.scheduler_stats)


def said(proposer: str, stats: SchedulerStats | None) -> dict[str, Any]:
    """drafted, accepted: drafts verified, and right. draft_length: drafts of a row that had some, on
    average. acceptance_length: tokens that such a row yields, the bonus token included. per_position:
    share of these rows whose first, second and so on draft was right.
    """
    rows = stats.draft_rows if stats is not None else 0
    drafted = stats.drafted_tokens if stats is not None else 0
    accepted = stats.accepted_tokens if stats is not None else 0
    places = stats.accepted_at if stats is not None else ()
    return {
        "proposer": proposer,
        "drafted": drafted,
        "accepted": accepted,
        "draft_length": round(drafted / rows, 3) if rows else 0.0,
        "acceptance_length": round(1 + accepted / rows, 3) if rows else 1.0,
        "per_position": [round(right / rows, 3) for right in places],
    }
