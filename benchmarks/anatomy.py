"""Where a step's time goes: phases of the native library beside the time that its reads take.

    python benchmarks/anatomy.py [--quant int8] [--kv auto] [--context 256] [--steps 40] [--json] [--svg FILE]
    python benchmarks/anatomy.py --prefill 1024 [--chunk 1024] [--quant int8] [--json]

A phase is the time of the first thread; `wait` is what it waits for the others. The floor is the time that
reading the weights and the cached keys and values takes at the bandwidth probed beside each batch.
With --prefill: the rate at which a prompt is read, beside what the machine multiplies out of registers.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from optimist.bench import floor
from optimist.bench.readers import BLOCK, GREEDY
from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.shapes import Rows
from optimist.models.default import default_model
from optimist.models.native import Sizes, load_device
from optimist.models.quantisation import Formats
from optimist.models.source import WeightSource, open_source

SHOWN = {
    "norm": "#9a9a9a",
    "qkv": "#4e79a7",
    "rope": "#a0cbe8",
    "attention": "#e15759",
    "o": "#76b7b2",
    "gate_up": "#59a14f",
    "down": "#8cd17d",
    "head": "#f28e2b",
    "other": "#d0d0d0",
    "wait": "#b07aa1",
}
"""phases of the picture, and their colours"""


def prepare(device: NativeDevice, rows: int, context: int) -> None:
    """So many requests whose next step sees `context` tokens."""
    device.reset()
    rng, blocks = np.random.default_rng(0), -(-device.shape.max_len // BLOCK)
    table = np.arange(blocks, dtype=np.int32)
    for slot in range(rows):
        ids = rng.integers(0, device.shape.vocab, context - 1).astype(np.int32)
        device.open_slot(slot, ids, 0, GREEDY)
        device.set_blocks(np.full_like(table, slot), table, table + slot * blocks)
        device.step(_rows([slot], context - 1))


def measure(device: NativeDevice, rows: int, steps: int) -> dict[str, Any]:
    """Milliseconds of a step, median, and of each phase, mean. The rows grow by a token each step."""
    asked = _rows(range(rows), 1)
    device.step(asked)
    device.profile()
    taken = []
    for _ in range(steps):
        begun = time.perf_counter()
        device.step(asked)
        taken.append(1000 * (time.perf_counter() - begun))
    phases = {name: 1000 * seconds / steps for name, seconds in device.profile().items()}
    found = {name: phases.get(name, 0.0) for name in SHOWN}
    found["other"] = max(0.0, sum(taken) / steps - sum(found.values()))
    return {"rows": rows, "step_ms": median(taken), "phases_ms": found}


def prefill(device: NativeDevice, tokens: int, times: int) -> dict[str, Any]:
    """The rate at which one prompt is read in chunks as large as a step takes, best and median."""
    rng, blocks = np.random.default_rng(0), np.arange(-(-tokens // BLOCK), dtype=np.int32)
    ids = rng.integers(0, device.shape.vocab, tokens).astype(np.int32)
    taken, chunk = [], min(tokens, device.shape.max_tokens)
    for _ in range(times):
        device.reset()
        device.open_slot(0, ids, 0, GREEDY)
        device.set_blocks(np.zeros_like(blocks), blocks, blocks)
        begun = time.perf_counter()
        for at in range(0, tokens, chunk):
            device.step(_rows([0], min(chunk, tokens - at), samples=at + chunk >= tokens))
        taken.append(time.perf_counter() - begun)
    return {
        "prompt": tokens,
        "tokens_per_s": round(tokens / median(taken), 1),
        "best_tokens_per_s": round(tokens / min(taken), 1),
    }


def _rows(slots: Sequence[int], query: int, *, samples: bool = True) -> Rows:
    ones = np.ones(len(slots), np.int32)
    return Rows(
        *(np.array(slots, np.int32), query * ones, -ones),
        *(int(samples) * ones, 0 * ones, np.zeros(0, np.int32)),
    )


def picture(found: Sequence[dict[str, Any]], title: str) -> str:
    """Bars of phases, in milliseconds, with a mark at the floor: an SVG."""
    longest = max(max(sum(each["phases_ms"].values()), each["floor_ms"]) for each in found)
    scale, left, top, height = 560 / longest, 70, 40, 46
    out = [f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>']
    for number, each in enumerate(found):
        x, y = float(left), top + number * height
        out.append(f'<text x="10" y="{y + 19}">{each["rows"]} row{"s" * (each["rows"] > 1)}</text>')
        for name, taken in each["phases_ms"].items():
            width = taken * scale
            colour = SHOWN[name]
            out.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" fill="{colour}"/>'
            )
            x += width
        out.append(f'<text x="{x + 6:.1f}" y="{y + 19}">{each["step_ms"]:.2f} ms</text>')
        at = left + each["floor_ms"] * scale
        out.append(f'<path d="M{at:.1f} {y - 5}v38" stroke="black" stroke-width="2"/>')
    y = top + len(found) * height + 8
    for number, (name, colour) in enumerate(SHOWN.items()):
        x, row = left + number % 5 * 120, y + number // 5 * 20
        out.append(f'<rect x="{x}" y="{row}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{x + 17}" y="{row + 11}">{name}</text>')
    out.append(f'<text x="{left}" y="{y + 56}">black mark: the floor</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{y + 66}"'
    style = ' font-family="sans-serif" font-size="13">'
    back = f'<rect width="720" height="{y + 66}" fill="white"/>'
    return "\n".join([head + style, back, *out, "</svg>\n"])


def main() -> None:
    """Print what was measured, and draw it if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--quant", default="int8", choices=["none", "int8", "int4"])
    parser.add_argument("--kv", default="auto", choices=["auto", "bfloat16", "int8"])
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument(
        "--prefill", type=int, default=0, help="tokens of a prompt, in place of steps"
    )
    parser.add_argument("--chunk", type=int, default=1024, help="of a prompt, in one step")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg")
    asked = parser.parse_args()
    with open_source(asked.model or default_model()) as source:
        found = [_prompt(source, asked)] if asked.prefill else list(_steps(source, asked))
    if asked.svg and not asked.prefill:
        title = f"A decode step, {asked.quant}, {asked.context} tokens behind each row"
        Path(asked.svg).write_text(picture(found, title), encoding="utf-8")


