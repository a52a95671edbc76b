"""Options of `optimist bench` alone."""

from __future__ import annotations

from optimist.cli.option import OFFLINE, Option

QUALITY, FLOOR = ("bench quality",), ("bench floor",)

BENCH = (
    Option("--requests", OFFLINE, ("command.requests",), "int", "requests sent at once"),
    Option("--input", OFFLINE, ("command.input",), "int", "prompt tokens of each"),
    Option("--output", OFFLINE, ("command.output",), "int", "tokens generated for each"),
    Option("--tokens", QUALITY, ("command.tokens",), "int", "tokens of prose to predict at most"),
    Option(
        "--context",
        FLOOR,
        ("command.context",),
        "int",
        "tokens behind every row, whose keys and values a step reads",
    ),
)
