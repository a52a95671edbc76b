"""Failure cases seen in the field, replayed on our actors with a gate between worker and scheduler."""

from __future__ import annotations

import msgspec
import pytest

from optimist.messages.plans import ExactPlan
from optimist.messages.requests import Grant
from optimist.messages.results import StepResult
from optimist.testing.inspector import Inspector
from optimist.testing.plan_rules import PlanRules
from optimist.testing.setup import Setup
from optimist.testing.verdicts import differences, unrest
from optimist.testing.wishes import Wish
from optimist.testing.world import World

TIGHT = Setup(num_blocks=24, block_size=1, max_slots=8, max_model_len=24)


def prompt(length: int, start: int = 1) -> tuple[int, ...]:
    return tuple(range(start, start + length))


def world_of(setup: Setup, *wishes: Wish) -> tuple[World, PlanRules]:
    """A world whose actors know each other by the time the first wish arrives."""
    world = World(1, setup, [wish._replace(arrival=wish.arrival + 1.0) for wish in wishes])
    rules = PlanRules(world)
    Inspector(world, check=True)
    world.rush()
    world.now = 1.0
    return world, rules


def check_end(world: World) -> None:
    world.run()
    assert differences(world) + unrest(world) == []


def tokens_of(world: World) -> dict[int, int]:
    return {request: len(j.tokens) for request, j in world.gateway.journals.items()}


def test_a_middle_row_ends_while_the_results_of_two_steps_are_held() -> None:
    wishes = [Wish(prompt(length), limit) for length, limit in ((3, 9), (5, 2), (7, 9))]
    world, _ = world_of(Setup(), *wishes)
    gate = world.gate("worker", "scheduler", StepResult)
    world.rush()
    assert [held.message.step for held in gate.held] == [0, 1]
    gate.release()
    world.rush()
    assert tokens_of(world) == {1: 2, 2: 2, 3: 2}
    gate.open()
    check_end(world)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_results_in_reverse_order_settle_in_order(depth: int) -> None:
    world, _ = world_of(Setup(depth=depth), Wish(prompt(3), 9), Wish(prompt(5), 7))
    gate = world.gate("worker", "scheduler", StepResult)
    world.rush()
    while world.gateway.live():
        assert len(gate.held) == depth or world.gateway.journals[2].finish
        gate.release(*reversed(range(len(gate.held))))
        world.rush()
    gate.open()
    check_end(world)


@pytest.mark.parametrize("depth", [2, 3])
def test_preemption_while_the_results_of_the_victim_are_held(depth: int) -> None:
    wishes = [Wish(prompt(7, start), 16) for start in (1, 11, 21)]
    world, _ = world_of(TIGHT._replace(depth=depth), *wishes)
    gate = world.gate("worker", "scheduler", StepResult)
    counters, while_held = world.actors["scheduler"].core.counters, 0
    world.rush()
    while world.gateway.live():
        before = counters.preemptions
        gate.release(0)
        world.rush()
        while_held += bool(gate.held) and counters.preemptions > before
    assert while_held > 1
    gate.open()
    check_end(world)


def test_a_result_for_a_request_that_is_gone_comes_twice() -> None:
    world, _ = world_of(Setup(), Wish(prompt(3), 9), Wish(prompt(5), 9))
    gate = world.gate("worker", "scheduler", StepResult)
    world.rush()
    world.gateway.cancel(1)
    world.rush()
    gate.repeat(0)
    gate.repeat(0)
    gate.open()
    check_end(world)
    assert world.gateway.journals[1].finish == "cancelled"


def test_a_result_of_a_step_never_planned_is_ignored() -> None:
    world, _ = world_of(Setup(), Wish(prompt(3), 9))
    gate = world.gate("worker", "scheduler", StepResult)
    world.rush()
    (message, forward), *_ = gate.held
    for epoch, step in ((message.epoch, 77), (message.epoch + 9, 0), (0, 0)):
        forward(msgspec.structs.replace(message, epoch=epoch, step=step))
    gate.open()
    check_end(world)


