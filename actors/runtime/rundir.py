"""The private directory in which the actors of one engine meet, and the removal of dead ones.

A running engine holds a lock on a file in its directory. The kernel lets go of it when the process
ends, however it ends: whoever can take the lock has the proof that the engine is dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from optimist.actors.runtime.placement import STARTING_ORDER
from optimist.messages.errors import ConfigError
from optimist.transport.endpoints import MAX_PATH

PREFIX = "optimist-"
_LOCK = "lock"
_NAME_BYTES = len(PREFIX) + 8
_LONGEST = max(len(f"/{name}.sock") for name in STARTING_ORDER)


@contextmanager
def run_directory() -> Iterator[Path]:
    """A new directory, mode 0700, for this engine; removed on leaving.

    In XDG_RUNTIME_DIR where there is one, else among the temporary files, else in /tmp: the first
    whose path is short enough for a Unix socket. Directories of dead engines found beside it are
    removed first. Raises ConfigError when no place will do.
    """
    roots = _roots()
    for root in roots:
        clear_dead(root)
    path, lock = _first_locked(roots)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def clear_dead(root: Path) -> None:
    """Remove the directories of one's own dead engines in `root`. What is not proven dead stays."""
    with suppress(OSError):
        for path in sorted(root.glob(f"{PREFIX}*")):
            with suppress(OSError):
                _clear_if_dead(path)


def _clear_if_dead(path: Path) -> None:
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
        return
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _roots() -> tuple[Path, ...]:
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    places = ([given] if os.path.isabs(given) else []) + [tempfile.gettempdir(), "/tmp"]
    return tuple(dict.fromkeys(Path(place) for place in places))


def _first_locked(roots: tuple[Path, ...]) -> tuple[Path, int]:
    """A locked directory in the first of these places in which one can be made."""
    tried = []
    for root in roots:
        if len(os.fsencode(root)) + 1 + _NAME_BYTES + _LONGEST > MAX_PATH:
            tried.append(f"{root} (too long)")
            continue
        try:
            return _locked(root)
        except OSError as error:
            tried.append(f"{root} ({(error.strerror or type(error).__name__).lower()})")
    raise ConfigError(
        "run directory: expected a writable directory with a path of at most "
        f"{MAX_PATH - 1 - _NAME_BYTES - _LONGEST} bytes, tried {', '.join(tried)}"
    )


def _locked(root: Path) -> tuple[Path, int]:
    """Make the directory and lock it. Another engine's clearing may come between: then once more."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (path / _LOCK).stat().st_ino == os.fstat(lock).st_ino:
                return path, lock
        os.close(lock)
