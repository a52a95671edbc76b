"""The command line as argparse sees it, made from the table of options."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from optimist.cli.option import Option, default_of
from optimist.cli.options import COMMAND_DEFAULTS, OPTIONS, SUCCESSORS, options_of
from optimist.messages.errors import ConfigError

COMMANDS = {
    "chat": "talk with the model",
    "generate": "continue one prompt",
    "serve": "serve the model over HTTP and ZeroMQ",
    "bench": "measure this machine",
    "doctor": "say what is here and what is missing",
}
BENCHES = {
    "offline": "throughput of many requests sent at once",
    "overlap": "what the device waits for while many requests run",
    "speculation": "what drafts gain and cost, against none",
    "startup": "import, version, first token and memory of each placement",
    "quality": "perplexity and agreement with float32 of each format of weights",
    "attention": "one layer's attention of a batch, by several kernels",
    "gpu": "judges a GPU: ids, idle gaps, waits, attention; fails where one is not right, or none is visible",
    "floor": "memory bandwidth, and the decode step that it allows",
    "actors": "round trip and rate of the transports between actors",
}


class Parsed(argparse.Namespace):
    """command: its name, such as `bench offline`. values: target to value, for what was given."""

    command: str
    values: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see `{self.prog} --help`)")


class _Store(argparse.Action):
    """Puts a value under each target of its option; repeatable ones are gathered in a tuple."""

    def __init__(self, *args: Any, option: Option, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.option = option

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        kind = self.option.kind
        if kind in ("on", "off"):
            values = kind == "on"
        if not hasattr(namespace, "values"):
            namespace.values = {}
        for target in self.option.targets:
            before = namespace.values.get(target, ()) if kind == "texts" else ()
            namespace.values[target] = (*before, values) if kind == "texts" else values


def parse(argv: Sequence[str]) -> Parsed:
    """Read a command line. Raises ConfigError naming the option, and the one that was meant."""
    parser = _Parser(prog="optimist", description="Serve language models.", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, about in COMMANDS.items():
        child = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        if name == "bench":
            benches = child.add_subparsers(dest="bench", metavar="WHAT", required=True)
            for bench, what in BENCHES.items():
                sub = benches.add_parser(bench, help=what, description=what, allow_abbrev=False)
                _add_options(sub, f"bench {bench}")
        else:
            _add_options(child, name)
    parsed, unknown = parser.parse_known_args(argv, Parsed(values={}))
    if getattr(parsed, "bench", None):
        parsed.command = f"bench {parsed.bench}"
    if unknown:
        raise ConfigError(_unknown(unknown[0], parsed.command or ""))
    if parsed.command is None and not parsed.version:
        raise ConfigError(f"expected a command: {', '.join(COMMANDS)} (see `optimist --help`)")
    return parsed


def _add_options(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "generate":
        parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the text to continue")
    for option in options_of(command):
        keywords: dict[str, Any] = {"help": option.effect, "dest": "values", "option": option}
        if option.kind in ("on", "off"):
            keywords["nargs"] = 0
        else:
            keywords["metavar"] = "|".join(option.choices) or _METAVARS[option.kind]
            keywords["type"] = _typed(option)
        if default := _default(command, option):
            keywords["help"] += f" (default: {default})"
        parser.add_argument(option.flag, action=_Store, default=argparse.SUPPRESS, **keywords)


def _default(command: str, option: Option) -> str:
    """What help says that holds where the option is not given; "" where that is nothing."""
    target = option.targets[0]
    value = COMMAND_DEFAULTS.get(command, {}).get(target, default_of(target))
    nothing = value is None or isinstance(value, bool) or value in ("", (), {})
    return "" if nothing else ", ".join(value) if isinstance(value, tuple) else str(value)


def _typed(option: Option) -> Callable[[str], Any]:
    read = _READERS[option.kind]

    def value(text: str) -> Any:
        if option.choices and text not in option.choices:
            raise argparse.ArgumentTypeError(
                f"expected one of {', '.join(option.choices)}, got {text!r}"
            )
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"expected {_EXPECTED[option.kind]}, got {text!r}"
            ) from None

    return value


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _biases(text: str) -> dict[int, float]:
    pairs = (part.split("=", 1) for part in text.split(","))
    return {int(token): float(value) for token, value in pairs}


def _drafts(text: str) -> int | str:
    return text if text == "auto" else int(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "text": str,
    "texts": str,
    "ints": _ints,
    "biases": _biases,
    "drafts": _drafts,
}
_METAVARS = {
    "int": "N",
    "float": "X",
    "text": "TEXT",
    "texts": "TEXT",
    "ints": "N,N,...",
    "biases": "ID=X,...",
    "drafts": "N|auto",
}
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "ints": "whole numbers such as 1,2,3",
    "biases": "pairs such as 42=-5,7=1.5",
    "drafts": "auto or a whole number",
}


def _unknown(argument: str, command: str) -> str:
    if not argument.startswith("-"):
        return f"{argument!r}: not expected here (see `optimist {command} --help`)"
    flag = argument.split("=", 1)[0]
    if flag in SUCCESSORS:
        return f"{flag}: no such option; use {SUCCESSORS[flag]}"
    known = [option.flag for option in options_of(command)]
    if near := difflib.get_close_matches(flag, known, n=1):
        return f"{flag}: `optimist {command}` has no such option; the nearest is {near[0]}"
    others = {option.flag: option.commands for option in OPTIONS}
    if near := difflib.get_close_matches(flag, others, n=1):
        whose = ", ".join(others[near[0]])
        return f"{flag}: `optimist {command}` has no such option; {near[0]} is one of {whose}"
    return f"{flag}: `optimist {command}` has no such option (see `optimist {command} --help`)"
