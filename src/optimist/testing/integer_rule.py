"""A language model of integers: any wrong slot, stale block or wrong length changes its tokens.

Two layers of KV. The first holds (token, position); the second holds that and a fold over the first
layer up to there, so that it depends on the whole prefix as a real model's does. The next token is a
fold over the second layer. There is no rounding: equal means equal.
"""

from __future__ import annotations

from typing import NamedTuple

from optimist.messages.base import ints
from optimist.messages.errors import ConfigError
from optimist.messages.slots import Sampling
from optimist.testing.hashing import AGAIN, END, FIRST, NEXT, SEEDED, mixed


class IntegerModel(NamedTuple):
    """What makes one integer model differ from another.

    eos_id: the token that ends a text. eos_share: how often it is chosen, in [0, 1).
    words: how many different tokens it says beside that one, the first of the vocabulary; None is all of
    them. With few, its texts repeat themselves, and who drafts from the past is right now and then.
    """

    vocab_size: int = 97
    eos_id: int = 0
    eos_share: float = 0.0
    words: int | None = None

    def checked(self) -> IntegerModel:
        """Itself. Raises ConfigError when a value is out of range."""
        if self.vocab_size < 2:
            raise ConfigError(f"vocab_size: expected at least 2, got {self.vocab_size}")
        if not 0 <= self.eos_id < self.vocab_size:
            raise ConfigError(f"eos_id: expected below {self.vocab_size}, got {self.eos_id}")
        if not 0 <= self.eos_share < 1:
            raise ConfigError(f"eos_share: expected in [0, 1), got {self.eos_share}")
        if self.words is not None and not 1 <= self.words <= self.vocab_size:
            raise ConfigError(f"words: expected 1 to {self.vocab_size}, got {self.words}")
        return self

    def choose(self, fold: int, position: int, emitted: int, sampling: Sampling) -> int:
        """The token at `position`, given the fold over all before it; `emitted` of them are output.

        Of `sampling` it honours temperature (0 or not), seed, min_tokens with stop_ids and, in a way
        of its own, the penalties: they depend on where the output begins.
        """
        value = mixed(fold + position * NEXT)
        if sampling.temperature > 0:
            value = mixed(value ^ mixed(sampling.seed * SEEDED + position))
        if _penalised(sampling):
            value = mixed(value + emitted)
        banned = set(ints(sampling.stop_ids).tolist()) if emitted < sampling.min_tokens else set()
        if banned.issuperset(range(self._words)):
            return self._token(value)
        while (token := self._token(value)) in banned:
            value = mixed(value + AGAIN)
        return token

    def logprobs(self, token: int, position: int, count: int) -> list[tuple[int, float]]:
        """Made-up log probabilities: of the chosen token, then of `count` alternatives, best first."""
        top = -float(mixed(token * FIRST ^ position) % 4096) / 4096
        return [((token + i) % self.vocab_size, top - i) for i in range(count + 1)]

    def scores(self, fold: int, token: int, count: int) -> list[tuple[int, float]]:
        """The same for a token of the prompt; `fold` over all before it decides, as over real ones."""
        return self.logprobs(token, mixed(fold), count)

    def _token(self, value: int) -> int:
        if mixed(value ^ END) < self.eos_share * 2**64:
            return self.eos_id
        return value % self._words

    @property
    def _words(self) -> int:
        return self.vocab_size if self.words is None else self.words


def _penalised(sampling: Sampling) -> bool:
    return (
        sampling.presence_penalty != 0
        or sampling.frequency_penalty != 0
        or sampling.repetition_penalty != 1
    )
