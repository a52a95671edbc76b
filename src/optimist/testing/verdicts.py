"""What must hold when a simulated world has come to rest."""

from __future__ import annotations

from optimist.actors.scheduler.actor import Scheduler
from optimist.testing.gateway_model import Journal
from optimist.testing.oracle import Answer, IntegerOracle
from optimist.testing.setup import Setup
from optimist.testing.trace import shown
from optimist.testing.world import World


def differences(world: World) -> list[str]:
    """One line for each request that did not get what ORACLE says, empty when all did."""
    next_token = IntegerOracle(world.setup.model)
    found: list[str] = []
    for request, journal in world.gateway.journals.items():
        answer = journal.wish.answer(next_token, world.setup.context_limit)
        if problem := _problem(world.setup, journal, answer, world.strikes[request]):
            found.append(f"request {request}: {problem}")
    return found


def _problem(setup: Setup, journal: Journal, answer: Answer, strikes: int) -> str | None:
    tokens = journal.tokens
    if tokens != answer.token_ids[: len(tokens)]:
        return f"got {tokens}, expected {answer.token_ids}"
    if journal.code is not None:
        return _unless_allowed(setup, journal, strikes)
    if journal.finish == "cancelled":
        return None if journal.cancelling else "cancelled, but nobody left"
    if _too_large(setup, journal):
        return "served, although it can never fit"
    if (tokens, journal.finish) != (answer.token_ids, answer.finish):
        return f"ended as {journal.finish} with {tokens}, expected {answer}"
    return _logprobs(setup, journal) or _scores(setup, journal)


def _unless_allowed(setup: Setup, journal: Journal, strikes: int) -> str | None:
    allowed = {
        "too_large": _too_large(setup, journal),
        "deadline_exceeded": journal.wish.deadline is not None,
        "overloaded": setup.max_waiting < 1024 and not journal.tokens,
        "request_failed": strikes >= 2,
    }
    if allowed.get(journal.code or "", False):
        return None
    return f"{journal.code} after {len(journal.tokens)} tokens and {strikes} worker deaths"


def _too_large(setup: Setup, journal: Journal) -> bool:
    return len(journal.wish.prompt_ids) >= setup.context_limit


def _logprobs(setup: Setup, journal: Journal) -> str | None:
    wanted = journal.wish.sampling.logprobs
    expected = range(len(journal.tokens)) if wanted >= 0 else range(0)
    if sorted(journal.logprobs) != list(expected):
        return f"log probabilities for {sorted(journal.logprobs)}, expected for {list(expected)}"
    for i in expected:
        position = len(journal.wish.prompt_ids) + i
        (_, chosen), *tops = setup.model.logprobs(journal.tokens[i], position, wanted)
        if journal.logprobs[i] != (chosen, [token for token, _ in tops]):
            return f"log probabilities of token {i}: {journal.logprobs[i]}"
    return None


def _scores(setup: Setup, journal: Journal) -> str | None:
    prompt, wanted = journal.wish.prompt_ids, journal.wish.sampling.prompt_logprobs
    expected = IntegerOracle(setup.model).scores(prompt, wanted) if wanted >= 0 else {}
    if journal.scores != expected:
        return f"log probabilities of the prompt: {journal.scores}, expected {expected}"
    return None


def unrest(world: World) -> list[str]:
    """What is left behind in a world that is quiet: DRAIN for the simulation."""
    found = [] if world.gateway.rested else [f"the scheduler says {shown(world.gateway.stats)}"]
    scheduler = world.actors["scheduler"]
    if isinstance(scheduler, Scheduler):
        scheduler.check()
        if scheduler.core.live:
            found.append(f"the scheduler still knows requests {sorted(scheduler.core.live)}")
    return found
