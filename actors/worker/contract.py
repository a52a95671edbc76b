"""Whether an executor and its operators can take the plans that an engine emits: asked before it loads."""

from __future__ import annotations

from collections.abc import Iterable

from optimist.actors.config import EngineConfig
from optimist.actors.contract import PlanKind, plan_kind, worker_config
from optimist.actors.worker.base import Executor, Operator
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.errors import ConfigError


def check_executor(config: EngineConfig, executor: type[Executor]) -> None:
    """Raise ConfigError naming the executor, or the operator of it, that cannot take this engine's plans.

    What an executor takes it says in `takes`; its operators say it in their signatures.
    """
    kind = plan_kind(config)
    if (ExactBatch if kind == "exact" else OptimisticBatch) not in executor.takes:
        names = ", ".join(batch.__name__ for batch in executor.takes)
        raise ConfigError(_refusal(config, f"executor {executor.__name__} takes {names} alone"))
    check_operators(config, executor.operators_for(worker_config(config)))


def check_operators(config: EngineConfig, operators: Iterable[Operator]) -> None:
    """Raise ConfigError naming the first that cannot take this engine's plans, by its signature."""
    kind = plan_kind(config)
    for operator in operators:
        taken = _taken(operator)
        if _NEEDED[kind] not in taken:
            what = f"{', '.join(sorted(taken))} alone" if taken else "no metadata that it names"
            raise ConfigError(_refusal(config, f"operator {_name(operator)} takes {what}"))


_NEEDED: dict[PlanKind, str] = {"exact": "ExactMetadata", "optimistic": "OptimisticMetadata"}


def _refusal(config: EngineConfig, who: str) -> str:
    depth, proposer = config.scheduler.depth, config.scheduler.proposer
    if plan_kind(config) == "exact":
        return (
            f"{who}, but with depth {depth} and proposer {proposer!r} every plan is exact: use depth 2 "
            f"with a proposer, or another executor"
        )
    return (
        f"{who}, but with proposer {proposer!r} and depth {depth} every plan is optimistic: use "
        f"depth 1, or proposer none, or one that takes optimistic plans"
    )


def _taken(operator: Operator) -> set[str]:
    # torch comes with it, which a worker without such operators has no use for
    from optimist.kernels.contract import metadata_taken

    return metadata_taken(operator)


def _name(operator: Operator) -> str:
    return f"{operator.__module__}.{operator.__qualname__}"
