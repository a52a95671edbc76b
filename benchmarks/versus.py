"""Ours beside its peers, row by row, in pairs, with the memory bandwidth probed beside each figure.

    python benchmarks/versus.py --row decode-1-int8 --peer llamacpp=BIN,int8=MODEL.gguf --pairs 3
    python benchmarks/versus.py --row all --peer ... --json results.json
    python benchmarks/versus.py --draw results.json --plot throughput.png

A peer runs in an environment of its own: --peer NAME=PATH,model=MODEL or NAME=PATH,bf16=A,int8=B,int4=C.
llamacpp: PATH is the folder of its programs, models are GGUF files. openvino, vllm, transformers: PATH is
the Python of an environment that has them, models are folders. A row runs with the peer that was best when
the table was made where that is given, with all that can otherwise, and with all under --every-peer. Rows:
those of the table, or decode-N-FORMAT, batch-N-FORMAT and prefill-N-FORMAT of any size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from duel.child import PeerFailed
from duel.ours import Ours
from duel.pairs import compare
from duel.peers import runners
from duel.plot import draw
from duel.prompts import Prompts
from duel.rows import ROWS, SCHEDULER, Row, row
from duel.runner import Runner

from optimist.bench import floor
from optimist.models.default import default_model
from optimist.models.tokenizer import load_tokenizer

PROBED = 256 << 20
"""bytes that the probe reads over and over"""


def positive(text: str) -> int:
    """A number from 1 on. Raises ArgumentTypeError for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="append", default=[], help="a row, or all; may be repeated")
    parser.add_argument("--peer", action="append", default=[], help="may be repeated")
    parser.add_argument("--pairs", type=positive, default=3, help="rounds of each row")
    parser.add_argument("--every-peer", action="store_true", help="not only the best one")
    parser.add_argument("--model", default="", help="of ours; not given: the default one")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="file for the results, written after every row")
    parser.add_argument("--draw", help="file with results, instead of measuring")
    parser.add_argument("--plot", help="PNG of throughput against batch, with the floor")
    return parser.parse_args()


def rivals(wanted: Row, peers: Sequence[Runner], *, everyone: bool) -> list[Runner]:
    """Who a row runs with."""
    able = [peer for peer in peers if peer.can(wanted)]
    best = [peer for peer in able if peer.name == wanted.rival]
    return able if everyone or not best else best


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Every row that was asked for. One that fails says so and does not end the others."""
    wanted = [*SCHEDULER, *ROWS] if "all" in asked.row else [row(name) for name in asked.row]
    model = asked.model or str(default_model())
    prompts = Prompts(load_tokenizer(model).encode)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="versus-") as logs:
        peers = runners(asked.peer, prompts, asked.threads, Path(logs))
        ours = Ours(model, prompts, asked.threads, Path(logs))
        probe = partial(floor.bandwidth, PROBED, asked.threads)
        try:
            for each in wanted:
                begun = time.perf_counter()
                sides = rivals(row(each.name), peers, everyone=asked.every_peer)
                for idle in set(peers) - set(sides):
                    idle.close()
                try:
                    found = compare(row(each.name), ours, sides, asked.pairs, probe)
                except PeerFailed as error:
                    found = dict[str, Any](row=each.name, failed=str(error))
                found["seconds"] = round(time.perf_counter() - begun, 1)
                results.append(found)
                print(line(found), flush=True)
                if asked.json:
                    Path(asked.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
        finally:
            for side in (*peers, ours):
                side.close()
    return results


def line(found: dict[str, Any]) -> str:
    """A row for people."""
    if "failed" in found:
        return f"{found['row']:<18} FAILED: {found['failed']}"
    sides = {"ours": found["ours"], **found["peers"]}
    shown = "  ".join(f"{name} {side['median']:g}" for name, side in sides.items())
    ratio = found.get("ratio")
    if wait := found.get("ttft_ratio"):
        shown += f"  first token {wait['median']:g} of the peer's"
    spread = f"  ratio {ratio['median']:g} ({ratio['low']:g}-{ratio['high']:g})" if ratio else ""
    met = {True: "met", False: "MISSED", None: "nothing beside it"}[found["met"]]
    asked = "nothing asked" if found["asked"] is None else f"asked {found['asked']:g}: {met}"
    read = " ".join(f"{value:g}" for value in found["ours"]["gb_per_s"])
    head = f"{found['row']:<18} {shown} {found['unit']}{spread}"
    return f"{head}  {asked}  [{read} GB/s, {found['seconds']:g} s]"


def main() -> int:
    """Measure, or draw what was measured. Returns the exit status."""
    asked = options()
    try:
        if asked.draw:
            drawn = json.loads(Path(asked.draw).read_text(encoding="utf-8"))
            results = [*drawn["rows"], *drawn["curve"]] if isinstance(drawn, dict) else drawn
        else:
            results = measure(asked)
        if asked.plot:
            draw(results, asked.model or str(default_model()), Path(asked.plot))
    except PeerFailed as error:
        print(f"versus: {error}", file=sys.stderr)
        return 2
    return int(any("failed" in found for found in results))


if __name__ == "__main__":
    raise SystemExit(main())