def test_a_plan_that_is_lost_is_asked_for_and_sent_again() -> None:
    world, rules = world_of(Setup(), Wish(prompt(3), 9))
    gate = world.gate("scheduler", "builder", ExactPlan)
    world.rush()
    gate.drop(0)
    gate.open()
    check_end(world)
    assert rules.resyncs == 1


def test_a_request_that_can_never_fit_is_refused_and_the_next_one_served() -> None:
    setup = Setup(num_blocks=8, block_size=4, max_slots=8, max_model_len=256)
    world, _ = world_of(setup, Wish(prompt(33), 4), Wish(prompt(5), 4))
    check_end(world)
    assert world.gateway.journals[1].code == "too_large"
    assert world.gateway.journals[2].finish == "length"


@pytest.mark.parametrize("length", [3, 4, 5, 8, 12])
def test_a_prompt_that_is_cached_whole_is_computed_from_its_last_token(length: int) -> None:
    world, _ = world_of(Setup(), Wish(prompt(length), 5), Wish(prompt(length), 5, arrival=10.0))
    check_end(world)
    assert world.gateway.cached_tokens == (length - 1) // 4 * 4


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_max_tokens_wastes_no_step(depth: int, limit: int) -> None:
    wishes = [Wish(prompt(10), limit), Wish(prompt(6, 20), limit, arrival=0.001)]
    world, rules = world_of(Setup(depth=depth), *wishes)
    check_end(world)
    assert rules.tokens == sum(len(wish.prompt_ids) + limit - 1 for wish in wishes)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_stop_token_wastes_at_most_the_steps_in_flight(depth: int) -> None:
    plain, _ = world_of(Setup(), Wish(prompt(10), 6))
    plain.run()
    stop = plain.gateway.journals[1].tokens[3]
    world, rules = world_of(Setup(depth=depth), Wish(prompt(10), 6, stop_ids=(stop,)))
    check_end(world)
    used = len(world.gateway.journals[1].tokens)
    assert rules.tokens <= 10 + used - 1 + depth - 1


def test_ten_requests_cancelled_in_some_order_keep_the_tokens_they_had() -> None:
    world, _ = world_of(Setup(max_slots=16), *(Wish(prompt(10, i), 20) for i in range(10)))
    gate = world.gate("worker", "scheduler", StepResult)
    had: dict[int, int] = {}
    world.rush()
    for request in (1, 9, 4, 2, 7, 5, 3, 6, 8, 10):
        gate.release(0)
        world.rush()
        had[request] = tokens_of(world)[request]
        world.gateway.cancel(request)
        world.rush()
    gate.open()
    check_end(world)
    assert tokens_of(world) == had
    assert len(set(had.values())) > 5
    assert all(journal.finish == "cancelled" for journal in world.gateway.journals.values())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_eight_requests_in_four_blocks_deliver_every_token_once(depth: int) -> None:
    setup = Setup(depth=depth, num_blocks=4, block_size=8, max_slots=8, max_model_len=33)
    wishes = [Wish(prompt(2 + i, 3 * i), 24) for i in range(7)]
    world, rules = world_of(setup, *wishes)
    check_end(world)
    delivered = sum(tokens_of(world).values())
    assert 0 < rules.preemptions <= delivered / setup.block_size


def test_a_slow_client_pauses_its_own_row_and_nobody_else() -> None:
    slow, quick = Wish(prompt(5), 20, window=2), Wish(prompt(6), 20)
    world, _ = world_of(Setup(), slow, quick)
    gate = world.gate("gateway", "scheduler", Grant)
    world.rush()
    assert tokens_of(world) == {1: 2, 2: 20}
    gate.open()
    check_end(world)


@pytest.mark.parametrize("cancel_after", [0, 1])
def test_add_leave_add_in_any_order_ends_clean(cancel_after: int) -> None:
    for seed in range(60):
        wishes = [Wish(prompt(5, i), 6, cancel_after=cancel_after * (i % 2 > 0)) for i in range(4)]
        world = World(seed, Setup(max_slots=2), wishes)
        Inspector(world, check=True)
        check_end(world)
