"""From what was given on the command line to what the engine and a request take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from optimist.cli.options import COMMAND_DEFAULTS
from optimist.cli.progress import show

if TYPE_CHECKING:
    from optimist.actors.config import EngineConfig
    from optimist.cli.parser import Parsed
    from optimist.engine import Engine
    from optimist.messages.params import SamplingParams


def make_engine(parsed: Parsed) -> Engine:
    """The engine that the options describe, not started. Raises ConfigError naming a field."""
    from optimist.engine import Engine

    return Engine(**engine_options(parsed), progress=show())


def engine_config(parsed: Parsed) -> EngineConfig:
    """The same as a configuration."""
    from optimist.engine_options import engine_config as configured

    options = engine_options(parsed)
    return configured(options.pop("model"), options.pop("placement"), options)


def sampling_params(parsed: Parsed) -> SamplingParams:
    """The sampling that the options describe. Raises InvalidRequest naming a field out of range."""
    from optimist.messages.params import SamplingParams

    return msgspec.convert(_given(parsed, "params."), SamplingParams)


def command_value(parsed: Parsed, name: str, default: Any = None) -> Any:
    """What an option of the command itself was set to."""
    return _given(parsed, "command.").get(name, default)


def engine_options(parsed: Parsed) -> dict[str, Any]:
    """By the bare names of their fields, as Engine takes them. The model is named in any case."""
    given = _given(parsed, "config.")
    foreign = ":" in given.get("proposer.proposer", "")
    if foreign and given["placement"] == "inline" and "config.placement" not in parsed.values:
        # A class of somebody else may hang, and on the loop of all actors nothing could end it.
        given["placement"] = "embedded"
    if given.get("placement") != "processes" and "config.groups" not in parsed.values:
        # Only where each actor would have a process does a command join some.
        given.pop("groups", None)
    options = {path.rpartition(".")[2]: value for path, value in given.items()}
    if pairs := command_value(parsed, "proposer_option"):
        from optimist.actors.proposer.options import written_options

        options |= written_options(options.get("proposer", "none"), pairs)
    if not options.get("model"):
        from optimist.models.default import default_model

        options["model"] = str(default_model())
    return options


def _given(parsed: Parsed, prefix: str) -> dict[str, Any]:
    given = COMMAND_DEFAULTS.get(parsed.command, {}) | parsed.values
    return {
        target.removeprefix(prefix): value
        for target, value in given.items()
        if target.startswith(prefix)
    }
