"""Measures all that docs/performance.md and docs/speculation.md show, and writes it down. A quiet machine: 25 minutes.

    python benchmarks/record.py --peer llamacpp=BIN,bf16=A.gguf,... --peer openvino=PYTHON,bf16=FOLDER,...
    python docs/generate.py

--record FILE writes another file of docs/, of another machine.

The peers are those of versus.py. A part that fails or takes too long keeps what was written down before.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent
DOCS = BENCHMARKS.parent / "docs"
RECORD = "performance.json"

CURVE = tuple(f"batch-{size}-{kind}" for kind in ("bf16", "int8") for size in (1, 2, 4, 16))


def run(seconds: float, *command: str) -> str:
    """What a Python program prints. Interrupted when it takes longer: what it had said counts."""
    with subprocess.Popen((sys.executable, *command), stdout=subprocess.PIPE, text=True) as process:
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return process.communicate()[0]


def anatomy(record: Path) -> dict[str, Any]:
    """Phases of a step in two formats, and the picture of one beside the record."""
    script = str(BENCHMARKS / "anatomy.py")
    picture = ("--svg", str(record.with_suffix(".svg")))
    found = {}
    for quant, more in (("int8", picture), ("none", ())):
        said = run(60, script, "--quant", quant, "--json", *more)
        found[quant] = [json.loads(line) for line in said.splitlines()]
    return found


def prompts() -> dict[str, Any]:
    """The rate of a prompt in two formats, beside what the machine multiplies."""
    script, found = str(BENCHMARKS / "anatomy.py"), {}
    for quant in ("int8", "none"):
        found[quant] = json.loads(run(60, script, "--quant", quant, "--prefill", "1024", "--json"))
    return found


def bench(command: str, seconds: float) -> dict[str, Any]:
    """What `optimist bench` says."""
    found: dict[str, Any] = json.loads(run(seconds, "-m", "optimist", "bench", command, "--json"))
    return found


def versus(
    record: Path, rows: Sequence[str], peers: Sequence[str], pairs: int, seconds: float
) -> list[Any]:
    """Results of these rows, those that were reached in time."""
    out = record.with_suffix(".part")
    command = [str(BENCHMARKS / "versus.py"), "--json", str(out), "--pairs", str(pairs)]
    for flag, values in (("--row", rows), ("--peer", peers)):
        command += [part for value in values for part in (flag, value)]
    print(run(seconds, *command), flush=True)
    results: list[Any] = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    return results


def main() -> None:
    """Each part in turn; the record is written after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=540, help="of the comparison at most")
    parser.add_argument("--only", action="append", default=[], help="a part; may be repeated")
    parser.add_argument("--record", default=RECORD, help="file of docs/ to write")
    asked = parser.parse_args()
    record = DOCS / asked.record
    if not record.exists():
        record.write_text("{}\n", encoding="utf-8")
    parts: dict[str, Callable[[], Any]] = {
        "anatomy": lambda: anatomy(record),
        "prompts": prompts,
        "floor": lambda: bench("floor", 60),
        "rows": lambda: versus(record, ["all"], asked.peer, asked.pairs, asked.seconds),
        "curve": lambda: versus(record, CURVE, [p for p in asked.peer if "openvino" in p], 1, 150),
        "quality": lambda: bench("quality", 800),
        "overlap": lambda: bench("overlap", 300),
        "speculation": lambda: bench("speculation", 600),
    }
    for name in asked.only or parts:
        try:
            found = parts[name]()
        except (OSError, ValueError, KeyError) as error:
            print(f"record: {name} keeps what it was: {error!r}", file=sys.stderr)
            continue
        written = json.loads(record.read_text(encoding="utf-8"))
        if name == "rows":
            found = [*found, *_others(written.get("rows", []), found)]
        written[name] = found
        record.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def _others(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """Rows that were measured before and were not reached now."""
    reached = {found["row"] for found in now}
    return [found for found in before if found["row"] not in reached]


if __name__ == "__main__":
    main()
