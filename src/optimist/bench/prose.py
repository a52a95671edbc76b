"""The prose that quality is measured on: six passages of about 18,000 letters, one from each novel of
Jane Austen (1775-1817), from the middle of the book: Emma, Mansfield Park, Northanger Abbey, Persuasion,
Pride and Prejudice, Sense and Sensibility.

The novels are in the public domain. The transcription is Project Gutenberg's, as the package
janeaustenr 1.0.0 (MIT) carries it; lines are joined to paragraphs, and marks of italics left out.
"""

from __future__ import annotations

import lzma
from pathlib import Path

FILE = Path(__file__).with_name("prose.txt.xz")


def passages() -> list[str]:
    """The passages, paragraphs separated by empty lines."""
    return lzma.decompress(FILE.read_bytes()).decode("ascii").split("\f")
