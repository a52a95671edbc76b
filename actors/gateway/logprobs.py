"""Log probabilities, from the columns of a message to what a user reads."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.actors.gateway.journal import Entry
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.base import floats, ints
from optimist.messages.client import Alternative, PromptToken, TokenLogprob
from optimist.messages.results import Logprobs


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """The text of one token, special ones by name, lossy where it is not valid UTF-8."""
    return tokenizer.token_bytes(token).decode("utf-8", "replace")


def first_token(tokenizer: Tokenizer, entry: Entry) -> PromptToken:
    """The first token of a prompt: nothing is before it, so it has no probability."""
    token = entry.prompt_ids[0]
    return PromptToken(id=token, token=token_name(tokenizer, token), logprob=None)


def read_scores(
    tokenizer: Tokenizer, token_ids: Sequence[int], columns: Logprobs
) -> list[PromptToken]:
    """Of tokens of a prompt, all of which the columns mention."""
    read = read_logprobs(tokenizer, token_ids, columns)
    return [
        PromptToken(id=one.id, token=one.token, logprob=one.logprob, top=one.top)
        for one in (read[at] for at in range(len(token_ids)))
    ]


def read_logprobs(
    tokenizer: Tokenizer, token_ids: Sequence[int], columns: Logprobs | None
) -> dict[int, TokenLogprob]:
    """By index into token_ids, for the tokens that the columns mention."""
    if columns is None:
        return {}
    ids, values = ints(columns.top_ids).tolist(), floats(columns.top_values).tolist()
    read: dict[int, TokenLogprob] = {}
    start = 0
    for at, chosen, count in zip(
        ints(columns.tokens).tolist(),
        floats(columns.chosen).tolist(),
        ints(columns.counts).tolist(),
        strict=True,
    ):
        top = tuple(
            Alternative(id=token, token=token_name(tokenizer, token), logprob=value)
            for token, value in zip(
                ids[start : start + count], values[start : start + count], strict=True
            )
        )
        start += count
        token = token_ids[at]
        read[at] = TokenLogprob(
            id=token, token=token_name(tokenizer, token), logprob=chosen, top=top
        )
    return read
