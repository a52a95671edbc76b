"""`optimist bench`: measures this machine. Numbers; only `bench gpu` judges them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from optimist.cli.settings import command_value, engine_options, make_engine
from optimist.messages.errors import ConfigError

if TYPE_CHECKING:
    from optimist.actors.config import WorkerConfig
    from optimist.cli.parser import Parsed


def run(parsed: Parsed) -> int:
    """Print what was measured: one JSON object, or the same as lines. 1 where a verdict is not `right`."""
    match parsed.command:
        case "bench offline":
            result = _offline(parsed)
        case "bench overlap":
            result = _overlap(parsed)
        case "bench speculation":
            result = _speculation(parsed)
        case "bench startup":
            result = _startup()
        case "bench quality":
            result = _quality(parsed)
        case "bench floor":
            result = _floor(parsed)
        case "bench attention":
            result = _attention(parsed)
        case "bench gpu":
            result = _gpu(parsed)
        case _:
            from optimist.bench.actors import measure

            result = measure()
    if command_value(parsed, "json"):
        print(msgspec.json.encode(result).decode())
    else:
        print("\n".join(lines(result)))
    return 0 if result.get("verdict", "right") == "right" else 1


def lines(result: dict[str, Any], indent: str = "") -> list[str]:
    """A nested result as indented lines, names aligned."""
    width = max((len(name) for name in result), default=0)
    out = []
    for name, value in result.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}", *lines(value, indent + "    ")]
        else:
            out.append(f"{indent}{name:<{width}}  {value}")
    return out


def _offline(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.offline import measure

    sizes = {name: command_value(parsed, name) for name in ("requests", "input", "output")}
    for name, value in sizes.items():
        if value < 1:
            raise ConfigError(f"--{name}: expected at least 1, got {value}")
    engine = make_engine(parsed)

    async def work() -> dict[str, Any]:
        return await measure(
            engine, requests=sizes["requests"], prompt=sizes["input"], output=sizes["output"]
        )

    result = _on_loop(work)
    config = engine.config
    return result | {
        "placement": config.placement,
        "depth": config.scheduler.depth,
        "dtype": config.worker.dtype,
    }


def _overlap(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.overlap import measure

    options = engine_options(parsed)
    return _on_loop(lambda: measure(options))


def _speculation(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.speculation import measure

    options = engine_options(parsed)
    parts, pairs = (command_value(parsed, name) for name in ("parts", "pairs"))
    return _on_loop(lambda: measure(options, parts, pairs))


def _on_loop(work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    return anyio.run(work, backend_options={"use_uvloop": find_spec("uvloop") is not None})


def _startup() -> dict[str, Any]:
    from optimist.bench.startup import measure
    from optimist.models.default import default_model

    return measure(str(default_model()))


def _quality(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.quality import CACHES, QUANTS, measure

    worker = _worker(parsed)
    quants = (worker.quant,) if "config.worker.quant" in parsed.values else QUANTS
    caches = (worker.kv_dtype,) if "config.worker.kv_dtype" in parsed.values else CACHES
    tokens = command_value(parsed, "tokens")
    return measure(
        worker.model, quants=quants, caches=caches, tokens=tokens, threads=worker.threads
    )


def _floor(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.floor import measure

    worker = _worker(parsed)
    quant = worker.quant if "config.worker.quant" in parsed.values else None
    context = command_value(parsed, "context")
    return measure(
        worker.model,
        quant=quant,
        kv=worker.kv_dtype,
        context=context,
        threads=worker.threads,
    )


def _attention(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.attention import measure

    worker = _worker(parsed)
    batch, backends = (command_value(parsed, name) for name in ("batch", "backends"))
    return measure(batch, backends, worker.model, worker.device)


def _gpu(parsed: Parsed) -> dict[str, Any]:
    from optimist.bench.gpu import measure

    worker = _worker(parsed)
    return measure(worker.model, worker.device, command_value(parsed, "golden", ""))


def _worker(parsed: Parsed) -> WorkerConfig:
    """What the options say of the worker. Raises ConfigError naming a field."""
    from optimist.engine_options import engine_config

    options = engine_options(parsed)
    return engine_config(options.pop("model"), "inline", options).worker
