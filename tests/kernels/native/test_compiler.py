"""A compiler that does not know an instruction set: the library is built without that one."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from optimist.kernels.native.library import SETS

ROOT = Path(__file__).parents[3]
TABLES = {
    "amx": "kAmx",
    "avx512": "kAvx512",
    "avxvnni": "kAvxVnni",
    "avx2": "kAvx2",
    "portable": "kPortable",
}
ASKED = """#include "isa.h"
NATIVE_API int built(const char* name) { return native::is_built(name); }
NATIVE_API const char* best() { return native::find_isa("")->name; }
"""
COMPILER = """#!/bin/sh
case " $* " in *" {refused} "*) echo "unrecognized option {refused}" >&2; exit 1;; esac
exec {real} "$@"
"""


def sources(folder: Path) -> None:
    """The choice among sets as it is, and in place of each set a table with its name."""
    folder.mkdir(parents=True)
    for name in ("cpu.cpp", "isa.h", "abi.h"):
        shutil.copy(ROOT / "kernels" / "native" / name, folder)
    for name, table in TABLES.items():
        text = (
            f'#include "isa.h"\nnamespace native {{ extern const Isa {table} = {{"{name}"}}; }}\n'
        )
        (folder / f"isa_{name}.cpp").write_text(text)
    (folder / "asked.cpp").write_text(ASKED)


def compiler(path: Path, refused: str) -> Path:
    """The system's, which says that it does not know an option."""
    path.write_text(COMPILER.format(refused=refused, real=shutil.which("g++")))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("refused", "absent"),
    [
        ("-mavxvnni", {"avxvnni"}),
        ("-mavx512bf16", {"amx", "avx512"}),
        ("-mamx-int8", {"amx"}),
    ],
)
def test_a_set_that_the_compiler_does_not_know_is_left_out(
    tmp_path: Path, refused: str, absent: set[str]
) -> None:
    sources(tmp_path / "kernels" / "native")
    shutil.copy(ROOT / "setup.py", tmp_path)
    given = str(compiler(tmp_path / "compiler", refused))
    done = subprocess.run(
        [
            sys.executable,
            "setup.py",
            "-q",
            "build_ext",
            "--build-lib",
            "made",
            "--build-temp",
            "tmp",
        ],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "CC": given, "CXX": given},
        capture_output=True,
        text=True,
    )
    (path,) = (tmp_path / "made").rglob("*.so")
    made = ctypes.CDLL(str(path))
    made.best.restype = ctypes.c_char_p
    there = {name for name in SETS if made.built(name.encode())}
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    assert there == (set(SETS) - absent if x86 else {"portable"})
    assert made.best().decode() in there
    assert not x86 or f"isa_{absent.copy().pop()} is left out" in done.stderr
