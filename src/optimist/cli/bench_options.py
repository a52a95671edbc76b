"""Options of `optimist bench` alone."""

from __future__ import annotations

from optimist.cli.option import OFFLINE, Option

QUALITY, FLOOR = ("bench quality",), ("bench floor",)
ATTENTION = ("bench attention",)

BENCH = (
    Option("--requests", OFFLINE, ("command.requests",), "int", "requests sent at once"),
    Option("--input", OFFLINE, ("command.input",), "int", "prompt tokens of each"),
    Option("--output", OFFLINE, ("command.output",), "int", "tokens generated for each"),
    Option("--tokens", QUALITY, ("command.tokens",), "int", "tokens of prose to predict at most"),
    Option(
        "--parts",
        ("bench speculation",),
        ("command.parts",),
        "text",
        "what is measured, separated by commas: ngram, suffix, self-draft, optimum, or one task as in ngram/chat_sampled; "
        "tasks are repeat, chat, chat_sampled and chat_8_at_once",
    ),
    Option(
        "--pairs",
        ("bench speculation",),
        ("command.pairs",),
        "int",
        "times that each task is given to both engines, in turn; several requests at once more often",
    ),
    Option(
        "--context",
        FLOOR,
        ("command.context",),
        "int",
        "tokens behind every row, whose keys and values a step reads",
    ),
    Option(
        "--batch",
        ATTENTION,
        ("command.batch",),
        "text",
        "rows: 8q1s1k_2q512s4k is 8 of 1 query token and 1024 in all, and 2 of 512 and 4096",
    ),
    Option(
        "--backends",
        ATTENTION,
        ("command.backends",),
        "text",
        "what attends, separated by commas: triton, cpu, torch, and flash where flash_attn is installed",
    ),
    Option(
        "--golden",
        ("bench gpu",),
        ("command.golden",),
        "text",
        "JSON file of prompts, greedy ids and margins that the GPU's ids are held against; without one "
        "those of the CPU are",
    ),
)
