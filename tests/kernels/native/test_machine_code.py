"""What the compiler made of the kernels: accumulators stay in registers, and little else is on the stack."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from optimist.kernels.native.library import library

BOUNDS = {
    "run_tile": 2,  # addresses, once for a tile
    "score_tokens": 27,  # scalars kept over calls of logarithms, once for a token that stands out
    "report": 31,  # likewise
    "choose": 28,  # likewise, inlined
    "likelihood": 10,  # likewise
    "merge": 26,  # a head's values are an array on the stack, of any width: read there, not moved there
    "rope": 34,  # likewise, turned and normed
    "attend_chunk": 43,  # coefficients of the exponential, for want of registers; no accumulator
    "attend": 2,  # as merge
}
"""accesses to the stack that a function may have beside an inner loop's, which has none: see docs/native.md"""

INNER = re.compile(r"(?:bf16|int8|int4)_tile|score$|weigh$|spin_|read_memory|\w+_matrix$")
"""names of inner loops"""

_NAME = re.compile(r"_ZN6native\d+(amx|avx512|avxvnni|avx2)12_GLOBAL__N_1(\d+)(\w+)")
_HEAD = re.compile(r"^[0-9a-f]+ <([\w.]+)>:$")
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


def named(mangled: str) -> tuple[str, str]:
    """Instruction set and plain name of a kernel, "" where it is none."""
    if found := _NAME.match(mangled):
        return found[1], found[3][: int(found[2])]
    return "", ""


@pytest.fixture(scope="module")
def kernels() -> dict[str, dict[str, list[str]]]:
    """Every function of every instruction set, by its mangled name, as instructions."""
    path = library()._name  # noqa: SLF001
    command = ["objdump", "-d", "--no-show-raw-insn", path]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, list[str]]] = {}
    for name, lines in functions(listing):
        found.setdefault(named(name)[0], {})[name] = lines
    return found


@pytest.mark.parametrize(
    ("isa", "register", "least"),
    [("amx", "[zt]mm", 90), ("avx512", "%zmm", 90), ("avxvnni", "%ymm", 20), ("avx2", "%ymm", 20)],
)
def test_no_accumulator_is_spilled(
    kernels: dict[str, dict[str, list[str]]], isa: str, register: str, least: int
) -> None:
    inner = {name: lines for name, lines in kernels[isa].items() if INNER.match(named(name)[1])}
    assert len(inner) >= least
    assert all(any(re.search(register, line) for line in lines) for lines in inner.values())
    assert {name: count for name, lines in inner.items() if (count := spills(lines))} == {}


@pytest.mark.parametrize("isa", ["amx", "avx512", "avxvnni", "avx2"])
def test_no_other_kernel_uses_the_stack_more_than_is_said(
    kernels: dict[str, dict[str, list[str]]], isa: str
) -> None:
    counts = {named(name)[1]: spills(lines) for name, lines in kernels[isa].items()}
    assert set(BOUNDS) <= set(counts)
    assert {name: n for name, n in counts.items() if n > BOUNDS.get(name, 0)} == {}


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
