"""Several networks in one process: they share the threads that compute, and take turns."""

from __future__ import annotations

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
    until = time.monotonic() + 10
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


def test_networks_share_their_threads_and_give_them_back() -> None:
    assert native_threads(0) == 0
    first, second = device(threads=3), device(threads=3)
    assert native_threads(2) == 2
    first.close()
    assert native_threads(2) == 2
    assert len(text(second, [1, 2, 3])) == 1 + STEPS
    second.close()
    assert native_threads(0) == 0


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
