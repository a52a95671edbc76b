"""Token ids to text, piece by piece, without ever showing half a character."""

from __future__ import annotations

import codecs

from optimist.actors.gateway.tokenizer import Tokenizer

_utf8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Joined, what it returns is the joined bytes of all visible tokens, decoded at once.

    Bytes that may still become a character wait for the next token. Bytes that cannot, and a
    character left unfinished at the end, each become U+FFFD, as `bytes.decode("utf-8", "replace")`
    has it. Special tokens have no text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bytes = tokenizer.token_bytes
        self._hidden = tokenizer.special_ids
        self._decoder = _utf8("replace")

    def push(self, token: int) -> str:
        """The text that this token completes; "" while a character is unfinished."""
        if token in self._hidden:
            return ""
        return self._decoder.decode(self._bytes(token))

    def finish(self) -> str:
        """What is left at the end: U+FFFD when a character is unfinished, else ""."""
        return self._decoder.decode(b"", final=True)