def _device(
    source: WeightSource, asked: argparse.Namespace, rows: int, room: int, most: int
) -> NativeDevice:
    kept = Formats(source, asked.quant).kept(asked.kv)
    sizes = Sizes(BLOCK, rows * room // BLOCK, rows, room, most, asked.threads, kept)
    return load_device(source, sizes, quant=asked.quant)


def _steps(source: WeightSource, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    batches = [int(value) for value in asked.batches.split(",")]
    room = -(-(asked.context + asked.steps + 2) // BLOCK) * BLOCK
    device = _device(source, asked, max(batches), room, max(room, *batches))
    weights = floor.step_bytes(source, asked.quant)
    token = floor.token_bytes(source, asked.quant, asked.kv)
    for rows in batches:
        prepare(device, rows, asked.context)
        each = measure(device, rows, asked.steps)
        speed = floor.bandwidth(weights, asked.threads)
        size = weights + rows * token * (asked.context + asked.steps // 2)
        each |= {"gb_per_s": speed / 1e9, "floor_ms": 1000 * size / speed}
        print(json.dumps(each) if asked.json else _line(each), flush=True)
        yield each
    device.close()


def _prompt(source: WeightSource, asked: argparse.Namespace) -> dict[str, Any]:
    """The rate of a prompt beside what the machine can multiply."""
    room = -(-(asked.prefill + 1) // BLOCK) * BLOCK
    device = _device(source, asked, 1, room, min(asked.chunk, asked.prefill))
    found = prefill(device, asked.prefill, max(3, asked.steps // 4))
    device.close()
    peak = floor.peak(asked.quant, asked.threads)
    done = floor.prompt_operations(source, asked.prefill) / asked.prefill
    found |= {
        "threads": asked.threads,
        "peak_gops": round(peak / 1e9, 1),
        "of_the_peak": round(found["tokens_per_s"] * done / peak, 3),
    }
    print(json.dumps(found) if asked.json else found, flush=True)
    return found


def _line(each: dict[str, Any]) -> str:
    phases = "  ".join(f"{name} {taken:.2f}" for name, taken in each["phases_ms"].items())
    share = each["floor_ms"] / each["step_ms"]
    head = f"{each['rows']:>3} rows  {each['step_ms']:.2f} ms, {share:.0%} of the floor"
    return f"{head} ({each['gb_per_s']:.0f} GB/s)  {phases}"


if __name__ == "__main__":
    main()
