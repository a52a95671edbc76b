"""The kit for authors of schedulers and executors: it passes what is right and names what is not."""

from __future__ import annotations

from typing import Any

import pytest

from optimist.actors.scheduler.actor import Scheduler
from optimist.actors.worker.base import Executor, Limits
from optimist.messages.requests import Cancel
from optimist.testing.conformance import check_executor, check_scheduler, main
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import MatrixRed, cells, pairwise
from optimist.testing.oracle import IntegerOracle
from optimist.testing.simulation import SeedFailed

FEW = pairwise(cells())[:3]
MODEL = IntegerModel(vocab_size=50)


class Foreign:
    """A scheduler of somebody else: nothing can be known of it but its messages."""

    def __init__(self, *positional: Any, **named: Any) -> None:
        self._inner = Scheduler(*positional, **named)
        self.incarnation = self._inner.incarnation

    def started(self) -> None:
        self._inner.started()

    def receive(self, message: Any) -> None:
        self._inner.receive(message)

    def turn(self) -> float | None:
        return self._inner.turn()


class Deaf(Foreign):
    """Takes no notice when a client leaves."""

    def receive(self, message: Any) -> None:
        if not isinstance(message, Cancel):
            super().receive(message)


def test_a_scheduler_of_somebody_else_passes_by_its_messages_alone() -> None:
    check_scheduler(Foreign, every=FEW, seeds=20)


def test_a_scheduler_that_ignores_cancellation_is_found() -> None:
    with pytest.raises(SeedFailed):
        check_scheduler(Deaf, every=FEW, seeds=300)


def integers(model: IntegerModel) -> Any:
    def make(limits: Limits) -> Executor:
        return IntegerExecutor(limits, model, checked=False)

    return make


def test_an_executor_is_compared_with_the_model_of_its_author() -> None:
    check_executor(integers(MODEL), IntegerOracle(MODEL), vocab_size=50, every=FEW)


def test_an_executor_that_computes_another_model_is_found() -> None:
    other = integers(IntegerModel(vocab_size=49))
    with pytest.raises(MatrixRed, match="request 0: "):
        check_executor(other, IntegerOracle(MODEL), vocab_size=50, every=FEW)


def test_the_command_line_refuses_a_name_that_names_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["optimist.nowhere:Scheduler"]) == 1
    assert "'optimist.nowhere:Scheduler'" in capsys.readouterr().err
