"""LateDevice: late, in order, poisoned until then and afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Limits
from optimist.testing.hand import GREEDY, Hand, Row, tokens_by_slot
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.late_device import POISON, LateDevice, LateTicket
from optimist.testing.oracle import IntegerOracle, oracle

LIMITS = Limits(
    num_blocks=16, block_size=4, max_slots=4, max_model_len=64, max_batch_tokens=64, vocab_size=97
)
PROMPT = [5, 6, 7, 8, 9]


def late(lateness: int, seed: int = 0) -> tuple[Hand, IntegerExecutor]:
    inner = IntegerExecutor(LIMITS, IntegerModel())
    return Hand(LateDevice(inner, lateness=lateness, seed=seed)), inner


@pytest.mark.parametrize("seed", range(8))
def test_late_steps_give_the_same_tokens(seed: int) -> None:
    driver, _ = late(3, seed)
    driver.open(0, PROMPT, [0, 1, 2, 3])
    tickets = [driver.submit([Row(0, 5)])]
    tickets += [driver.submit([Row(0, 1, decode=True)]) for _ in range(6)]
    tokens = [tokens_by_slot(ticket.wait())[0] for ticket in tickets]
    expected = oracle(IntegerOracle(IntegerModel()), PROMPT, GREEDY, max_tokens=7, max_model_len=64)
    assert tokens == expected.token_ids


def test_a_step_does_not_run_before_its_time_unless_it_is_waited_for() -> None:
    driver, inner = late(10**6)
    driver.open(0, PROMPT, [0, 1])
    ticket = driver.submit([Row(0, 5)])
    assert inner.computed[0] == 0
    ticket.wait()
    assert inner.computed[0] == 5


def test_buffers_are_poisoned_before_the_step_is_readable_and_after_the_next_was_read() -> None:
    driver, _ = late(10**6)
    driver.open(0, PROMPT, [0, 1])
    first, second = driver.submit([Row(0, 5)]), driver.submit([Row(0, 1, decode=True)])
    assert isinstance(first, LateTicket)
    seen = first.buffers.token_ids
    assert seen.tolist() == [POISON]
    assert np.shares_memory(first.wait().token_ids, seen)
    assert seen.tolist() != [POISON]
    second.wait()
    assert seen.tolist() == [POISON]


def test_buffers_fill_by_themselves_as_time_passes_and_not_always_in_order() -> None:
    orders = set()
    for seed in range(20):
        driver, _ = late(4, seed)
        driver.open(0, PROMPT, [0, 1])
        pair = [driver.submit([Row(0, 5)]), driver.submit([Row(0, 1, decode=True)])]
        for _ in range(10):
            driver.submit([])
            shown = [
                isinstance(ticket, LateTicket) and ticket.buffers.token_ids.tolist() != [POISON]
                for ticket in pair
            ]
            if any(shown):
                orders.add(tuple(shown))
                break
    assert (False, True) in orders
    assert (True, False) in orders


def test_a_reset_takes_its_place_in_the_queue() -> None:
    driver, inner = late(10**6)
    driver.open(0, PROMPT, [0, 1])
    before = driver.submit([Row(0, 5)])
    driver.executor.reset()
    again = Hand(driver.executor)
    again.open(0, PROMPT, [2, 3])
    after = again.submit([Row(0, 5)])
    assert tokens_by_slot(after.wait()) == tokens_by_slot(before.wait())
    assert inner.version == 1


def test_it_loads_the_integer_model_with_its_own_options_beside() -> None:
    config = WorkerConfig(executor_options={"vocab_size": 50, "lateness": 1, "late_seed": 2})
    device = LateDevice.load(config, lambda what, done, total: None)
    assert device.limits.vocab_size == 50
    device.close()
