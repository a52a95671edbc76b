"""What a consumer gets: chunks while a request runs, a completion when it is read to its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from optimist.messages.client import PromptToken, TokenLogprob, Usage
from optimist.messages.requests import FinishReason

T = TypeVar("T")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a continuation ended.

    stop: the stop string, or the id out of stop_token_ids, that ended it; None for the model's own
    end token. seed: with n = 1 it draws the same continuation again.
    """

    finish_reason: FinishReason
    stop: str | int | None = None
    usage: Usage
    seed: int


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """More of one continuation.

    choice: which of the n continuations. index: number of the first token in token_ids, from 0.
    text: what can be shown now; it may lag behind token_ids by an unfinished character or by what
    could still become a stop string. The ids that spell a stop are in token_ids, but not in text.
    logprobs: one entry a token, where they were asked for.
    prompt_logprobs: the next tokens of the prompt, where they were asked for; before the first of token_ids.
    end: on the last chunk of its continuation, whose token_ids may be empty.
    """

    choice: int = 0
    index: int
    token_ids: tuple[int, ...] = ()
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] | None = None
    prompt_logprobs: tuple[PromptToken, ...] | None = None
    end: Ending | None = None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the continuation ended; None while it goes on."""
        return self.end.finish_reason if self.end else None

    @property
    def usage(self) -> Usage | None:
        """Tokens of the whole continuation; None while it goes on."""
        return self.end.usage if self.end else None

    @property
    def seed(self) -> int | None:
        """The seed that drew it; None while it goes on."""
        return self.end.seed if self.end else None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One whole continuation: see Chunk and Ending."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None
    prompt_logprobs: tuple[PromptToken, ...] | None = None
    end: Ending


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """All continuations of a request. usage: the prompt counted once, the continuations summed.

    text, token_ids, ... are those of the first continuation.
    """

    choices: tuple[Choice, ...]
    usage: Usage

    @property
    def text(self) -> str:
        """Text of the first continuation."""
        return self.choices[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Token ids of the first continuation, the stop token included."""
        return self.choices[0].token_ids

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """Log probabilities of the first continuation, one entry a token."""
        return self.choices[0].logprobs

    @property
    def prompt_logprobs(self) -> tuple[PromptToken, ...] | None:
        """How likely the prompt's tokens were, one entry each; the first has none."""
        return self.choices[0].prompt_logprobs

    @property
    def finish_reason(self) -> FinishReason:
        """Why the first continuation ended."""
        return self.choices[0].end.finish_reason

    @property
    def stop(self) -> str | int | None:
        """What stopped the first continuation."""
        return self.choices[0].end.stop

    @property
    def seed(self) -> int:
        """Seed of the request, which is that of the first continuation."""
        return self.choices[0].end.seed


def complete(chunks: Iterable[Chunk]) -> Completion:
    """Join every chunk of a request. Raises ValueError when a continuation has no last chunk."""
    by_choice: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        by_choice.setdefault(chunk.choice, []).append(chunk)
    choices = tuple(_join(by_choice[choice]) for choice in sorted(by_choice))
    if not choices:
        raise ValueError("complete: expected at least one chunk, got none")
    return Completion(choices=choices, usage=total_usage([one.end.usage for one in choices]))


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Usage of a request from that of its continuations, in order: its prompt counts once."""
    return Usage(
        prompt_tokens=usages[0].prompt_tokens,
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        cached_tokens=usages[0].cached_tokens,
    )


def joined(parts: Iterable[tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """All entries of what is there, in order; None when nothing is."""
    there = [part for part in parts if part is not None]
    return tuple(entry for part in there for entry in part) if there else None


def _join(parts: list[Chunk]) -> Choice:
    end = parts[-1].end
    if end is None:
        raise ValueError(f"complete: continuation {parts[-1].choice} has no last chunk")
    return Choice(
        text="".join(part.text for part in parts),
        token_ids=tuple(token for part in parts for token in part.token_ids),
        logprobs=joined(part.logprobs for part in parts),
        prompt_logprobs=joined(part.prompt_logprobs for part in parts),
        end=end,
    )
