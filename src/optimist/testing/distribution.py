"""Sampled text of a whole engine, drafts verified in every way: do tokens come as often as they should?

`python -m optimist.testing.distribution` takes more than 100,000 tokens of each kind of engine, from
requests with different parameters in the same batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import anyio
import torch
from torch import Tensor

from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation
from optimist.testing import chain_executor as log
from optimist.testing.by_place import Rounds, tally
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.chain import (
    BOUND,
    LENGTH,
    PARAMETERS,
    VOCAB,
    probabilities,
    surprise,
)

REQUESTS = 800
SLOTS = 200
BLOCKS = -(-(LENGTH + 8) // 16)


class Kind(NamedTuple):
    """How an engine drafts, and judges drafts. drafts: of a row in each step."""

    verify: str
    proposer: str
    drafts: int

    def __str__(self) -> str:
        return f"{self.verify}, {self.proposer}, {self.drafts} drafts"


KINDS = (
    Kind("sample", "ngram", 3),
    Kind("sample", "draft-model", 1),
    Kind("sample", "draft-model", 3),
    Kind("rejection", "ngram", 3),
    Kind("rejection", "self-draft", 1),
    Kind("rejection", "draft-model", 3),
    Kind("block", "ngram", 3),
    Kind("block", "draft-model", 1),
    Kind("block", "draft-model", 3),
)


class Sampled(NamedTuple):
    """texts: [requests, LENGTH + 1], the first token given. drafted, accepted: drafts of all."""

    kind: Kind
    texts: Tensor
    rounds: Rounds
    drafted: int
    accepted: int

    def surprises(self) -> list[float]:
        """For the requests of each of PARAMETERS, what should stay below BOUND, wherever drafts were."""
        kinds = len(PARAMETERS)
        return [surprise(self.texts[i::kinds], one) for i, one in enumerate(PARAMETERS)]

    def by_place(self, families: int = len(KINDS)) -> dict[str, float]:
        """For each place in a round, how far it is off of what it may be. families: kinds looked at."""
        kinds, p = len(PARAMETERS), torch.empty(len(self.texts), LENGTH, VOCAB, dtype=torch.float64)
        for i, one in enumerate(PARAMETERS):
            p[i::kinds] = probabilities(self.texts[i::kinds], one).double()
        places = self.rounds.at(self.kind.drafts, together=self.kind.verify == "block")
        group = torch.arange(len(self.texts)) % kinds
        counted = tally(self.texts, p, list(places.values()), group)
        return dict(zip(places, counted.shares(families), strict=True))


async def sampled(kind: Kind, requests: int = REQUESTS) -> Sampled:
    """Ask for texts with each of PARAMETERS, as many side by side as there are slots."""
    texts: dict[int, tuple[int, ...]] = {}
    log.clear()
    waiting = iter(range(requests))
    async with _engine(kind) as engine:

        async def ask() -> None:
            for number in waiting:
                params = SamplingParams(
                    max_tokens=LENGTH,
                    seed=number,
                    ignore_eos=True,
                    **PARAMETERS[number % len(PARAMETERS)],
                )
                first = number % VOCAB
                answer = await engine.complete([first], params, want_text=False)
                texts[number] = (first, *answer.token_ids)

        async with anyio.create_task_group() as group:
            for _ in range(SLOTS):
                group.start_soon(ask)
        drafts = await speculation(engine, requests * LENGTH)
    rows = torch.tensor([texts[number] for number in range(requests)])
    return Sampled(kind, rows, log.rounds(requests), drafts["drafted"], drafts["accepted"])


def _engine(kind: Kind) -> Engine:
    return Engine(
        "chain",
        "inline",
        tokenizer=ByteTokenizer(VOCAB),
        executor="optimist.testing.chain_executor:ChainExecutor",
        dtype="float32",
        max_slots=SLOTS,
        kv_blocks=SLOTS * BLOCKS,
        verify=kind.verify,
        proposer=kind.proposer,
        draft_tokens=kind.drafts,
        draft_model="chain" if kind.proposer == "draft-model" else "",
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """The network is too small for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when a token came too often or too rarely."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.distribution")
    parser.add_argument(
        "--requests", type=int, default=REQUESTS, help=f"of {LENGTH} tokens (default: {REQUESTS})"
    )
    chosen, worst = parser.parse_args(arguments), 0.0
    for kind in KINDS:
        with one_thread():
            made = anyio.run(sampled, kind, chosen.requests)
        found, places = max(made.surprises()), made.by_place()
        worst = max(worst, found / BOUND, *places.values())
        print(
            f"{kind}: {chosen.requests * LENGTH} tokens, {made.accepted} of {made.drafted} drafts "
            f"right; furthest off {found:.2f} standard deviations, bound {BOUND:g}; by place, of what it "
            "may be off: " + ", ".join(f"{name} {share:.0%}" for name, share in places.items()),
            flush=True,
        )
    return int(worst >= 1)


if __name__ == "__main__":
    sys.exit(main())
