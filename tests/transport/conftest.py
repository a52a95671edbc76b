"""A private directory for sockets, links that are closed, and a receive with a time limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimist.transport.links import Links


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory of mode 0700 with a short path: pytest's own are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="o-") as directory:
        yield Path(directory)


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made
