"""Greedy text of a whole engine beside what another implementation says, in every placement.

`python -m optimist.testing.golden FILE --proposer all` runs each proposer in each placement at each
depth. FILE is JSON: `cases`, each with `prompt_ids`, `greedy_ids`, and `top2_margins`, the margin
between the two likeliest logits at each place. A case counts up to the first margin that rounding may
decide. With OPTIMIST_SYNC_CHECK=error a host read inside a step ends the run as well.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple, get_args

import anyio

from optimist.actors.config import Placement
from optimist.actors.proposer.kinds import NAMES
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.models.default import default_model
from optimist.speculation import speculation

DOUBT = 0.02
"""margin under which rounding in float32 may decide"""

DEPTHS = (1, 2)


class Case(NamedTuple):
    """A prompt, and what follows it without doubt."""

    prompt: list[int]
    tokens: list[int]


class Run(NamedTuple):
    """One engine. draft_model: path, for the proposer that needs one."""

    placement: Placement
    depth: int
    proposer: str
    draft_model: str

    def options(self) -> dict[str, Any]:
        """As Engine takes them."""
        made: dict[str, Any] = {"placement": self.placement, "depth": self.depth}
        if self.proposer != "none":
            made |= {"proposer": self.proposer, "draft_tokens": 3}
        if self.proposer == "draft-model":
            made["draft_model"] = self.draft_model
        return made


def cases(path: Path, doubt: float = DOUBT) -> list[Case]:
    """What the file says, up to the first doubt in each case."""
    found: list[Case] = []
    for one in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        found.append(sure(one["prompt_ids"], one["greedy_ids"], one["top2_margins"], doubt))
    return found


def sure(prompt: list[int], tokens: list[int], margins: list[float], doubt: float) -> Case:
    """The case up to the first margin that leaves doubt."""
    count = next((i for i, margin in enumerate(margins) if margin < doubt), len(margins))
    return Case(prompt, tokens[:count])


async def differences(run: Run, asked: list[Case], **options: Any) -> tuple[list[str], str]:
    """Ask all cases at once. Returns what differs, and a line about the run.

    options: of an Engine, beside those of the run.
    """
    said: dict[int, list[int]] = {}
    async with Engine(**run.options(), **options) as engine:

        async def ask(number: int, case: Case) -> None:
            params = SamplingParams(max_tokens=len(case.tokens), temperature=0)
            said[number] = list((await engine.complete(case.prompt, params)).token_ids)

        wanted = {number: case for number, case in enumerate(asked) if case.tokens}
        async with anyio.create_task_group() as group:
            for number, case in wanted.items():
                group.start_soon(ask, number, case)
        drafts = await speculation(engine, sum(len(tokens) for tokens in said.values()))
    wrong = [
        f"case {number}: expected {case.tokens}, got {said[number]}"
        for number, case in wanted.items()
        if said[number] != case.tokens
    ]
    tokens = sum(len(case.tokens) for case in asked)
    about = (
        f"{run.placement}, depth {run.depth}, {run.proposer}: {len(asked)} cases, {tokens} tokens, "
        f"{len(wrong)} differ; {drafts['accepted']} of {drafts['drafted']} drafts right"
    )
    return wrong, about


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when anything differed."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.golden")
    parser.add_argument("file", type=Path, help="the cases, as JSON")
    parser.add_argument("--model", default="", help="path (default: the installed default model)")
    parser.add_argument("--dtype", default="float32", help="default: float32")
    parser.add_argument("--placement", choices=(*get_args(Placement), "all"), default="all")
    parser.add_argument("--depth", choices=("1", "2", "all"), default="all")
    parser.add_argument("--proposer", choices=(*NAMES, "all"), default="none")
    parser.add_argument("--draft-model", default="", help="path (default: the model itself)")
    parser.add_argument(
        "--threads", type=int, help="that compute (default: one for each processor)"
    )
    chosen = parser.parse_args(arguments)
    model = chosen.model or str(default_model())
    placements = get_args(Placement) if chosen.placement == "all" else (chosen.placement,)
    depths = DEPTHS if chosen.depth == "all" else (int(chosen.depth),)
    proposers = NAMES if chosen.proposer == "all" else (chosen.proposer,)
    asked, failed = cases(chosen.file), 0
    common = {"model": model, "dtype": chosen.dtype, "threads": chosen.threads}
    one = functools.partial(differences, asked=asked, **common)
    for placement, depth, proposer in itertools.product(placements, depths, proposers):
        run = Run(placement, depth, proposer, chosen.draft_model or model)
        wrong, about = anyio.run(one, run)
        failed += len(wrong)
        print(about, *wrong, sep="\n  ", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
