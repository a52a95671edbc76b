"""Every option changes something that can be seen. The table is complete: a new option needs a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_scene import scene

from optimist.cli.options import OPTIONS

pytestmark = pytest.mark.anyio
Seen = dict[str, Any]
ASKED = ("generate", "x", "--max-tokens", "16", "--temperature", "0.7", "--seed", "5")
SERVED = ("serve", "--placement", "inline", "--port", "0")
GREEDY = ("--temperature", "0")
LOOPING = (*GREEDY, "--ignore-eos")
SELF = ("--proposer", "self-draft")
REPEATING = (*LOOPING, "--logit-bias", "7=100")
NGRAM = ("--proposer", "ngram", "--draft-tokens", "3")
"""with a number of drafts: `auto` may take none on a machine that is busy"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Effect(NamedTuple):
    """given: the option with its value. sees: what differs. besides: what must be there for it to
    matter, with and without the option."""

    given: tuple[str, ...]
    sees: Callable[[Seen], Any]
    besides: tuple[str, ...] = ASKED


def _text(*given: str, besides: tuple[str, ...] = ()) -> Effect:
    return Effect(given, lambda seen: seen["ids"], (*ASKED, *besides))


def _told(field: str, *given: str, besides: tuple[str, ...] = ()) -> Effect:
    """The worker is told; what it makes of it is for its own tests."""
    return Effect(given, lambda seen: getattr(seen["told"], field), (*ASKED, *besides))


def _seen(name: str, *given: str, besides: tuple[str, ...] = ()) -> Effect:
    return Effect(given, lambda seen: seen[name], (*ASKED, *besides))


def _served(name: str, *given: str) -> Effect:
    return Effect(given, lambda seen: seen[name], SERVED)


EFFECTS = {
    "--model": _told("model", "--model", "tests/data"),
    "--dtype": _told("dtype", "--dtype", "float32"),
    "--kernels": _seen("kernels", "--kernels", "torch"),
    "--quant": _told("quant", "--quant", "int8"),
    "--packed-cache": _told("packed_cache", "--packed-cache", "tests/data/none"),
    "--device": _seen("error", "--device", "cuda:99"),
    "--kv-dtype": _told("kv_dtype", "--kv-dtype", "int8"),
    "--torch-compile": _told("torch_compile", "--torch-compile", "aot_eager"),
    "--reserve-mb": _told("reserve_mb", "--reserve-mb", "7"),
    "--no-graphs": _told("graphs", "--no-graphs"),
    "--threads": _told("threads", "--threads", "1"),
    "--kv-memory-mb": _told("kv_memory_mb", "--kv-memory-mb", "64"),
    "--placement": _seen("cells", "--placement", "embedded"),
    "--group": _seen("cells", "--group", "scheduler+builder", besides=("--placement", "processes")),
    "--depth": _seen("steps", "--depth", "1", besides=GREEDY),
    "--proposer": _seen("steps", *NGRAM, besides=REPEATING),
    "--proposer-option": _seen(
        *("steps", "--proposer-option", "ngram_max=40", "--proposer-option", "ngram_min=40"),
        besides=(*NGRAM, *REPEATING),
    ),
    "--draft-wait": _told("draft_wait", "--draft-wait", "0.25", besides=("--proposer", "ngram")),
    "--draft-tokens": _told("most_drafts", "--draft-tokens", "1", besides=("--proposer", "ngram")),
    "--draft-layers": _told("draft_layers", "--draft-layers", "1", besides=SELF),
    "--draft-model": _seen("error", "--draft-model", "tests/data"),
    "--verify": _told("verify", "--verify", "rejection", besides=SELF),
    "--max-model-len": _seen("max_model_len", "--max-model-len", "40"),
    "--block-size": _seen("cached", "--block-size", "4"),
    "--kv-blocks": _seen("num_blocks", "--kv-blocks", "77"),
    "--max-slots": _seen("most_rows", "--max-slots", "1"),
    "--max-batch-tokens": _seen(
        "largest_step", "--max-batch-tokens", "20", besides=("--max-slots", "2")
    ),
    "--max-chunk": _seen("largest_step", "--max-chunk", "5"),
    "--max-waiting": _seen("refused", "--max-waiting", "1", besides=("--max-slots", "1")),
    "--no-prefix-cache": _seen("cached", "--no-prefix-cache"),
    "--start-timeout": _seen(
        "error", "--start-timeout", "0.01", besides=("--placement", "processes")
    ),
    "--host": _served("details", "--host", "127.0.0.2"),
    "--zmq": _served("details", "--zmq", "tcp://127.0.0.1:*"),
    "--model-name": _served("name", "--model-name", "mine"),
    "--max-requests": _served("error", "--max-requests", "1"),
    "--credit": _served("ahead", "--credit", "4"),
    "--max-tokens": _text("--max-tokens", "3"),
    "--temperature": _text("--temperature", "0"),
    "--seed": _text("--seed", "6"),
    "--top-p": _text("--top-p", "0.01"),
    "--top-k": _text("--top-k", "1"),
    "--min-p": _text("--min-p", "1"),
    "--stop": _text("--stop", "@"),
    "--stop-token-ids": _text("--stop-token-ids", "139"),
    "--ignore-eos": _text("--ignore-eos", besides=GREEDY),
    "--min-tokens": _text("--min-tokens", "10", besides=GREEDY),
    "--presence-penalty": _text("--presence-penalty", "2", besides=LOOPING),
    "--frequency-penalty": _text("--frequency-penalty", "2", besides=LOOPING),
    "--repetition-penalty": _text("--repetition-penalty", "9"),
    "--logit-bias": _text("--logit-bias", "7=100"),
}
ELSEWHERE = {
    "--port": "test_cli_serve.py",
    "--zmq-keys": "test_cli_keys.py",
    "--drain-timeout": "test_cli_serve.py",
    "--stop-timeout": "test_cli_supervision.py",
    "--restarts": "test_cli_supervision.py",
    "--restart-window": "test_cli_supervision.py",
    "--hang-timeout": "test_cli_supervision.py",
    "--prompt-ids": "test_cli_commands.py",
    "--chat": "test_cli_commands.py",
    "--system": "test_cli_commands.py",
    "--requests": "test_cli_commands.py",
    "--input": "test_cli_commands.py",
    "--output": "test_cli_commands.py",
    "--json": "test_cli_commands.py",
    "--tokens": "../bench/test_quality.py",
    "--context": "../bench/test_floor.py",
    "--batch": "../bench/test_attention.py",
    "--backends": "../bench/test_attention.py",
    "--golden": "../bench/test_gpu.py",
    "--parts": "../bench/test_overlap.py",
    "--pairs": "../bench/test_overlap.py",
}
"""Options whose effect needs another scene, and the file that has it."""


_WITHOUT: dict[tuple[str, ...], Seen] = {}


@pytest.mark.parametrize("flag", EFFECTS)
async def test_the_option_changes_what_is_seen(flag: str) -> None:
    effect = EFFECTS[flag]
    assert effect.given[0] == flag
    if effect.besides not in _WITHOUT:
        _WITHOUT[effect.besides] = await scene(*effect.besides)
    without = _WITHOUT[effect.besides]
    given = await scene(*effect.besides, *effect.given)
    assert without["error"] == ""
    assert effect.sees(given) != effect.sees(without)


def test_no_option_is_without_an_effect() -> None:
    assert set(EFFECTS) | set(ELSEWHERE) == {option.flag for option in OPTIONS}
    for flag, name in ELSEWHERE.items():
        assert f'"{flag}"' in (Path(__file__).parent / name).read_text(encoding="utf-8")
