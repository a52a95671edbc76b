"""Threads that share their work, and one of them that the system has taken off its core."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from native_toy import device, open_slot, rows

from optimist.kernels.native.device import NativeError
from optimist.kernels.native.library import MOST_THREADS
from optimist.kernels.native.operators import parts_done
from optimist.kernels.native.probe import operations, read_passes
from optimist.kernels.native.shapes import Format
from optimist.messages.errors import ConfigError


@pytest.mark.parametrize(
    ("threads", "parts"), [(2, 2), (2, 9), (3, 64), (4, 1023), (MOST_THREADS, 1023)]
)
def test_a_thread_that_is_held_up_is_not_waited_for(threads: int, parts: int) -> None:
    phases = 50 if threads < MOST_THREADS else 2
    counts = parts_done(threads, phases, parts)
    assert np.array_equal(counts, np.ones((phases, parts), np.int32))


def test_as_many_threads_as_there_may_be_say_what_one_says() -> None:
    found = []
    for threads in (1, MOST_THREADS):
        with contextlib.closing(device(threads=threads)) as network:
            open_slot(network, 0, [token % 101 for token in range(150)], range(10))
            found.append(network.logits(rows([0], [150])))
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("threads", [0, MOST_THREADS + 1])
def test_other_numbers_of_threads_are_refused(threads: int) -> None:
    with pytest.raises(NativeError, match=rf"expected 1 to {MOST_THREADS}, got {threads}"):
        device(threads=threads)
    with pytest.raises(ConfigError, match=f"{threads} threads, got fewer"):
        operations(Format.INT8, threads, 1)


def test_what_a_machine_does_is_measured_on_as_many_threads_as_there_may_be() -> None:
    assert operations(Format.INT8, MOST_THREADS, 1) > 0
    assert all(each.seconds > 0 for each in read_passes(1 << 22, MOST_THREADS, 2))
