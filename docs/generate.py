"""Writes the generated parts of the pages in docs/. `python docs/generate.py` brings them up to date.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; a test compares each with the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import atlas
import bound_picture
import bound_readers
import metrics_table
import msgspec
import performance_table
import speculation_table

from optimist.cli.option import Option, default_of
from optimist.cli.options import COMMAND_DEFAULTS, OPTIONS, SUCCESSORS
from optimist.engine_options import FILLED_IN
from optimist.environment import REMOVED, VARIABLES
from optimist.http.fields import Field

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table. Bars inside cells are escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |\n" for row in lines)


def edges() -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Every (sender, message, receiver) that the actors, the supervisor and its child processes
    declare, and every (message, receiver) that is accepted although nobody sends it."""
    from optimist.actors.builder.actor import Builder
    from optimist.actors.gateway.actor import Gateway
    from optimist.actors.proposer.actor import ProposerActor
    from optimist.actors.runtime.lifeline import FROM_CHILD, TO_CHILD
    from optimist.actors.scheduler.actor import Scheduler
    from optimist.actors.worker.actor import Worker

    actors = (Gateway, Scheduler, Builder, Worker, ProposerActor)
    sent = [
        (actor.name, kind.__name__, receiver) for actor in actors for receiver, kind in actor.emits
    ]
    told = {kind.__name__ for kind in TO_CHILD}
    orphans = []
    for actor in actors:
        known = {kind for _, kind, receiver in sent if receiver == actor.name}
        for name in (kind.__name__ for kind in actor.accepts):
            if name in told:
                sent.append(("supervisor", name, actor.name))
            elif name not in known:
                orphans.append((name, actor.name))
    passed_on = {kind for actor in actors for kind in actor.accepts}
    sent += [("supervisor", kind.__name__, "child") for kind in TO_CHILD if kind not in passed_on]
    sent += [("child", kind.__name__, "supervisor") for kind in FROM_CHILD]
    return sent, orphans


def message_map() -> str:
    """A graph of the actors, and the same as a table."""
    from optimist.messages.client import ClientMessage, ServerMessage

    arrows: dict[tuple[str, str], list[str]] = {}
    sent, orphans = edges()
    for sender, kind, receiver in sent:
        arrows.setdefault((sender, receiver), []).append(kind)
    arrows["client", "gateway"] = [kind.__name__ for kind in get_args(ClientMessage)]
    arrows["gateway", "client"] = [kind.__name__ for kind in get_args(ServerMessage)]
    graph = "".join(
        f"    {sender} -- {', '.join(kinds)} --> {receiver}\n"
        for (sender, receiver), kinds in arrows.items()
    )
    rows = [(a, b, ", ".join(f"`{kind}`" for kind in kinds)) for (a, b), kinds in arrows.items()]
    rows += [("nobody yet", receiver, f"`{kind}`") for kind, receiver in orphans]
    return f"```mermaid\nflowchart LR\n{graph}```\n\n" + table(("from", "to", "messages"), rows)


def options() -> str:
    """A table for each group of commands."""
    groups: dict[tuple[str, ...], list[Option]] = {}
    for option in OPTIONS:
        groups.setdefault(option.commands, []).append(option)
    text = ""
    for commands, members in groups.items():
        names = ", ".join(f"`{name}`" for name in commands)
        rows = [(_flag(one), _fields(one), _default(one), one.effect) for one in members]
        text += f"Of {names}:\n\n" + table(("option", "field", "default", "effect"), rows) + "\n"
    return text


def _flag(option: Option) -> str:
    value = "|".join(option.choices)
    return f"`{option.flag} {value}`" if value else f"`{option.flag}`"


def _fields(option: Option) -> str:
    found = [target.split(".", 1) for target in option.targets]
    return ", ".join(f"`{path}`" for root, path in found if root != "command") or "-"


def _default(option: Option) -> str:
    target = option.targets[0]
    own = _shown(default_of(target))
    special = [
        f"{_shown(values[target])} in `{command}`"
        for command, values in COMMAND_DEFAULTS.items()
        if target in values and command in option.commands
    ]
    if target.startswith("command."):
        return ", ".join(special) or own
    if len(special) == len(option.commands) == 1:
        return special[0].split(" in ")[0]
    return ", ".join([own, *special])


