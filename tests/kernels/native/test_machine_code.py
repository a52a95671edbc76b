"""What the compiler made of the inner loops: their accumulators stay in registers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from optimist.kernels.native.library import library

KERNELS = ("bf16_tile", "int8_tile", "int4_tile", "5score", "5weigh", "spin_")
"""as their mangled names contain them"""

_HEAD = re.compile(r"^[0-9a-f]+ <(\w+)>:$")
_ON_STACK = re.compile(r"%[xyz]mm.*\(%r[sb]p|\(%r[sb]p.*%[xyz]mm")


def functions(listing: str) -> Iterator[tuple[str, list[str]]]:
    """Mangled name and instructions of every function."""
    name, lines = "", list[str]()
    for line in listing.splitlines():
        if head := _HEAD.match(line):
            if name:
                yield name, lines
            name, lines = head[1], []
        else:
            lines.append(line)
    if name:
        yield name, lines


def spills(lines: list[str]) -> int:
    """Instructions that move a vector register to or from the stack."""
    return sum(1 for line in lines if _ON_STACK.search(line))


@pytest.fixture(scope="module")
def kernels() -> dict[str, list[str]]:
    """The inner loops of every instruction set, as instructions."""
    path = library()._name  # noqa: SLF001
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = functions(listing)
    return {name: lines for name, lines in found if any(part in name for part in KERNELS)}


@pytest.mark.parametrize(
    ("isa", "register", "least"),
    [("avx512", "%zmm", 90), ("avxvnni", "%ymm", 20), ("avx2", "%ymm", 20)],
)
def test_no_accumulator_is_spilled(
    kernels: dict[str, list[str]], isa: str, register: str, least: int
) -> None:
    mine = {name: lines for name, lines in kernels.items() if f"{len(isa)}{isa}" in name}
    assert len(mine) >= least
    assert all(any(register in line for line in lines) for lines in mine.values())
    assert {name: count for name, lines in mine.items() if (count := spills(lines))} == {}


def test_a_planted_spill_is_counted() -> None:
    listing = (
        "0000000000001000 <_Z4tilev>:\n"
        "    1000:\tvmovaps %zmm1,0x40(%rsp)\n"
        "    1008:\tvmovups 0x40(%rax),%zmm2\n"
        "    1010:\tvpaddd -0x80(%rbp),%ymm3,%ymm3\n"
        "    1018:\tmov    0x8(%rsp),%rdx\n"
        "0000000000002000 <_Z5othev>:\n"
        "    2000:\tret\n"
    )
    assert [(name, spills(lines)) for name, lines in functions(listing)] == [
        ("_Z4tilev", 2),
        ("_Z5othev", 0),
    ]
