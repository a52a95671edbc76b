"""What the gateway asks of a tokenizer. The models room has one; a toy does as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Tokenizer(Protocol):
    """Text to token ids and token ids to bytes.

    The text of ids is, by definition, the UTF-8 decoding of their joined bytes with the special ones
    left out. Called from one thread at a time for bytes, from several for encoding.
    """

    @property
    def vocab_size(self) -> int:
        """How many ids the model knows; they are 0 to vocab_size - 1."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids that end a continuation, in the model's own opinion."""
        ...

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that are never shown in text: control tokens, padding, ends."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, with whatever the model wants in front. Special tokens are parsed."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The ids of a conversation by the model's chat template, ready for the assistant's turn.

        messages: each with `role` and `content`. Raises ValueError with the reason when the model
        has no template or the template refuses the conversation.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; of a special one, its name. b"" for an id without any."""
        ...
