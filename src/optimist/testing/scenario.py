"""A whole simulated afternoon, drawn from one seed."""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

from optimist.messages.base import column
from optimist.messages.slots import Sampling
from optimist.testing.drafting import DEVICE, HOST, place_of
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.setup import Setup
from optimist.testing.wishes import Wish
from optimist.testing.world import Chaos

KILLABLE = ("worker", "scheduler", "builder")
TOGETHER = "worker+proposer+builder+scheduler"
"""a process that holds all but the gateway; where there is no proposer, the others"""

DRAFTS = (*HOST, *DEVICE)


class Scenario(NamedTuple):
    """Everything that a seed decides, except the order of events."""

    setup: Setup
    wishes: tuple[Wish, ...]
    chaos: Chaos


def scenario(seed: int) -> Scenario:
    """Small pools, short contexts and few slots: whatever can be tight is tight sometimes."""
    rng = random.Random(seed)
    setup = _setup(rng)
    stems = [_tokens(rng, rng.randint(4, 24), setup.model) for _ in range(3)]
    count = rng.choice([1, 2, 4, 8, 12])
    wishes = tuple(_wish(rng, setup, stems) for _ in range(count))
    wishes = _scored(random.Random(f"scores {seed}"), wishes)
    chaos = _chaos(rng, count, place_of(setup.drafts) == "host")
    return Scenario(setup, wishes, _in_company(random.Random(f"company {seed}"), chaos))


def _setup(rng: random.Random) -> Setup:
    block_size = rng.choice([1, 2, 4, 4, 8])
    context = rng.choice([24, 40, 64])
    least = -(-context // block_size)
    return Setup(
        depth=rng.choice([1, 2, 2, 3]),
        max_chunk=rng.choice([1, 3, 8, 512]),
        max_batch_tokens=rng.choice([4, 16, 64, 2048]),
        max_waiting=rng.choice([2, 1024, 1024, 1024]),
        prefix_cache=rng.random() < 0.75,
        num_blocks=rng.choice([least // 2, least, least + 2, 2 * least, 8 * least]),
        block_size=block_size,
        max_slots=rng.choice([1, 2, 4, 8]),
        max_model_len=context,
        model=IntegerModel(eos_share=rng.choice([0.0, 0.05, 0.3])),
        lateness=rng.choice([0, 1, 2]),
        drafts=rng.choice(DRAFTS) if rng.random() < 0.7 else "",
        draft_tokens=rng.choice([1, 2, 3, 5, "auto"]),
    )


def _wish(rng: random.Random, setup: Setup, stems: list[list[int]]) -> Wish:
    prompt = rng.choice(stems)[: rng.randint(1, 24)] if rng.random() < 0.8 else []
    prompt = prompt + _tokens(rng, rng.choice([0, 1, 5]), setup.model)
    prompt = prompt or [1]
    stops = (0, *_tokens(rng, rng.choice([0, 1]), setup.model))
    return Wish(
        prompt_ids=tuple(prompt),
        max_tokens=rng.choice([1, 2, 5, 12, 20, 60]),
        sampling=_sampling(rng, stops),
        stop_ids=stops,
        priority=rng.choice([0, 0, 0, 1, -1]),
        cache_salt=rng.choice(["", "", "", "salt"]),
        use_cache=rng.random() < 0.9,
        window=rng.choice([1, 3, 1024, 1024]),
        arrival=rng.choice([0.0, 0.0, rng.random() * 0.05, rng.random() * 0.3]),
        deadline=rng.choice([None, None, None, None, rng.random() * 0.05]),
        cancel_after=rng.choice([None, None, None, None, 0, 3]),
    )


def _sampling(rng: random.Random, stops: tuple[int, ...]) -> Sampling:
    return Sampling(
        temperature=rng.choice([0.0, 1.0]),
        seed=rng.choice([0, 1, -5, 2**62]),
        presence_penalty=rng.choice([0.0, 0.0, 1.5]),
        min_tokens=rng.choice([0, 0, 2]),
        stop_ids=column(stops),
        logprobs=rng.choice([-1, -1, 0, 3]),
    )


def _scored(rng: random.Random, wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
    """Some of them ask for the log-probabilities of their prompt, and some of these for no more."""
    found = []
    for wish in wishes:
        wanted = rng.choice([-1, -1, -1, 0, 2])
        sampling = msgspec.structs.replace(wish.sampling, prompt_logprobs=wanted)
        tokens = 0 if wanted >= 0 and rng.random() < 0.3 else wish.max_tokens
        found.append(wish._replace(sampling=sampling, max_tokens=tokens))
    return tuple(found)


def _chaos(rng: random.Random, count: int, drafts: bool) -> Chaos:
    kills = rng.choice([0, 0, 1, 2, 4])
    killable = (*KILLABLE, "proposer") if drafts else KILLABLE
    return Chaos(
        kills=tuple((rng.randint(1, 50 * count), rng.choice(killable)) for _ in range(kills)),
        repeat=rng.choice([0.0, 0.0, 0.1]),
        codec=rng.random() < 0.1,
        uneven=rng.random() < 0.5,
        loss=rng.choice([0.0, 0.0, 0.1]),
    )


def _in_company(rng: random.Random, chaos: Chaos) -> Chaos:
    """Some workers take those along that share their process."""
    kills = [
        (at, rng.choice([actor, TOGETHER]) if actor == "worker" else actor)
        for at, actor in chaos.kills
    ]
    return chaos._replace(kills=tuple(kills))


def _tokens(rng: random.Random, count: int, model: IntegerModel) -> list[int]:
    return [rng.randrange(1, model.vocab_size) for _ in range(count)]
