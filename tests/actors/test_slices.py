"""Turns of threads: what one asks for, those that it starts have too."""

from __future__ import annotations

import threading
from collections.abc import Callable

from optimist.actors.slices import SHORT_NS, short, turn_ns, usual


def _in_a_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_short_turns_are_inherited_and_can_be_given_back() -> None:
    at_first, turns = turn_ns(), list[int]()

    def ask() -> None:
        short()
        turns.append(turn_ns())
        _in_a_thread(lambda: turns.append(turn_ns()))
        usual()
        turns.append(turn_ns())

    _in_a_thread(ask)
    asked, inherited, given_back = turns
    # A system that knows no such wish leaves everything as it was.
    assert asked in (SHORT_NS, at_first)
    assert inherited == asked
    assert given_back == at_first == turn_ns()
