"""What a user of the command line sees of an engine, on a toy network: the same little scene each time."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
from recording_executor import RecordingExecutor

from optimist.actors.config import EngineConfig
from optimist.actors.gateway.actor import Gateway
from optimist.actors.gateway.chunks import Completion, complete
from optimist.cli.parser import Parsed, parse
from optimist.cli.settings import engine_config, sampling_params
from optimist.http.gateway_service import GatewayService
from optimist.messages.client import Generate
from optimist.messages.errors import OptimistError
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.troupe import bring_up

PROMPT = "abcabcabcabcabcabcabcabcabc"
BUSY = 3
EXECUTOR = "recording_executor:RecordingExecutor"


def toy_config(parsed: Parsed) -> EngineConfig:
    """The engine that the options describe, with the toy for a model."""
    config = engine_config(parsed)
    worker = msgspec.structs.replace(
        config.worker, executor=EXECUTOR, executor_options={"vocab_size": 272}
    )
    return msgspec.structs.replace(config, worker=worker)


async def scene(*arguments: str) -> dict[str, Any]:
    """Ask twice for the same, then several things at once; return all there is to see.

    What goes wrong is to see as well, as `error`.
    """
    parsed = parse(arguments)
    seen: dict[str, Any] = {"error": "", "kernels": engine_config(parsed).worker.executor}
    try:
        params = sampling_params(parsed)
        config = toy_config(parsed)
        async with bring_up(config, ByteTokenizer(), gateway_here=False) as troupe:
            seen |= {"details": troupe.details, "cells": sorted(troupe.pids)}
            if (gateway := troupe.gateway) is not None:
                seen |= await _asked(gateway, params)
    except OptimistError as error:
        seen["error"] = str(error)
    return seen


async def _asked(gateway: Gateway, params: SamplingParams) -> dict[str, Any]:
    first = await _complete(gateway, params)
    second = await _complete(gateway, params)
    alone = list(RecordingExecutor.ran)
    refused = await _together(gateway, params)
    return {
        "text": first.text,
        "ids": first.token_ids,
        "finish": first.finish_reason,
        "cached": second.usage.cached_tokens,
        "steps": len(alone),
        "largest_step": max(ran.tokens for ran in alone),
        "most_rows": max(ran.rows for ran in RecordingExecutor.ran),
        "num_blocks": gateway.stats().num_blocks,
        "max_model_len": gateway.max_model_len,
        "told": RecordingExecutor.told,
        "refused": refused,
        "ahead": await _ahead(gateway),
        "name": GatewayService(lambda: gateway).model_name,
    }


async def _ahead(gateway: Gateway) -> int:
    """Tokens that wait for a client who takes none, while another's request runs to its end."""
    params = SamplingParams(max_tokens=20, temperature=0, ignore_eos=True)
    lazy = await gateway.submit(Generate(request="x", prompt=PROMPT, params=params))
    await _complete(gateway, params)
    chunk = lazy.take_nowait()
    lazy.close()
    return len(chunk.token_ids) if chunk is not None else 0


async def _together(gateway: Gateway, params: SamplingParams) -> list[str]:
    """Several at once: which were refused, and why."""
    refused: list[str] = []

    async def one() -> None:
        try:
            await _complete(gateway, params)
        except OptimistError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(BUSY):
            tasks.start_soon(one)
    return sorted(refused)


async def _complete(gateway: Gateway, params: SamplingParams) -> Completion:
    stream = await gateway.submit(Generate(request="x", prompt=PROMPT, params=params))
    return complete([chunk async for chunk in stream])
