"""SCRIPT: a proposer that drafts what a test dictates, since the right answers are known to it.

    texts = [[*prompt, *answer], ...]            from ORACLE
    script = SCRIPTS["first-2"]                  two right drafts, then wrong ones
    ScriptProposer(script, known(texts), vocab_size=97)

Wrong slots, steps or epochs, silence and lateness are lies of an actor: see lying_proposer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import NO_DRAFTS, Ids, Proposer
from optimist.messages.errors import ConfigError

Continuation = Callable[[Sequence[int], int], Sequence[int]]
"""What really comes behind these tokens, at most so many; shorter where nothing more is known."""


class Script(NamedTuple):
    """right: drafts that are right before the first wrong one, None is all of them.

    end_at: place of a drafted end token, which most likely is wrong there; None is nowhere.
    more: drafts beyond those that are asked for, which is a fault. silent: no drafts at all.
    """

    right: int | None = None
    end_at: int | None = None
    more: int = 0
    silent: bool = False


SCRIPTS: dict[str, Script] = {
    "right": Script(),
    "wrong": Script(right=0),
    "first-1": Script(right=1),
    "first-2": Script(right=2),
    "end-0": Script(end_at=0),
    "end-1": Script(end_at=1),
    "too-many": Script(more=3),
    "none": Script(silent=True),
}
"""by name, as MATRIX names them"""


def known(texts: Sequence[Sequence[int]]) -> Continuation:
    """Continues whatever is a beginning of one of these texts, each a prompt and its answer.

    Where two texts begin alike, the first is taken: for the other one, drafts are wrong.
    """
    everything = [list(text) for text in texts]

    def continuation(tokens: Sequence[int], count: int) -> Sequence[int]:
        size, begun = len(tokens), list(tokens)
        for text in everything:
            if len(text) > size and text[:size] == begun:
                return text[size : size + count]
        return []

    return continuation


class ScriptProposer(Proposer):
    """Drafts what the script says. vocab_size, end_id: of the model.

    At the end of what is known it goes on with wrong drafts, so that there always are as many as asked.
    """

    def __init__(
        self, script: Script, continuation: Continuation, *, vocab_size: int, end_id: int = 0
    ) -> None:
        super().__init__(ProposerConfig())
        self._script = script
        self._continuation = continuation
        self._vocab_size = vocab_size
        self._end_id = end_id
        self._texts: dict[int, list[int]] = {}

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._texts[slot] = token_ids.tolist()

    def close(self, slot: int, generation: int) -> None:
        del self._texts[slot]

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._texts[slot] += token_ids.tolist()

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        script = self._script
        if script.silent:
            return NO_DRAFTS
        count = max_drafts + script.more
        drafts = list(self._continuation(self._texts[slot], count))
        drafts += [0] * (count - len(drafts))
        right = count if script.right is None else script.right
        drafts[right:] = [(token + 1) % self._vocab_size for token in drafts[right:]]
        if script.end_at is not None and script.end_at < count:
            drafts[script.end_at] = self._end_id
        return np.array(drafts, np.int32)


class FileScript(ScriptProposer):
    """The same for an engine of several processes, as `optimist.testing.script_proposer:FileScript`.

    Its `proposer_options` are `script`, a name in SCRIPTS; `texts`, the path of a JSON file with the
    texts; vocab_size and end_id. Raises ConfigError for a wrong one.
    """

    def __init__(self, config: ProposerConfig) -> None:
        options = dict(config.proposer_options)
        script, path = str(options.pop("script", "right")), str(options.pop("texts", ""))
        vocab_size, end_id = options.pop("vocab_size", 0), options.pop("end_id", 0)
        if options:
            raise ConfigError(f"proposer_options: FileScript has no {sorted(options)}")
        if script not in SCRIPTS:
            raise ConfigError(f"proposer_options.script: expected one of {', '.join(SCRIPTS)}")
        try:
            with open(path, "rb") as file:
                texts = msgspec.json.decode(file.read(), type=list[list[int]])
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"proposer_options.texts: {error}") from error
        super().__init__(
            SCRIPTS[script], known(texts), vocab_size=int(vocab_size), end_id=int(end_id)
        )
