"""Whether two models mean the same by a token id."""

from __future__ import annotations

from pathlib import Path

from optimist.models.tokenizer import load_tokenizer


def first_difference(one: str | Path, other: str | Path) -> tuple[int, bytes, bytes] | None:
    """The first id for which two models have different tokens, and what it stands for in each.

    None when they agree on every id that both have. Reads tokenizer files only; a file that is both
    is not read. Raises ModelError where there is no tokenizer.
    """
    if Path(one).resolve() == Path(other).resolve():
        return None
    first, second = load_tokenizer(one), load_tokenizer(other)
    for token in range(min(first.vocab_size, second.vocab_size)):
        here, there = first.token_bytes(token), second.token_bytes(token)
        if here != there or first.is_special(token) != second.is_special(token):
            return token, here, there
    return None
