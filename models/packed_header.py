"""The first page of a file of packed weights: whose weights it holds, and what the rest must add up to."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from optimist.models.stored_file import StoredFile

ALIGNMENT = 4096
MAGIC = b"optimist packed\n"
FIELDS = struct.Struct("<16s32s32s32sQQ")
CHECKED = ALIGNMENT - hashlib.sha256().digest_size
"""bytes of the page that its last ones are the SHA-256 of"""

UNSEEN = bytes(32)
"""Of files that were changed a moment ago: they are hashed once more the next time."""
SETTLED_NS = 2_000_000_000
"""A file may change twice within one tick of the system's clock, and its times only once. Coarse ones of
file systems are 2 s long."""


class Header(NamedTuple):
    """key: of format and library. content: of the model's files. seen: of what the system said of these.
    size: of the whole file. checksum: of all behind this page.
    """

    key: bytes
    content: bytes
    seen: bytes
    size: int
    checksum: int

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """What ALIGNMENT bytes say, None where they are damaged or nothing of the kind."""
        if len(data) != ALIGNMENT or hashlib.sha256(data[:CHECKED]).digest() != data[CHECKED:]:
            return None
        magic, *fields = FIELDS.unpack_from(data)
        return cls(*fields) if magic == MAGIC else None

    def encoded(self) -> bytes:
        """ALIGNMENT bytes."""
        head = FIELDS.pack(MAGIC, *self).ljust(CHECKED, b"\0")
        return head + hashlib.sha256(head).digest()


def content(files: Sequence[StoredFile]) -> bytes:
    """SHA-256 of every byte of a model's files; 0.6 s for a gigabyte, where processors have instructions
    for it.
    """
    whole = hashlib.sha256()
    for file in files:
        whole.update(hashlib.sha256(file.data).digest())
    return whole.digest()


def seen(files: Sequence[StoredFile]) -> bytes:
    """Of what tells, without reading them, that files have not changed; UNSEEN where nothing can yet."""
    latest = max((file.seen.st_ctime_ns for file in files), default=0)
    if latest > time.time_ns() - SETTLED_NS:
        return UNSEEN
    return hashlib.sha256(repr([file.identity for file in files]).encode()).digest()
