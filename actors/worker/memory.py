"""How much memory is left here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Accounts(NamedTuple):
    """Where a memory controller keeps what it says of a group. reclaimable: in its memory.stat."""

    mount: str
    limit: str
    used: str
    reclaimable: str


_OLD = _Accounts(
    *("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    *("memory.usage_in_bytes", "total_inactive_file"),
)
_NEW = _Accounts("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def available(root: Path = Path("/")) -> float:
    """Bytes that a process may still take before the system, or the group it is limited by, runs out of
    them: without swap, but with the files that would make room. Infinity where nothing says so.
    """
    return min(_free(root), *(_left(folder, kept) for folder, kept in _groups(root)), math.inf)


def _free(root: Path) -> float:
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else math.inf


def _groups(root: Path) -> Iterator[tuple[Path, _Accounts]]:
    """The folders of this process's group and of those around it, which limit it too. In a container the
    path that the system tells may be one from outside, and the mount itself is the group.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if number != "0" and "memory" not in kinds.split(","):
            continue
        kept = _NEW if number == "0" else _OLD
        mount = root / kept.mount
        folder = mount / path.lstrip("/")
        while folder != mount and mount in folder.parents:
            yield folder, kept
            folder = folder.parent
        yield mount, kept


def _left(folder: Path, kept: _Accounts) -> float:
    """Of a group's limit: infinity without one. Old kernels write a number beyond all memory."""
    limit, used = _text(folder / kept.limit).strip(), _text(folder / kept.used).strip()
    if not (limit.isdecimal() and used.isdecimal()):
        return math.inf
    stat = re.search(rf"^{kept.reclaimable} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(stat[1]) if stat else 0))


def _text(path: Path) -> str:
    """What a file says; "" where it is not there or may not be read."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
