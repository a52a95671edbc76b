"""What `import optimist` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import optimist

LIST_MODULES = """
import sys
before = set(sys.modules)
import optimist
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - set(sys.stdlib_module_names)))
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_importing_loads_nothing_but_the_standard_library() -> None:
    assert run(LIST_MODULES) == "optimist"


def test_parameters_and_errors_load_msgspec_only() -> None:
    code = LIST_MODULES.replace(
        "loaded", "optimist.SamplingParams, optimist.InvalidRequest\nloaded", 1
    )
    assert set(run(code).split()) <= {"msgspec", "optimist", "typing_extensions"}


def test_the_engine_class_loads_neither_torch_nor_http() -> None:
    code = LIST_MODULES.replace("loaded", "optimist.Engine, optimist.Client\nloaded", 1)
    assert {"torch", "starlette", "uvicorn", "tokenizers"}.isdisjoint(run(code).split())


@pytest.mark.parametrize("name", optimist.__all__)
def test_every_public_name_is_there_and_called_so(name: str) -> None:
    value = getattr(optimist, name)
    assert name == "__version__" or value.__name__ == name
    assert name in dir(optimist)


def test_the_public_names_are_sorted_and_complete() -> None:
    from optimist.messages import errors

    assert optimist.__all__ == sorted(optimist.__all__)
    of_users = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert of_users - set(optimist.__all__) == {"MailboxFull", "PeerGone"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Enigne"):
        _ = optimist.Enigne
