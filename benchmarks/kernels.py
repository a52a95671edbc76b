"""What Triton kernels take and reach. `python benchmarks/kernels.py --record` compiles every shipped
configuration for every target, here, and writes docs/kernels.json: docs/kernels.md shows it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

RECORD = Path(__file__).parent.parent / "docs/kernels.json"


def record() -> None:
    """Compile everything and write down what it takes, a line for each kernel."""
    from optimist.kernels.triton_aot import TARGETS, compiled
    from optimist.kernels.triton_builds import builds
    from optimist.kernels.triton_interpreter import quiet

    quiet()
    lines = []
    for target in TARGETS:
        for name, call in builds(target).items():
            for found in compiled(name, call, target):
                for fault in found.faults():
                    print(f"{target} {name} {found.kernel}: {fault}")
                lines.append(json.dumps(found._asdict()))
    RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"wrote {len(lines)} kernels to {RECORD.name}")


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="compile, and write down resources")
    if parser.parse_args().record:
        record()


if __name__ == "__main__":
    main()
