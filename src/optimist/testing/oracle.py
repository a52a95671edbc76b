"""ORACLE: a model in a plain loop, one token at a time, without cache, batch or scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from optimist.messages.requests import FinishReason
from optimist.messages.slots import Sampling
from optimist.testing.hashing import MASK, first_kv, second_kv, term
from optimist.testing.integer_rule import IntegerModel


class Answer(NamedTuple):
    """A complete continuation and why it ended."""

    token_ids: list[int]
    finish: FinishReason


class NextToken(Protocol):
    """Chooses the token behind `tokens`, of which the first `prompt_len` are the prompt."""

    def __call__(self, tokens: Sequence[int], prompt_len: int, sampling: Sampling, /) -> int: ...


def oracle(
    next_token: NextToken,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    *,
    max_tokens: int,
    stop_ids: Sequence[int] = (),
    max_model_len: int,
) -> Answer:
    """Continue a prompt as every engine must."""
    tokens, stops = list(prompt_ids), set(stop_ids)
    finish: FinishReason = "length"
    while len(tokens) - len(prompt_ids) < max_tokens and len(tokens) < max_model_len:
        tokens.append(next_token(tokens, len(prompt_ids), sampling))
        if tokens[-1] in stops:
            finish = "stop"
            break
    return Answer(tokens[len(prompt_ids) :], finish)


class IntegerOracle:
    """The integer model by its definition. It keeps its two running sums while tokens are appended."""

    def __init__(self, model: IntegerModel) -> None:
        self._model = model
        self._restart()

    def __call__(self, tokens: Sequence[int], prompt_len: int, sampling: Sampling, /) -> int:
        if list(tokens[: len(self._seen)]) != self._seen:
            self._restart()
        for token in tokens[len(self._seen) :]:
            self._append(token)
        position = len(tokens)
        return self._model.choose(self._fold, position, position - prompt_len, sampling)

    def scores(self, prompt_ids: Sequence[int], count: int) -> dict[int, tuple[float, list[int]]]:
        """By place in a prompt, the first left out: how likely a token was, and its alternatives."""
        self._restart()
        found = {}
        for at, token in enumerate(prompt_ids):
            if at:
                (_, chosen), *tops = self._model.scores(self._fold, token, count)
                found[at] = (chosen, [other for other, _ in tops])
            self._append(token)
        return found

    def _restart(self) -> None:
        self._seen: list[int] = []
        self._first = self._fold = 0

    def _append(self, token: int) -> None:
        position = len(self._seen)
        first = first_kv(token, position)
        self._first = (self._first + term(first, position)) & MASK
        self._fold = (self._fold + term(second_kv(first, self._first), position)) & MASK
        self._seen.append(token)
