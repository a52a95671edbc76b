"""Engines in processes of their own share the cores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from native_toy import device, open_slot, rows

from optimist.kernels.native import neighbours
from optimist.kernels.native.neighbours import parts_taken, threads_of_others

LOCK = "hhqqi"
"""struct flock"""

NOBODY = 1 << 22
"""from here on no process has such a number, so that all its cores count"""

COMPUTES = """
from native_toy import device, open_slot, rows
network = device(threads=2)
open_slot(network, 0, [1] * 150, range(10))
print(network.logits(rows([0], [150])).shape, flush=True)
while True:
    network.reset()
    open_slot(network, 0, [1] * 150, range(10))
    network.logits(rows([0], [150]))
"""


@contextlib.contextmanager
def another(place: Path, threads: int, pid: int) -> Iterator[None]:
    """A process of this number computes, as far as `place` tells."""
    with locks(place, threads, [pid]):
        yield


@contextlib.contextmanager
def locks(place: Path, count: int, pids: Iterable[int]) -> Iterator[None]:
    """So many bytes are locked at the number of each process."""
    file = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for pid in pids:
            begin = pid * neighbours.BYTES
            lock = struct.pack(LOCK, fcntl.F_RDLCK, os.SEEK_SET, begin, count, 0)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def computing() -> Iterator[subprocess.Popen[str]]:
    """A process that computes on and on with two threads."""
    paths = os.pathsep.join(sys.path)
    command = (sys.executable, "-c", COMPUTES)
    environment = os.environ | {"PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def says(process: int) -> bool:
    """Whether a process says that it computes."""
    file = os.open(neighbours.PLACE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        asked = struct.pack(
            LOCK, fcntl.F_WRLCK, os.SEEK_SET, process * neighbours.BYTES, neighbours.BYTES, 0
        )
        found = struct.unpack(LOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked))
    finally:
        os.close(file)
    return bool(found[0] != fcntl.F_UNLCK)


def until(process: int, told: bool) -> None:
    """Return when a process says that it computes, or that it does not."""
    while says(process) is not told:
        time.sleep(0.0005)


def test_a_process_that_computes_says_so_until_it_dies() -> None:
    assert neighbours.tell()
    with computing() as process:
        until(process.pid, told=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not says(process.pid)


def test_a_process_does_not_count_itself(tmp_path: Path) -> None:
    assert threads_of_others(tmp_path, own=2) == 0
    with another(tmp_path, 3, NOBODY):
        assert threads_of_others(tmp_path, own=2) == 3


def test_threads_of_several_processes_are_added_in_whatever_order_they_came(tmp_path: Path) -> None:
    with contextlib.ExitStack() as all_of_them:
        for count, pid in ((2, 900), (4, 5), (1, 4_000), (8, 6)):
            all_of_them.enter_context(another(tmp_path, count, NOBODY + pid))
        assert threads_of_others(tmp_path) == 15


def test_whoever_locks_everything_counts_as_one_large_process(tmp_path: Path) -> None:
    with another(tmp_path, 0, 0):
        assert threads_of_others(tmp_path) == neighbours.BYTES


def test_of_very_many_locks_some_are_looked_at(tmp_path: Path) -> None:
    many = 5000
    with locks(tmp_path, 1, range(NOBODY + many, NOBODY, -1)):
        assert 100 < threads_of_others(tmp_path) < many


def test_a_folder_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert neighbours.tell(tmp_path)
    assert not neighbours.tell(tmp_path / "none")
    assert threads_of_others(tmp_path / "none", own=2) == 0


def test_whoever_computes_on_other_cores_takes_none_of_ours(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    found: list[float] = []

    def ask() -> None:
        os.sched_setaffinity(0, cores[:1])
        found.append(threads_of_others(tmp_path))

    sleeper = (
        "import os,sys; os.sched_setaffinity(0, {%d}); print(1, flush=True); sys.stdin.read()",
    )
    for core in (cores[0], cores[-1]):
        with subprocess.Popen(
            (sys.executable, "-c", sleeper[0] % core),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            with another(tmp_path, 1, process.pid):
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join()
            process.kill()
    assert found == [1, float(cores[0] == cores[-1])]


@pytest.mark.parametrize(
    ("threads", "others", "taken"),
    [
        (2, 0, 2),
        (2, 2, 1),
        (8, 8, 4),
        (8, 1, 7),
        (8, 16, 2),
        (8, 2.5, 6),
        (2, 1024, 1),
        (512, 512, 256),
    ],
)
def test_cores_are_shared_by_threads_that_want_one(threads: int, others: float, taken: int) -> None:
    assert parts_taken(threads, [others], [0.0]) == [taken]


def test_a_neighbour_between_two_steps_is_still_there() -> None:
    others, at = (0, 2, 0, 0, 0, 2, 0), (1, 1.01, 1.02, 1.029, 1.031, 2, 2.001)
    assert parts_taken(2, others, at) == [2, 1, 1, 1, 2, 1, 1]


def test_beside_another_process_an_engine_takes_its_part_and_says_the_same() -> None:
    found = []
    for shares in (False, True):
        with contextlib.closing(device(threads=2, shares=shares)) as network:
            open_slot(network, 0, [token % 101 for token in range(150)], range(10))
            with another(neighbours.PLACE, 2, NOBODY):
                found.append(network.logits(rows([0], [100])))
                assert network.computing == (1 if shares else 2)
            found.append(network.logits(rows([0], [50])))
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[3])


def test_of_three_threads_two_compute_beside_a_small_neighbour() -> None:
    found = []
    for shares in (False, True):
        with contextlib.closing(device(threads=3, shares=shares)) as network:
            open_slot(network, 0, [token % 101 for token in range(150)], range(10))
            with another(neighbours.PLACE, 1, NOBODY):
                found.append(network.logits(rows([0], [150])))
                assert network.computing <= (2 if shares else 3)
    assert np.array_equal(found[0], found[1])
