"""Executors and operators that cannot take an engine's plans are refused before they load."""

from __future__ import annotations

import pytest
from exact_stage import ExactOnly, Loads, OptimisticOnly, Planted, Vague

from optimist.actors.config import EngineConfig, SchedulerConfig
from optimist.actors.worker.base import Executor
from optimist.actors.worker.contract import check_executor, metadata_taken
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.errors import ConfigError

EXACT = EngineConfig(scheduler=SchedulerConfig(depth=1, proposer="ngram"))
OPTIMISTIC = EngineConfig(scheduler=SchedulerConfig(depth=2, proposer="ngram"))


@pytest.mark.parametrize(
    ("executor", "config"),
    [(Loads, EXACT), (Loads, OPTIMISTIC), (ExactOnly, EXACT), (OptimisticOnly, OPTIMISTIC)],
)
def test_one_that_takes_the_plans_passes(executor: type[Executor], config: EngineConfig) -> None:
    check_executor(config, executor)


def test_an_executor_that_takes_exact_batches_alone_is_refused_where_plans_are_optimistic() -> None:
    with pytest.raises(ConfigError, match="ExactOnly takes ExactBatch alone") as refused:
        check_executor(OPTIMISTIC, ExactOnly)
    assert "proposer 'ngram' and depth 2" in str(refused.value)
    assert "use depth 1, or proposer none" in str(refused.value)


def test_a_planted_operator_that_takes_exact_metadata_is_refused_by_its_own_name() -> None:
    with pytest.raises(ConfigError, match=r"operator exact_stage\.exact_attention takes Exact"):
        check_executor(OPTIMISTIC, Planted)
    check_executor(EXACT, Planted)


def test_an_operator_that_does_not_say_what_it_takes_is_refused() -> None:
    for config in (EXACT, OPTIMISTIC):
        with pytest.raises(ConfigError, match=r"exact_stage\.untyped takes no metadata"):
            check_executor(config, Vague)


def test_one_that_takes_optimistic_batches_alone_is_refused_where_plans_are_exact() -> None:
    with pytest.raises(ConfigError, match="every plan is exact: use depth 2 with a proposer"):
        check_executor(EXACT, OptimisticOnly)


def test_ours_takes_both_and_so_does_every_operator_of_it() -> None:
    check_executor(EXACT, TorchExecutor)
    check_executor(OPTIMISTIC, TorchExecutor)
    assert len(TorchExecutor.operators) >= 2
    for operator in TorchExecutor.operators:
        assert metadata_taken(operator) == {"ExactMetadata", "OptimisticMetadata"}
