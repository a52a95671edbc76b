"""Who drafts in a simulated engine, by name, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.actor import ProposerActor
from optimist.actors.proposer.base import Proposer
from optimist.testing.integer_model import Drafter
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.lying_proposer import LIES, Lie, LyingActor
from optimist.testing.oracle import IntegerOracle
from optimist.testing.script_proposer import SCRIPTS, ScriptProposer
from optimist.testing.wishes import Wish

DEVICE = ("device-right", "device-wrong", "device-first-1")
"""scripts that the device follows: their drafts never visit the host"""

CLASSES = ("ngram", "suffix")

HOST = (*CLASSES, *SCRIPTS, *(f"lie-{lie}" for lie in LIES))
"""`lie-` and a lie: right drafts, and an actor that distorts what it says"""

Place = Literal["", "host", "device"]


def place_of(drafts: str) -> Place:
    """Where somebody of this name drafts. Raises ValueError for a name that is not known."""
    if drafts and drafts not in (*HOST, *DEVICE):
        raise ValueError(f"drafts: expected one of {', '.join((*HOST, *DEVICE))}, got {drafts!r}")
    if not drafts:
        return ""
    return "device" if drafts in DEVICE else "host"


class Texts:
    """What the model really says behind each prompt, whatever ends a request: known as far as asked for."""

    def __init__(self, model: IntegerModel, wishes: Sequence[Wish]) -> None:
        self.model = model
        self._wishes = list(dict.fromkeys((wish.prompt_ids, wish.sampling) for wish in wishes))
        self._texts = [list(prompt) for prompt, _ in self._wishes]
        self._oracles = [IntegerOracle(model) for _ in self._wishes]

    def continuation(self, tokens: Sequence[int], count: int) -> Sequence[int]:
        """See script_proposer: of texts that begin alike, the first."""
        begun, size = list(tokens), len(tokens)
        for i, text in enumerate(self._texts):
            if len(self._wishes[i][0]) <= size and self._grown(i, size)[:size] == begun:
                return self._grown(i, size + count)[size : size + count]
            if text[:size] == begun:
                return text[size : size + count]
        return []

    def _grown(self, i: int, length: int) -> list[int]:
        """The text to this length; no further than where it stops being what is asked about."""
        (prompt, sampling), text = self._wishes[i], self._texts[i]
        while len(text) < length:
            text.append(self._oracles[i](text, len(prompt), sampling))
        return text


def proposer_actor(
    drafts: str, texts: Texts, incarnation: int, *, worker: Any, scheduler: Any
) -> ProposerActor:
    """The actor that drafts on the host under this name."""
    script = drafts if drafts in SCRIPTS else "right"
    proposer: Proposer | None = None
    if drafts not in CLASSES:
        proposer = ScriptProposer(
            SCRIPTS[script],
            texts.continuation,
            vocab_size=texts.model.vocab_size,
            end_id=texts.model.eos_id,
        )
    config = ProposerConfig(
        proposer=drafts if drafts in CLASSES else "none",
        ngram_min=1,
        ngram_max=3,
        suffix_probability=0.01,
    )
    refs = {"worker": worker, "scheduler": scheduler}
    if drafts.startswith("lie-"):
        lie = cast(Lie, drafts.removeprefix("lie-"))
        return LyingActor(config, incarnation, **refs, proposer=proposer, lie=lie)
    return ProposerActor(config, incarnation, **refs, proposer=proposer)


def device_drafter(drafts: str, texts: Texts) -> Drafter:
    """The same for a device: exactly so many drafts as it is asked for."""
    script = SCRIPTS[drafts.removeprefix("device-")]
    proposer = ScriptProposer(script, texts.continuation, vocab_size=texts.model.vocab_size)

    def draft(tokens: list[int], count: int) -> list[int]:
        proposer.open(0, 0, np.array(tokens, np.int32))
        drafted: list[int] = proposer.propose(0, 0, count).tolist()
        return drafted

    return draft
