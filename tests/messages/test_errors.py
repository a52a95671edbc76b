"""The tree of errors: drawn as it is, and every Problem raised again as what it was."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from optimist.messages import errors
from optimist.messages.errors import Code, OptimistError, ProblemError, raised


def classes() -> list[type[OptimistError]]:
    """Every error of the module."""
    made = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in made if issubclass(kind, OptimistError)]


def test_the_drawing_names_every_error_at_its_place() -> None:
    drawn: dict[str, str] = {}
    above = {0: "OptimistError"}
    for line in (errors.__doc__ or "").splitlines():
        if branch := re.match(r"^((?:│   |    )*)[├└]── (\w+)", line):
            depth = len(branch[1]) // 4
            drawn[branch[2]] = above[depth]
            above[depth + 1] = branch[2]
    hidden = {"OptimistError", "ProblemError"}
    assert drawn.keys() == {kind.__name__ for kind in classes()} - hidden
    for kind in classes():
        if kind.__name__ not in hidden:
            parents = {base.__name__ for base in kind.__mro__}
            assert drawn[kind.__name__] in parents


def test_every_code_has_one_error() -> None:
    codes = [
        kind.code for kind in classes() if issubclass(kind, ProblemError) and "code" in vars(kind)
    ]
    assert sorted(codes) == sorted(get_args(Code))


@pytest.mark.parametrize("code", get_args(Code))
def test_a_problem_is_raised_again_as_what_it_was(code: Code) -> None:
    first = raised(errors.Problem(code=code, message="why", field="f", retry_after=1.5))
    again = raised(first.problem)
    assert type(again) is type(first)
    assert again.problem == first.problem
    assert str(again) == "why"
    assert again.code == code
    assert 400 <= again.status < 600
