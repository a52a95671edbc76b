"""The command `optimist`: reads its arguments, then imports only what the command needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from optimist.cli.options import by_option
from optimist.cli.parser import Parsed, parse
from optimist.environment import check_environment
from optimist.messages.errors import ConfigError, InvalidRequest, OptimistError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 failed, 2 wrongly called, 130 interrupted."""
    command = ""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        check_environment(os.environ)
        parsed = parse(sys.argv[1:] if argv is None else argv)
        if parsed.version:
            return _version()
        command = parsed.command
        return _command(command)(parsed)
    except OptimistError as error:
        print(f"optimist: {by_option(str(error), command)}", file=sys.stderr)
        return _status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _status(error: OptimistError) -> int:
    """Of a command that ended with this error: whose fault it was."""
    wrong = isinstance(error, ConfigError | InvalidRequest)
    return USAGE if wrong else FAILED


def _version() -> int:
    from importlib.metadata import version

    print(f"optimist {version('optimist')}")
    return OK


def _command(name: str) -> Callable[[Parsed], int]:
    """What runs a command, from its own module."""
    module = import_module(f"optimist.cli.{name.partition(' ')[0]}")
    run: Callable[[Parsed], int] = module.run
    return run
