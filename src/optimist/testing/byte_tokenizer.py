"""A tokenizer whose tokens are the 256 bytes, and a few special ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BOS, EOS, TURN = 256, 257, 258
_NAMES = {BOS: b"<bos>", EOS: b"<eos>", TURN: b"<turn>"}
_SPECIAL = re.compile(b"(" + b"|".join(map(re.escape, _NAMES.values())) + b")")


class ByteTokenizer:
    """Id i below 256 is byte i; then `<bos>`, `<eos>`, `<turn>` and, up to vocab_size, ids without bytes."""

    def __init__(self, vocab_size: int = 272) -> None:
        self._vocab_size = vocab_size
        self._names = dict(_NAMES)

    @property
    def vocab_size(self) -> int:
        """Ids are 0 to vocab_size - 1."""
        return self._vocab_size

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """`<eos>`."""
        return (EOS,)

    @property
    def special_ids(self) -> frozenset[int]:
        """`<bos>`, `<eos>` and `<turn>`."""
        return frozenset(self._names)

    def encode(self, text: str) -> list[int]:
        """The bytes of the text; the names of special tokens become those tokens."""
        by_name = {name: token for token, name in self._names.items()}
        ids: list[int] = []
        for part in _SPECIAL.split(text.encode()):
            ids.extend([by_name[part]] if part in by_name else part)
        return ids

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """`role: content<turn>` for each message, then `assistant: `. Knows three roles."""
        ids: list[int] = []
        for message in messages:
            if message["role"] not in ("system", "user", "assistant"):
                raise ValueError(f"expected system, user or assistant, got {message['role']!r}")
            ids += [*f"{message['role']}: {message['content']}".encode(), TURN]
        return [*ids, *b"assistant: "]

    def token_bytes(self, token: int) -> bytes:
        """One byte, a special token's name, or nothing."""
        return bytes([token]) if token < 256 else self._names.get(token, b"")
