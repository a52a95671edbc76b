"""Sampled text of a whole engine, drafts verified in every way: do tokens come as often as they should?

`python -m optimist.testing.distribution` takes more than 100,000 tokens of each kind of engine, from
requests with different parameters in the same batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import anyio
import torch
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Progress
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.chain import BOUND, LENGTH, OTHER, PARAMETERS, TARGET, VOCAB, surprise

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
    Kind("sample", "ngram", 1),
    Kind("sample", "draft-model", 1),
    Kind("rejection", "self-draft", 1),
    Kind("rejection", "draft-model", 3),
    Kind("rejection", "ngram", 3),
    Kind("block", "ngram", 1),
    Kind("block", "draft-model", 3),
)


class ChainExecutor(TorchExecutor):
    """Runs the small network, and drafts with another of its size."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Nothing is read."""
        return cls(TARGET, config, draft=OTHER if config.proposer == "draft-model" else None)


class Sampled(NamedTuple):
    """texts: [requests, LENGTH + 1], the first token given. drafted, accepted: drafts of all."""

    texts: Tensor
    drafted: int
    accepted: int

    def surprises(self) -> list[float]:
        """For the requests of each of PARAMETERS, what should stay below BOUND."""
        kinds = len(PARAMETERS)
        return [surprise(self.texts[i::kinds], one) for i, one in enumerate(PARAMETERS)]


async def sampled(kind: Kind, requests: int = REQUESTS) -> Sampled:
    """Ask for texts with each of PARAMETERS, as many side by side as there are slots."""
    texts: dict[int, tuple[int, ...]] = {}
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
    return Sampled(rows, drafts["drafted"], drafts["accepted"])


def _engine(kind: Kind) -> Engine:
    return Engine(
        "chain",
        "inline",
        tokenizer=ByteTokenizer(VOCAB),
        executor="optimist.testing.distribution:ChainExecutor",
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
        found = max(made.surprises())
        worst = max(worst, found)
        print(
            f"{kind}: {chosen.requests * LENGTH} tokens, {made.accepted} of {made.drafted} drafts "
            f"right; furthest off {found:.2f} standard deviations, bound {BOUND:g}",
            flush=True,
        )
    return int(worst >= BOUND)


if __name__ == "__main__":
    sys.exit(main())
