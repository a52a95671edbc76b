"""Mistakes that are planted on purpose, and what must be said of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from optimist.testing.matrix import MatrixRed
from optimist.testing.simulation import SeedFailed

RED = (MatrixRed, SeedFailed)

Planted = Sequence[tuple[Any, str, Any]]
"""Owner, name of what it has, and the mistake in its place."""


def each(planted: Planted) -> pytest.MarkDecorator:
    """A test takes them one by one: owner, name, mistake."""
    names = [mistake.__name__ for _, _, mistake in planted]
    return pytest.mark.parametrize(("owner", "name", "mistake"), planted, ids=names)


def turns_red(check: Callable[[], None], owner: Any, name: str, mistake: Any) -> None:
    """Plant it, and fail unless `check` does."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RED):
        patch.setattr(owner, name, mistake)
        check()
