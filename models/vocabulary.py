"""What a tokenizer file says, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tokenizers import Tokenizer as Core

Spelling = Literal["byte_level", "sentence_piece"]
"""how token names stand for bytes: a character per byte, or UTF-8 with a mark for the space"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """A tokenizer's parts.

    core: encodes text; control tokens spelled in the text become those tokens.
    vocab_size: ids the model knows, 0 to vocab_size - 1; some may have no token.
    control_ids: tokens that are no text: begin, end, roles, padding, unused ones.
    literal_ids: tokens whose name is their text, control tokens among them.
    space_prefix: encoding puts a space before a text, decoding takes one away.
    chat_template: in Jinja, if there is one. variables: what the template may name, as bos_token.
    """

    core: Core
    spelling: Spelling
    vocab_size: int
    eos_ids: tuple[int, ...]
    control_ids: frozenset[int]
    literal_ids: frozenset[int]
    space_prefix: bool = False
    chat_template: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
