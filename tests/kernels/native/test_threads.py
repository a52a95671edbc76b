"""Threads that share their work, and one of them that the system has taken off its core."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.kernels.native.operators import parts_done


@pytest.mark.parametrize(("threads", "parts"), [(2, 2), (2, 9), (3, 64), (4, 1023)])
def test_a_thread_that_is_held_up_is_not_waited_for(threads: int, parts: int) -> None:
    counts = parts_done(threads, 50, parts)
    assert np.array_equal(counts, np.ones((50, parts), np.int32))
