from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.actors.gateway.detokenize import Detokenizer
from optimist.testing.byte_tokenizer import ByteTokenizer

TOY = ByteTokenizer()


def pieces(ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(TOY)
    return [*map(detokenizer.push, ids), detokenizer.finish()]


@pytest.mark.parametrize(
    "text",
    ["🦀", "한", "👩‍👩‍👧‍👦", "สวัสดี", "e\u0301", "naïve 💥 end"],
    ids=["emoji", "hangul", "family", "thai", "combining", "mixed"],
)
def test_one_byte_per_token_gives_the_text_and_no_replacement_mark(text: str) -> None:
    parts = pieces(list(text.encode()))
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_character_left_unfinished_is_one_replacement_mark(length: int) -> None:
    parts = pieces([*b"ok ", *"🦀".encode()[:length]])
    assert "".join(parts[:-1]) == "ok "
    assert parts[-1] == "\ufffd"


def test_special_tokens_are_not_shown_and_do_not_break_a_character() -> None:
    crab = list("🦀".encode())
    assert "".join(pieces([256, *crab[:2], 258, *crab[2:], 257])) == "🦀"


@given(st.lists(st.integers(0, TOY.vocab_size - 1), max_size=64))
def test_joined_pieces_of_any_ids_are_the_bytes_decoded_at_once(ids: list[int]) -> None:
    visible = b"".join(TOY.token_bytes(i) for i in ids if i not in TOY.special_ids)
    assert "".join(pieces(ids)) == visible.decode("utf-8", "replace")
