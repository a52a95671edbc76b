"""`python -m optimist` is the command `optimist`."""

from __future__ import annotations

from optimist.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
