"""The compiled library: found, of the right version, for this machine's instruction set."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from native_toy import device

from optimist.kernels.native import library
from optimist.kernels.native.library import FORCED, here, instruction_set, left_out
from optimist.messages.errors import ConfigError

SMALL_STACK = """
import ctypes
from optimist.kernels.native.library import here

class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

room = ctypes.create_string_buffer(4096)
given = Stack(ctypes.addressof(room), 0, len(room))
assert not ctypes.CDLL(None, use_errno=True).sigaltstack(ctypes.byref(given), None)
print(*here())
"""
"""a process whose signals have a stack of 4 KB"""


def test_an_instruction_set_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*portable, got 'sse9'"):
        instruction_set("sse9")
    assert instruction_set() == here()[0]


def test_a_variable_forces_a_set_and_one_that_is_named_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(FORCED, "portable")
    with contextlib.closing(device()) as network:
        assert network.isa == "portable"
    assert instruction_set(here()[0]) == here()[0]
    monkeypatch.setenv(FORCED, "sse9")
    with pytest.raises(ConfigError, match=rf"{FORCED}: expected one of .*portable, got 'sse9'"):
        instruction_set()


def test_without_room_to_save_tiles_no_set_that_has_them_is_taken() -> None:
    found = subprocess.run(
        (sys.executable, "-c", SMALL_STACK), capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [name for name in here() if name != "amx"]


def test_this_compiler_leaves_nothing_out() -> None:
    assert left_out() == []


def test_one_that_was_not_built_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    library.library.cache_clear()
    assert "install a C++ compiler" in library.missing()
    library.library.cache_clear()


def test_one_of_another_version_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ABI", 0)
    library.library.cache_clear()
    assert "install the package again" in library.missing()
    library.library.cache_clear()


def test_one_that_lacks_a_function_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(library)["_FUNCTIONS"], "native_dance", (None, ()))
    library.library.cache_clear()
    assert "expected native_dance, it has none: install" in library.missing()
    library.library.cache_clear()
