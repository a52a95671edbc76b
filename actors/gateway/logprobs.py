"""Log probabilities, from the columns of a message to what a user reads."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.base import floats, ints
from optimist.messages.client import Alternative, TokenLogprob
from optimist.messages.results import Logprobs


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """The text of one token, special ones by name, lossy where it is not valid UTF-8."""
    return tokenizer.token_bytes(token).decode("utf-8", "replace")


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
