"""Who waits for a step to be under way hears of it once, whatever becomes of the step."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from native_toy import TOY, device, executor, ints, open_slot, rows

from optimist.kernels.native.device import NativeDevice, NativeError

PROMPT = [3, 1, 4]


@pytest.fixture
def bell() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    yield fd
    os.close(fd)


@pytest.fixture(params=[1, 2])
def network(request: pytest.FixtureRequest) -> Iterator[NativeDevice]:
    found = device(threads=request.param)
    open_slot(found, 0, PROMPT, range(2))
    yield found
    found.close()


def silent(bell: int) -> bool:
    try:
        os.eventfd_read(bell)
    except BlockingIOError:
        return True
    return False


def test_a_step_that_was_announced_says_so_once(network: NativeDevice, bell: int) -> None:
    network.announce(bell)
    assert silent(bell)
    network.step(rows([0], [len(PROMPT) - 1]))
    assert os.eventfd_read(bell) == 1
    network.step(rows([0], [1]))
    assert silent(bell)


def test_a_step_of_no_rows_says_so(network: NativeDevice, bell: int) -> None:
    network.announce(bell)
    network.step(rows([], []))
    assert os.eventfd_read(bell) == 1


def test_a_step_that_is_refused_says_so(network: NativeDevice, bell: int) -> None:
    network.announce(bell)
    with pytest.raises(NativeError, match="expected a query that ends at token 3"):
        network.step(rows([0], [4]))
    assert os.eventfd_read(bell) == 1


def test_drafting_says_so_in_place_of_the_step_behind_it(network: NativeDevice, bell: int) -> None:
    network.step(rows([0], [len(PROMPT) - 1]))
    network.announce(bell)
    network.draft(ints(0), ints(2), TOY.num_layers)
    assert os.eventfd_read(bell) == 1
    network.step(rows([0], [1])._replace(drafts=ints(2), queries=ints(3), samples=ints(1)))
    assert silent(bell)


def test_the_executor_promises_what_its_library_does(bell: int) -> None:
    worker = executor()
    assert worker.announce(bell)
    worker.close()
    assert silent(bell)
