"""From the name of a token to the bytes it stands for."""

from __future__ import annotations

import re

SPACE_MARK = "\u2581"
_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """Printable Latin-1 characters stand for themselves, other bytes for U+0100 and what follows."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


BYTE_ALPHABET = _byte_alphabet()
"""the character that stands for each byte in byte-level names"""


def byte_level_bytes(name: str) -> bytes:
    """The bytes of a byte-level name. Characters outside the alphabet stand for their UTF-8."""
    try:
        return bytes([BYTE_ALPHABET[character] for character in name])
    except KeyError:
        return b"".join(
            bytes([BYTE_ALPHABET[character]]) if character in BYTE_ALPHABET else character.encode()
            for character in name
        )


def sentence_piece_bytes(name: str) -> bytes:
    """The bytes of a SentencePiece name: `<0xNN>` is a byte, the mark U+2581 a space."""
    if (byte := _BYTE_NAME.fullmatch(name)) is not None:
        return bytes([int(byte[1], 16)])
    return name.replace(SPACE_MARK, " ").encode()