def _shown(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def unoptioned() -> str:
    """Fields that only Python can set."""
    from optimist.actors.config import EngineConfig

    reachable = {target for option in OPTIONS for target in option.targets}
    rows = [
        (f"`{path}`", _shown(value))
        for path, value in _leaves(EngineConfig())
        if f"config.{path}" not in reachable and tuple(path.split(".")) not in FILLED_IN
    ]
    return table(("field", "default"), rows)


def _leaves(config: msgspec.Struct, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def successors() -> str:
    """Names of options that people bring along."""
    return table(("not", "but"), [(f"`{old}`", f"`{new}`") for old, new in SUCCESSORS.items()])


def variables() -> str:
    """The environment."""
    rows = [
        (f"`{one.name}`", ", ".join(one.choices) or "text", one.default or "-", one.effect)
        for one in VARIABLES
    ]
    gone = [(f"`{old}`", "-", "-", f"removed: {new}") for old, new in REMOVED.items()]
    return table(("variable", "values", "default", "effect"), rows + gone)


def fields() -> str:
    """What each field of an HTTP body does, and what it is refused for."""
    from optimist.http import bodies
    from optimist.http.fields import fields as fields_of
    from optimist.http.fields import only

    text = ""
    for kind in (
        bodies.Sampled,
        bodies.CompletionBody,
        bodies.ChatBody,
        bodies.Turn,
        bodies.StreamOptions,
        bodies.TokenizeBody,
        bodies.DetokenizeBody,
    ):
        shared = fields_of(bodies.Sampled) if kind is not bodies.Sampled else {}
        rows = [
            (f"`{name}`", "refused" if only(one) is not None else "honoured", _field(one))
            for name, one in fields_of(kind).items()
            if name not in shared
        ]
        text += f"### {kind.__doc__}\n\n" + table(("field", "", "what it does"), rows) + "\n"
    return text


def _field(field: Field) -> str:
    values = field.extra.get("only")
    if not values:
        return field.effect
    shown = ", ".join(f"`{msgspec.json.encode(value).decode()}`" for value in values)
    return f"{field.effect}; {shown} changes nothing and is taken"


def bound_kinds() -> str:
    """What a reader of a bound may be."""
    return table(("kind", "what it does"), bound_readers.KINDS.items())


def bound_table() -> str:
    """Everyone who reads a bound, with the reason that stands beside it in the code."""
    rows = [
        (f"`{where}`", ", ".join(f"`{one}`" for one in what.split(", ")), kind, why)
        for where, what, kind, why in bound_readers.rows(bound_readers.readings())
    ]
    return table(("reader", "reads", "kind", "why it is safe"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "message-map": message_map,
    "options": options,
    "unoptioned": unoptioned,
    "successors": successors,
    "variables": variables,
    "fields": fields,
    "metrics": lambda: table(*metrics_table.metrics()),
    "bound-kinds": bound_kinds,
    "bound-readers": bound_table,
    "comparison": lambda: table(*performance_table.comparison()),
    "phases": lambda: table(*performance_table.phases()),
    "prompts": lambda: table(*performance_table.prompts()),
    "comparison-amx": lambda: table(*performance_table.comparison(performance_table.AMX)),
    "phases-amx": lambda: table(*performance_table.phases(performance_table.AMX)),
    "prompts-amx": lambda: table(*performance_table.prompts(performance_table.AMX)),
    "quality": lambda: table(*performance_table.quality()),
    "gains": lambda: table(*speculation_table.gains()),
    "optimum": lambda: table(*speculation_table.optimum()),
    "overlap": lambda: table(*speculation_table.overlap()),
    "delays": lambda: table(*speculation_table.delays()),
    "kernel-axes": lambda: atlas.axes(table),
    "kernel-operators": lambda: atlas.operators(table),
    "native-operators": lambda: atlas.native_operators(table),
    "kernel-resources": lambda: atlas.resources(table),
}

PICTURES: dict[str, Callable[[], str]] = {"length-contract.svg": bound_picture.picture}


def generated(text: str) -> str:
    """A page with its generated parts brought up to date."""
    return PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[3], text)


def main() -> None:
    """Rewrite every page and picture that has changed."""
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (new := generated(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.name}")
    for name, draw in PICTURES.items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != draw():
            path.write_text(draw(), encoding="utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    main()
