"""A model's file as it was opened: its bytes, and what the system said of it then."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple


class StoredFile(NamedTuple):
    """A mapped file. seen: what the system said of it before the first byte was read. data: all bytes."""

    path: Path
    seen: os.stat_result
    data: mmap.mmap

    @classmethod
    def of(cls, path: Path, file: BinaryIO) -> StoredFile:
        """Map a file that is open for reading. Raises OSError, and ValueError for an empty one."""
        seen = os.fstat(file.fileno())
        return cls(path, seen, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @property
    def identity(self) -> tuple[int, ...]:
        """Another one whenever the file is another, or has been written to: only root sets a ctime."""
        return identity(self.seen)

    @property
    def unchanged(self) -> bool:
        """Whether its path still leads to the bytes that were mapped."""
        try:
            return identity(self.path.stat()) == self.identity
        except OSError:
            return False


def identity(seen: os.stat_result) -> tuple[int, ...]:
    """What the system says that changes with a file's content."""
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
