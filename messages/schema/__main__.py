"""Compare the committed schema and golden bytes with the code; with --write, bring them up to date."""

from __future__ import annotations

import argparse
import json
import sys

from optimist.messages.schema.compare import broken_rules
from optimist.messages.schema.generate import (
    GOLDEN_FILE,
    SCHEMA_FILE,
    golden_bytes,
    schema,
    schema_text,
)


def main() -> int:
    """Exit status 1 when the files differ from the code, or a rule of the protocol is broken."""
    parser = argparse.ArgumentParser(prog="python -m optimist.messages.schema", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write both files")
    write = parser.parse_args().write
    if SCHEMA_FILE.exists():
        broken = broken_rules(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")), schema())
        if broken:
            print(*broken, "A change like this needs a new PROTOCOL_VERSION.", sep="\n")
            return 1
    if write:
        SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
        GOLDEN_FILE.write_bytes(golden_bytes())
        return 0
    current = (
        SCHEMA_FILE.exists()
        and SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()
        and GOLDEN_FILE.read_bytes() == golden_bytes()
    )
    if not current:
        print(f"{SCHEMA_FILE.name} and {GOLDEN_FILE.name} are out of date: run this with --write")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
