"""Several networks in one process: they share the threads that compute, and take turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from native_toy import TOY, device, ints, open_slot, rows

from optimist.kernels.native.device import NativeDevice

STEPS = 150


def native_threads(wanted: int) -> int:
    """Of this process, once there are so many or a while is over: a thread that has ended is listed a moment
    longer.
    """
    until = time.monotonic() + 60
    while (found := _named()) != wanted and time.monotonic() < until:
        pass
    return found


def _named() -> int:
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found += (task / "comm").read_text() == "optimist-native\n"
    return found


def text(network: NativeDevice, prompt: list[int]) -> list[int]:
    """A greedy one."""
    open_slot(network, 0, prompt, range(16))
    plain = rows([0], [len(prompt)])._replace(samples=ints(1))
    found = [int(network.step(plain).ids[0])]
    one = rows([0], [1])._replace(samples=ints(1))
    return [*found, *(int(network.step(one).ids[0]) for _ in range(STEPS))]


def shared() -> list[int]:
    """Native threads before, with two networks, after a step of the one that is left, and after it."""
    counts = [native_threads(0)]
    first, second = device(threads=3), device(threads=3)
    counts.append(native_threads(2))
    first.close()
    assert len(text(second, [1, 2, 3])) == 1 + STEPS
    counts.append(native_threads(2))
    second.close()
    return [*counts, native_threads(0)]


def test_networks_share_their_threads_and_give_them_back() -> None:
    """In a process of its own: here, networks of other tests may be open."""
    command = [sys.executable, "-c", "import test_engines; print(test_engines.shared())"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ran = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    assert ran.stdout == "[0, 2, 2, 0]\n"


def test_networks_that_compute_at_once_say_what_each_says_alone() -> None:
    prompts = [
        [int(i) for i in np.random.default_rng(seed).integers(0, TOY.vocab_size, 50)]
        for seed in range(4)
    ]
    networks = [device(threads=threads, seed=threads) for threads in (1, 2, 2, 3)]
    alone = [text(network, prompt) for network, prompt in zip(networks, prompts, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(text, networks, prompts)) == alone
    for network in networks:
        network.close()


def test_a_network_leaves_while_another_computes() -> None:
    stays = device(threads=2)
    alone = text(stays, [5, 6, 7])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: [text(stays, [5, 6, 7]) for _ in range(6)])
        while not running.done():
            goes = device(threads=2)
            text(goes, [1, 2])
            goes.close()
        assert running.result() == [alone] * 6
    stays.close()
