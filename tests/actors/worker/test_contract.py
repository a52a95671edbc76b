"""Executors and operators that cannot take an engine's plans are refused before they load."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from exact_stage import (
    ExactOnly,
    Loads,
    OptimisticOnly,
    Planted,
    Vague,
    any_attention,
    exact_attention,
)

from optimist.actors.config import EngineConfig, SchedulerConfig, WorkerConfig
from optimist.actors.worker.base import Executor, Operator
from optimist.actors.worker.contract import check_executor, check_operators
from optimist.actors.worker.hidden_state_head import HiddenStateHead
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.triton_executor import TritonExecutor
from optimist.kernels.contract import metadata_taken
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
    for operator in ours():
        assert metadata_taken(operator) == {"ExactMetadata", "OptimisticMetadata"}


def ours() -> set[Operator]:
    """Whatever any of our executors, with any proposer on its device, is asked about."""
    found = set(HiddenStateHead.operators)
    for executor in (TorchExecutor, TritonExecutor):
        for proposer in ("none", "self-draft", "draft-model", "ngram-device"):
            config = WorkerConfig(device="cpu", proposer=proposer)
            found |= set(executor.operators_for(config))
    return found


def test_no_function_that_is_told_of_rows_is_left_out() -> None:
    written = set[str]()
    for room in ("actors", "kernels", "models"):
        base = Path(importlib.import_module(f"optimist.{room}").__path__[0])
        for path in base.rglob("*.py"):
            text = path.read_text()
            if "kernels.metadata import" in text:
                module = ".".join(("optimist", room, *path.relative_to(base).with_suffix("").parts))
                written |= {f"{module}.{name}" for name in told(ast.parse(text).body)}
    assert "optimist.models.llama.Llama.step" in written
    # The reference is what the others are held against: no executor calls it.
    written -= {"optimist.kernels.paged_attention.reference.paged_attention"}
    assert written == {f"{operator.__module__}.{operator.__qualname__}" for operator in ours()}


def told(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    """The public functions and methods that have a parameter of a kind of metadata."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from told(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if any("Metadata" in ast.unparse(a.annotation) for a in arguments if a.annotation):
                yield f"{owner}{node.name}"


def test_operators_of_a_proposer_that_was_brought_are_asked_too() -> None:
    with pytest.raises(ConfigError, match=r"operator exact_stage\.exact_attention takes Exact"):
        check_operators(OPTIMISTIC, (any_attention, exact_attention))
    check_operators(EXACT, (any_attention, exact_attention))
