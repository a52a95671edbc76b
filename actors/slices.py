"""How long a thread's turn on a core is. A thread that asks for short ones gets the next one soon.

Two threads compute on two cores all the time. One of an actor that wakes beside them has 0.3 ms to do before
the next step can begin, and with turns like theirs it now and then waited for one of theirs to end: a whole
step. Linux takes such wishes from 6.12 on; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

SHORT_NS = 100_000
"""the least that Linux takes"""

_SET = {"x86_64": 314, "aarch64": 274}
"""numbers of the system call sched_setattr; sched_getattr is the next one"""

_ATTR = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime, deadline, period"""


def short() -> None:
    """Ask for short turns for this thread, and for those that it starts from now on."""
    _ask(SHORT_NS)


def usual() -> None:
    """Take that back for this thread, and for those that it starts from now on."""
    _ask(0)


def turn_ns() -> int:
    """How long turns of this thread are, 0 where the system does not say so."""
    room = ctypes.create_string_buffer(_ATTR.size)
    if _call(1, room, _ATTR.size, 0):
        return 0
    return int(_ATTR.unpack(room.raw)[5])


def _ask(runtime: int) -> None:
    if sys.platform != "linux" or os.sched_getscheduler(0) != os.SCHED_OTHER:
        # Who has chosen another policy has chosen who waits for whom.
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wish = _ATTR.pack(_ATTR.size, os.SCHED_OTHER, 0, nice, 0, runtime, 0, 0)
    # A system that refuses is one without such turns.
    _call(0, ctypes.create_string_buffer(wish, _ATTR.size), 0)


def _call(offset: int, *arguments: object) -> int:
    """0 where it succeeds. arguments: those behind the thread, which is this one."""
    number = _SET.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return -1
    return int(ctypes.CDLL(None).syscall(number + offset, 0, *arguments))
