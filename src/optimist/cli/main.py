"""The command `optimist`: reads its arguments, then imports only what the command needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from optimist.cli.parser import Parsed, parse
from optimist.environment import check_environment
from optimist.messages.errors import ConfigError, OptimistError, ProblemError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 failed, 2 wrongly called, 130 interrupted."""
    try:
        check_environment(os.environ)
        parsed = parse(sys.argv[1:] if argv is None else argv)
        if parsed.version:
            return _version()
        return _command(parsed.command)(parsed)
    except ConfigError as error:
        return _complain(error, USAGE)
    except ProblemError as error:
        return _complain(error, USAGE if error.code == "invalid_request" else FAILED)
    except OptimistError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _complain(error: Exception, status: int) -> int:
    print(f"optimist: {error}", file=sys.stderr)
    return status


def _version() -> int:
    from importlib.metadata import version

    print(f"optimist {version('optimist')}")
    return OK


def _command(name: str) -> Callable[[Parsed], int]:
    """What runs a command, from its own module."""
    module = import_module(f"optimist.cli.{name.partition(' ')[0]}")
    run: Callable[[Parsed], int] = module.run
    return run
