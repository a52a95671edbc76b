"""File descriptors: a listener needs one for each connection, and must never find none left."""

from __future__ import annotations

import resource

WANTED = 65_536


def allow_open_files(wanted: int = WANTED) -> int:
    """Raise this process's soft limit of open files towards `wanted`, and return what it is now.

    For a process of our own that serves connections, at its start. ZeroMQ refuses a tcp connection
    when there is no descriptor left, but ends the whole process when that happens to an ipc one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
