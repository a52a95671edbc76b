"""Every shipped configuration compiles for every target, and takes no more than what is on record."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from house import ROOT

from optimist.kernels.triton_builds import builds
from optimist.kernels.triton_interpreter import SWITCH

TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")
RECORD = ROOT / "docs/kernels.json"
COMPILERS = 2
"""processes at a time"""

REGISTERS = 16
"""registers that another release of the compiler may take more than the one on record"""

BAD = """
import json
from optimist.kernels import triton_aot, triton_builds
from optimist.kernels.paged_attention import triton
triton.cut_of = lambda *_, **__: triton.Cut(m=16, tile=256, warps=1, stages=1)
for found in triton_aot.compiled("bad", triton_builds.attention(64), "cuda:90"):
    print(json.dumps(found.faults()))
"""

SPECIALISED = """
import json
from optimist.kernels.triton_builds import builds
from optimist.kernels.triton_common import recorded
with recorded() as launches:
    for call in builds("cuda:90").values():
        call()
print(json.dumps([
    (launch.kernel.fn.__name__, one.name)
    for launch in launches
    for one, value in zip(launch.kernel.params, launch.arguments)
    if isinstance(value, int) and not one.do_not_specialize
]))
"""

OF_THE_MODEL = {
    *("F", "K", "N", "V", "window"),
    *(
        "s_cache",
        "s_h",
        "s_more",
        "s_qh",
        "s_qt",
        "s_t",
        "s_tokens",
        "s_x",
        "s_xh",
        "s_xt",
        "s_yh",
        "s_yt",
    ),
}
"""numbers that are the same in every step"""

Rows = list[dict[str, Any]]


def compiling(*command: str) -> subprocess.Popen[str]:
    """A process of its own: this one interprets kernels."""
    environment = {name: value for name, value in os.environ.items() if name != SWITCH}
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(process: subprocess.Popen[str]) -> list[Any]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def compiled() -> Iterator[dict[str, Rows]]:
    found, waiting = {}, list(TARGETS)
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < COMPILERS:
                target = waiting.pop(0)
                running[target] = compiling("-m", "optimist.kernels.triton_aot", target)
            target = next(iter(running))
            found[target] = lines(running[target])
            del running[target]
        yield found
    finally:
        for process in running.values():
            process.kill()
            process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", TARGETS)
def test_each_configuration_compiles_without_a_fault(
    compiled: dict[str, Rows], target: str
) -> None:
    rows = compiled[target]
    assert {row["build"] for row in rows} == set(builds(target))
    assert [row for row in rows if row["faults"]] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", TARGETS)
def test_no_configuration_takes_more_than_is_on_record(
    compiled: dict[str, Rows], target: str
) -> None:
    record = {
        (row["build"], row["kernel"]): row
        for row in json.loads(RECORD.read_text(encoding="utf-8"))
        if row["target"] == target
    }
    rows = {(row["build"], row["kernel"]): row for row in compiled[target]}
    assert set(rows) == set(record), "run: python benchmarks/kernels.py --record"
    for key, row in rows.items():
        assert row["registers"] <= record[key]["registers"] + REGISTERS, key
        assert row["shared"] <= record[key]["shared"], key


def launched() -> set[str]:
    """Every kernel that a file of kernels launches, by name."""
    calls = (
        node
        for path in (ROOT / "kernels").glob("*/triton*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "launch"
    )
    return {ast.unparse(call.args[0]) for call in calls}


@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_that_is_launched_is_compiled_for_every_target(target: str) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    kernels = launched()
    assert len(kernels) > 15
    assert {row["kernel"] for row in record if row["target"] == target} == kernels


def test_only_numbers_of_the_model_make_another_kernel() -> None:
    (found,) = lines(compiling("-c", SPECIALISED))
    assert {"attend", "int4_matmul"} <= {kernel for kernel, _ in found}
    assert {(kernel, name) for kernel, name in found if name not in OF_THE_MODEL} == set()


def test_a_bad_configuration_is_caught() -> None:
    faults = lines(compiling("-c", BAD))
    assert any("spilled" in fault for found in faults for fault in found)
