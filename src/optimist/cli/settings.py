"""From what was given on the command line to the Structs that the engine takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from optimist.cli.options import COMMAND_DEFAULTS, OPTIONS
from optimist.messages.errors import ConfigError

if TYPE_CHECKING:
    from optimist.actors.config import EngineConfig
    from optimist.cli.parser import Parsed
    from optimist.messages.params import SamplingParams

S = TypeVar("S")


def engine_config(parsed: Parsed) -> EngineConfig:
    """The engine that the options describe. Raises ConfigError naming a field that is wrong."""
    from optimist.actors.config import EngineConfig

    return _struct(EngineConfig, _under(parsed, "config."))


def sampling_params(parsed: Parsed) -> SamplingParams:
    """The sampling that the options describe. Raises InvalidRequest or ConfigError naming a field."""
    from optimist.messages.params import SamplingParams

    return _struct(SamplingParams, _under(parsed, "params."))


def command_value(parsed: Parsed, name: str, default: Any = None) -> Any:
    """What an option of the command itself was set to."""
    return _under(parsed, "command.").get(name, default)


def _under(parsed: Parsed, prefix: str) -> dict[str, Any]:
    given = COMMAND_DEFAULTS.get(parsed.command, {}) | parsed.values
    tree: dict[str, Any] = {}
    for target, value in given.items():
        if target.startswith(prefix):
            *path, last = target.removeprefix(prefix).split(".")
            node = tree
            for name in path:
                node = node.setdefault(name, {})
            node[last] = value
    return tree


def _struct(kind: type[S], tree: dict[str, Any]) -> S:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_by_option(str(error), kind)) from None


def _by_option(message: str, kind: type) -> str:
    """Name the option beside the field that msgspec names as `$.worker.dtype`."""
    prefix = "config." if kind.__name__ == "EngineConfig" else "params."
    for option in OPTIONS:
        for target in option.targets:
            if f"`$.{target.removeprefix(prefix)}`" in message:
                return f"{option.flag}: {message}"
    return message
