"""Makes the actors: the one place that knows all their classes. `python -m optimist.cells` is a child process.

Classes are imported when they are needed, so that a process holds what its own actors need and no
more: only a process with the worker in it imports torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import anyio.from_thread
import anyio.to_thread

from optimist.actors import slices
from optimist.actors.config import EngineConfig, WorkerConfig
from optimist.actors.contract import worker_config
from optimist.actors.runtime.placement import has_proposer, together
from optimist.messages.control import Progress
from optimist.messages.errors import ConfigError

if TYPE_CHECKING:
    from optimist.actors.gateway.tokenizer import Tokenizer
    from optimist.actors.proposer.actor import ProposerActor
    from optimist.actors.runtime.host import AnyActor, Build, Refs
    from optimist.actors.worker.base import Executor
    from optimist.messages.plans import Plan
    from optimist.transport.base import Ref

Report = Callable[[Progress], None]


class Cells:
    """Builds actors by name. config: of the whole engine. report: told the progress of loading.

    tokenizer: for the gateway; None loads the one of its model.
    """

    def __init__(
        self, config: EngineConfig, report: Report, tokenizer: Tokenizer | None = None
    ) -> None:
        self._config = config
        self._report = report
        self._tokenizer = tokenizer

    async def build(self, name: str, incarnation: int, refs: Refs) -> AnyActor:
        """Make one actor. Raises ConfigError for an unknown name, and what its constructor raises."""
        match name:
            case "worker":
                return await self._worker(incarnation, refs)
            case "proposer":
                return self._proposer(incarnation, refs)
            case "builder":
                return self._builder(incarnation, refs)
            case "scheduler":
                return self._scheduler(incarnation, refs)
            case "gateway":
                return await self._gateway(incarnation, refs)
            case _:
                raise ConfigError(f"cells: expected an actor's name, got {name!r}")

    async def _worker(self, incarnation: int, refs: Refs) -> AnyActor:
        from optimist.actors.worker.actor import Worker

        def progress(what: str, done: int, total: int) -> None:
            self._report(
                Progress(incarnation=incarnation, actor="worker", what=what, done=done, total=total)
            )

        executor = await _Loading(self._config, progress).wait()
        return Worker(
            worker_config(self._config),
            incarnation,
            scheduler=refs.to(Worker, "scheduler"),
            executor=executor,
            proposer=refs.to(Worker, "proposer") if has_proposer(self._config) else None,
        )

    def _proposer(self, incarnation: int, refs: Refs) -> AnyActor:
        from optimist.actors.proposer.actor import ProposerActor

        return proposer_actor(self._config.proposer.proposer)(
            self._config.proposer,
            incarnation,
            worker=refs.to(ProposerActor, "worker"),
            scheduler=refs.to(ProposerActor, "scheduler"),
        )

    def _builder(self, incarnation: int, refs: Refs) -> AnyActor:
        from optimist.actors.builder.actor import Builder

        return Builder(
            self._config.builder,
            incarnation,
            worker=refs.to(Builder, "worker"),
            scheduler=refs.to(Builder, "scheduler"),
        )

    def _scheduler(self, incarnation: int, refs: Refs) -> AnyActor:
        from optimist.actors.scheduler.actor import Scheduler

        gateway = refs.to(Scheduler, "gateway")
        in_company = together(self._config, "worker", "scheduler")
        return Scheduler(
            self._config.scheduler,
            incarnation,
            builder=self._to_builder(refs.to(Scheduler, "builder")),
            gateway=gateway,
            witness=refs.outliving(Scheduler, "gateway") if in_company else gateway,
            worker=refs.to(Scheduler, "worker"),
            proposer=refs.to(Scheduler, "proposer") if has_proposer(self._config) else None,
        )

    def _to_builder(self, builder: Ref[Plan]) -> Ref[Plan]:
        """Where the scheduler sends its plans."""
        return builder

    async def _gateway(self, incarnation: int, refs: Refs) -> AnyActor:
        from optimist.actors.gateway.actor import Gateway

        tokenizer = self._tokenizer
        if tokenizer is None:
            from optimist.models.tokenizer import load_tokenizer

            tokenizer = self._tokenizer = await anyio.to_thread.run_sync(
                load_tokenizer, self._config.gateway.model, abandon_on_cancel=True
            )
        config, scheduler = self._config.gateway, refs.to(Gateway, "scheduler")
        if config.port is None and not config.zmq:
            return Gateway(config, incarnation, scheduler=scheduler, tokenizer=tokenizer)
        from optimist.served_gateway import ServedGateway

        return ServedGateway(config, incarnation, scheduler=scheduler, tokenizer=tokenizer)


def proposer_actor(name: str) -> type[ProposerActor]:
    """The actor of a host proposer: a class of somebody else may bring its own.

    Raises ConfigError naming what is wrong.
    """
    from optimist.actors.proposer.actor import ProposerActor
    from optimist.actors.proposer.factory import named_class, proposer_class

    kind = named_class(name)
    if issubclass(kind, ProposerActor):
        return kind
    proposer_class(name)
    return ProposerActor


def executor_class(config: WorkerConfig) -> type[Executor]:
    """The Executor that a configuration names. Raises ConfigError naming what is wrong."""
    from optimist.actors.worker.base import Executor
    from optimist.actors.worker.chosen import executor_path

    path = executor_path(config)
    module, colon, attribute = path.partition(":")
    if not colon or not module or not attribute:
        raise ConfigError(
            f"worker.executor: expected auto, native, torch, triton or module:Class, got {path!r}"
        )
    try:
        kind = getattr(import_module(module), attribute)
    except Exception as error:
        # Whatever the module of somebody else raises: it is the option that cannot be served.
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"worker.executor: cannot import {path!r}: {said}") from error
    if not (isinstance(kind, type) and issubclass(kind, Executor)):
        raise ConfigError(f"worker.executor: expected a subclass of Executor, got {path!r}")
    return kind


class _Abandoned(Exception):
    """Nobody waits for this executor any more."""


class _Loading:
    """Loads an executor in a thread, and lets go of it when the wait is cancelled.

    What cannot take the plans of this engine is refused before it loads anything.
    """

    def __init__(self, config: EngineConfig, progress: Callable[[str, int, int], None]) -> None:
        self._config = config
        self._progress = progress
        self._lock = Lock()
        self._abandoned = False
        self._loaded: Executor | None = None

    async def wait(self) -> Executor:
        """The executor. Raises what `load` raises. When cancelled, a late executor is closed."""
        try:
            return await anyio.to_thread.run_sync(
                self._load, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        except BaseException:
            with self._lock:
                self._abandoned = True
                late = self._loaded
            if late is not None:
                late.close()
            raise

    def _load(self) -> Executor:
        from optimist.actors.worker.contract import check_executor, check_operators

        # Threads that compute begin here, and are not those whose turns are to be short.
        slices.usual()
        worker = worker_config(self._config)
        kind = executor_class(worker)
        check_executor(self._config, kind)
        if has_proposer(self._config) and together(self._config, "worker", "proposer"):
            # One with a process of its own says so itself, while this one loads.
            proposer_actor(self._config.proposer.proposer)
        executor = kind.load(worker, self._tell)
        try:
            check_operators(self._config, executor.brought)
        except ConfigError:
            executor.close()
            raise
        with self._lock:
            if not self._abandoned:
                self._loaded = executor
                return executor
        executor.close()
        raise _Abandoned

    def _tell(self, what: str, done: int, total: int) -> None:
        """Pass progress on to the loop. Raises where nobody waits, which ends the loading early."""
        if self._abandoned:
            raise _Abandoned
        anyio.from_thread.run_sync(self._progress, what, done, total)


def main(cells: type[Cells] = Cells) -> NoReturn:
    """Be a child process: see optimist.actors.runtime.child. cells: who makes its actors."""
    import msgspec

    from optimist.actors.runtime.child import main as child
    from optimist.messages.control import Start

    def begin(start: Start, report: Report) -> Build:
        config = msgspec.json.decode(start.config, type=EngineConfig)
        return cells(config, report).build

    child(sys.argv[1:], begin)


if __name__ == "__main__":
    main()
