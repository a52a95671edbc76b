"""What an option of a command is."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from optimist.actors.config import EngineConfig
from optimist.messages.params import SamplingParams

Kind = Literal["int", "float", "text", "texts", "ints", "biases", "drafts", "on", "off"]
"""How a value is written. texts: the option may be repeated. ints: 1,2,3. biases: 42=-5,7=1.5.
drafts: auto or a number. on, off: the option alone sets True or False."""

Choices = tuple[str, ...]

ENGINE = ("generate", "chat", "serve", "bench offline")
SAMPLING = ("generate", "chat")
GENERATE, SERVE, OFFLINE = ("generate",), ("serve",), ("bench offline",)
MEASURES = ("bench quality", "bench floor")
"""commands without an engine"""

ON_DEVICE = ("bench attention", "bench gpu")
"""commands that measure the device alone"""

COMPARED = ("bench overlap", "bench speculation")
"""commands that run engines of their own, side by side or in turn"""

_BENCHES = ("bench startup", "bench actors", *COMPARED, *MEASURES, *ON_DEVICE)
JSON = ("generate", "bench offline", *_BENCHES, "doctor")


class Option(NamedTuple):
    """One option.

    targets: where its value goes, as paths: `config.` into EngineConfig, `params.` into
    SamplingParams, `command.` to the command itself. What is not given keeps the default there.
    effect: what changes when it is given, in words.
    """

    flag: str
    commands: tuple[str, ...]
    targets: tuple[str, ...]
    kind: Kind
    effect: str
    choices: tuple[str, ...] = ()


def default_of(target: str) -> Any:
    """What a field is when no command says otherwise; None of what is the command's own."""
    root, *path = target.split(".")
    if root == "command":
        return None
    value: Any = EngineConfig() if root == "config" else SamplingParams()
    for name in path:
        value = getattr(value, name)
    return value


def engine_option(
    flag: str,
    paths: str,
    kind: Kind,
    effect: str,
    choices: Choices = (),
    also: tuple[str, ...] = (),
) -> Option:
    """also: commands beside those that start an engine."""
    targets = tuple(f"config.{path}" for path in paths.split())
    return Option(flag, (*ENGINE, *also), targets, kind, effect, choices)


def serve_option(flag: str, path: str, kind: Kind, effect: str) -> Option:
    return Option(flag, SERVE, (f"config.gateway.{path}",), kind, effect)


def sampling_option(flag: str, path: str, kind: Kind, effect: str) -> Option:
    return Option(flag, SAMPLING, (f"params.{path}",), kind, effect)
