"""An engine inside your own program, on asyncio, uvloop or trio."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, Unpack, get_args

from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.config import EngineConfig, Placement
from optimist.actors.gateway.actor import Gateway
from optimist.actors.gateway.chunks import Completion
from optimist.actors.gateway.health import Health
from optimist.actors.gateway.stream import Stream
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.asking import Options, Prompt, ask
from optimist.engine_options import engine_config, model_name, with_model
from optimist.generation import Generation
from optimist.life import Life, Running
from optimist.messages.client import Generate, Stats
from optimist.messages.control import Progress, SyncMode
from optimist.messages.errors import ConfigError, EngineClosed, EngineEnded
from optimist.messages.params import SamplingParams


class Engine:
    """Serves one model to the program that holds it.

    model: path of a GGUF file or a Hugging Face folder; None is the installed default model.
    placement: `inline` runs everything on this loop and computes in a thread; `embedded` has one
    process for all actors but the gateway; `processes` gives one to each but the gateway.
    tokenizer: your own instead of the model's. progress: called while weights load.
    options: any field of the actors' configurations, such as depth, dtype or max_model_len.

    Use it as `async with Engine() as engine:`, or call `start` and `close`, from different tasks if
    need be. It belongs to the event loop that started it. Making one starts nothing and imports no
    model code; it changes nothing outside itself. Raises ConfigError for a wrong option.
    """

    _cells = "optimist.cells"

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        placement: Placement = "embedded",
        *,
        tokenizer: Tokenizer | None = None,
        progress: Callable[[Progress], None] | None = None,
        **options: Any,
    ) -> None:
        self._life: Life | None = None
        self._closed = False
        self._tokenizer = tokenizer
        self._progress = progress
        self.config: EngineConfig = engine_config(model, placement, options)

    async def start(self) -> None:
        """Start, or start again after an end. Raises ConfigError, ModelError or EngineBroken.

        Returns when requests are taken. Nothing happens when it runs on this loop already.
        """
        if self._life is not None and not self._life.over:
            self._life.gateway()
            return
        self._closed = False
        self._life = Life(self._bring_up())
        try:
            await self._life.started()
        except BaseException:
            self._life = None
            raise

    async def close(self) -> None:
        """End open requests with EngineClosed and stop every actor. Idempotent."""
        self._closed = True
        if self._life is not None:
            await self._life.end(EngineClosed("the engine was closed"))
            self._life = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        **options: Unpack[Options],
    ) -> Generation:
        """Continue a prompt: `async for chunk in engine.generate("Once", SamplingParams(...))`.

        prompt: a text, token ids, or chat messages as `{"role": ..., "content": ...}`.
        Raises InvalidRequest here for a value of the wrong type; see Generation for the rest.
        """
        generate = ask(prompt, params, **options)
        return Generation(lambda: self.submit(generate))

    async def complete(
        self, prompt: Prompt, params: SamplingParams | None = None, **options: Unpack[Options]
    ) -> Completion:
        """Continue a prompt and return all of it."""
        return await self.generate(prompt, params, **options).complete()

    async def submit(self, generate: Generate) -> Stream:
        """Begin a request that is already a message; see Stream. For servers and front ends."""
        # Who is cancelled hears of that, and not of an engine that ends for the same reason.
        await checkpoint_if_cancelled()
        return await self.gateway.submit(generate)

    @property
    def gateway(self) -> Gateway:
        """The actor behind this object. Raises EngineClosed, EngineEnded or WrongOwner."""
        return self._running().gateway()

    @property
    def model_name(self) -> str:
        """What clients call the model."""
        return model_name(self.config.gateway)

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to token ids and back, as this engine does it."""
        return self.gateway.tokenizer

    @property
    def max_model_len(self) -> int | None:
        """Tokens of one request, prompt and output; None until the worker has told."""
        return self.gateway.max_model_len

    def health(self) -> Health:
        """Whether requests get on, and why not."""
        return self.gateway.health()

    def stats(self) -> Stats:
        """How busy the engine is."""
        return self.gateway.stats()

    def check_syncs(self, mode: SyncMode) -> None:
        """What a host read of a device tensor inside a step does from now on: nothing, warn or raise.

        mode: `off`, `warn` or `error`; OPTIMIST_SYNC_CHECK says what it is at the start, and again at
        the next. Steps that are under way may still go by the mode before. A worker that is started
        again is told once it is ready. The native library has no tensors that torch could watch.
        Raises ConfigError for another mode, and with `torch_compile`, which the check cannot see
        through; or, where the engine does not run, as `gateway` does.
        """
        if mode not in (modes := get_args(SyncMode)):
            raise ConfigError(f"check_syncs: expected {', '.join(modes)}, got {mode!r}")
        if mode != "off" and (compiled := self.config.worker.torch_compile) != "off":
            raise ConfigError(
                f"check_syncs: {mode} and torch_compile={compiled} do not go together; leave one away"
            )
        self._running().running().check_syncs(mode)

    def _running(self) -> Life:
        if self._life is None:
            if self._closed:
                raise EngineClosed("the engine was closed; start it again to use it")
            raise EngineEnded("the engine has not started; use `async with` or call start()")
        return self._life

    def _bring_up(self) -> AbstractAsyncContextManager[Running]:
        from optimist.troupe import bring_up, ignore

        if self._tokenizer is None or ":" not in self.config.worker.executor:
            self.config = with_model(self.config)
        report = self._progress or ignore
        return bring_up(self.config, self._tokenizer, report=report, module=self._cells)

    def __del__(self) -> None:
        life = getattr(self, "_life", None)
        if life is not None and not life.over:
            warnings.warn(
                "an Engine was dropped without close(); use `async with`",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )
            life.abandon()
