"""The builder's order of steps: gaps, repeats, new epochs, and a builder that knows nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from optimist.actors.builder.actor import Builder
from optimist.actors.config import BuilderConfig
from optimist.messages.batches import Batch
from optimist.messages.control import Drain, Resync
from optimist.messages.errors import ConfigError
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.slots import BlockDelta, PrefillRows


class Worker:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def send(self, message: Batch, /) -> None:
        self.batches.append(message)

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(batch.epoch, batch.step) for batch in self.batches]


class Asked:
    def __init__(self) -> None:
        self.resyncs: list[Resync] = []

    def send(self, message: Resync, /) -> None:
        self.resyncs.append(message)

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(resync.epoch, resync.step) for resync in self.resyncs]


class Bench:
    """A builder between a worker and a scheduler that only listen."""

    def __init__(self, block_size: int = 16) -> None:
        self.worker, self.asked = Worker(), Asked()
        self.builder = Builder(
            BuilderConfig(block_size=block_size), 4, worker=self.worker, scheduler=self.asked
        )
        self.builder.started()

    def plan(self, epoch: int, *steps: int) -> None:
        for step in steps:
            self.builder.receive(
                ExactPlan(
                    incarnation=1,
                    epoch=epoch,
                    step=step,
                    blocks=BlockDelta(version=step + 1),
                    prefill=PrefillRows(),
                )
            )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_on_start_it_asks_for_every_unsettled_plan(bench: Bench) -> None:
    assert bench.asked.resyncs == [Resync(incarnation=4, actor="builder")]


def test_plans_in_order_become_batches_in_order(bench: Bench) -> None:
    bench.plan(5, 0, 1, 2)
    assert bench.worker.steps == [(5, 0), (5, 1), (5, 2)]
    assert [batch.incarnation for batch in bench.worker.batches] == [4, 4, 4]
    assert len(bench.asked.resyncs) == 1


def test_a_newborn_builder_goes_on_from_the_first_plan_it_sees(bench: Bench) -> None:
    bench.plan(5, 11, 12)
    assert bench.worker.steps == [(5, 11), (5, 12)] and len(bench.asked.resyncs) == 1


def test_a_gap_is_asked_for_once_and_never_skipped(bench: Bench) -> None:
    bench.plan(5, 0, 2, 3)
    assert bench.worker.steps == [(5, 0)]
    assert bench.asked.steps[1:] == [(5, 1)] and bench.builder.ignored == 2
    bench.plan(5, 1, 2, 3, 4)
    assert bench.worker.steps == [(5, step) for step in range(5)]
    bench.plan(5, 6)
    assert bench.asked.steps[1:] == [(5, 1), (5, 5)]


def test_a_step_seen_before_is_built_again(bench: Bench) -> None:
    bench.plan(5, 0, 1, 2, 1, 2, 3)
    assert bench.worker.steps == [(5, step) for step in (0, 1, 2, 1, 2, 3)]
    assert len(bench.asked.resyncs) == 1


def test_a_new_epoch_begins_at_its_first_step(bench: Bench) -> None:
    bench.plan(5, 0, 1)
    bench.plan(7, 0, 1)
    assert bench.worker.steps[2:] == [(7, 0), (7, 1)]


def test_a_new_epoch_that_begins_late_has_a_gap(bench: Bench) -> None:
    bench.plan(5, 0, 1)
    bench.plan(7, 1)
    assert bench.asked.steps[1:] == [(7, 0)]
    bench.plan(7, 0, 1)
    assert bench.worker.steps[2:] == [(7, 0), (7, 1)]


def test_a_plan_of_a_dead_epoch_is_ignored_and_counted(bench: Bench) -> None:
    bench.plan(7, 0)
    bench.plan(5, 0, 1)
    bench.plan(7, 1)
    assert bench.worker.steps == [(7, 0), (7, 1)] and bench.builder.ignored == 2


def test_a_message_of_no_known_kind_is_counted(bench: Bench) -> None:
    bench.builder.receive(cast("Any", Drain(incarnation=1)))
    assert bench.builder.ignored == 1 and bench.worker.batches == []


def test_an_optimistic_plan_is_taken_too(bench: Bench) -> None:
    bench.builder.receive(
        OptimisticPlan(
            incarnation=1, epoch=5, step=0, blocks=BlockDelta(version=1), prefill=PrefillRows()
        )
    )
    assert bench.worker.steps == [(5, 0)]


def test_a_block_size_below_one_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"builder\.block_size.*got 0"):
        Bench(block_size=0)
