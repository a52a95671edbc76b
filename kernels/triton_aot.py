"""Compiles Triton kernels for devices that are not here, and reads what each would take of them.

`python -m optimist.kernels.triton_aot cuda:90 hip:gfx942` prints a line of JSON for each kernel of each
configuration that is shipped. Needs no driver, and a process in which kernels are not interpreted.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from optimist.kernels.triton_builds import Call, builds
from optimist.kernels.triton_common import WHOLE, Launch, recorded
from optimist.kernels.triton_interpreter import quiet

TARGETS = ("cuda:80", "cuda:90", "hip:gfx942")

LAUNCH_OPTIONS = ("num_warps", "num_stages")

SHARED_KIB = {"cuda:80": 99, "cuda:90": 227, "hip:gfx942": 64}
"""shared memory that a program may take. What is compiled for 8.0 runs on 8.6 and 8.9, which have less of it"""

MATRIX = {"attend", "int8_matmul", "int4_matmul"}
"""kernels whose work is matrix products"""

NARROW = {
    "rows_of_tiles",
    "_place",
    "_advance",
    "_token_to_req_indices",
    "edit",
    "_compare",
    "_ngram",
}
"""kernels that have no 16 bytes in a row to load"""

_TYPES = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e4m3fnuz: "fp8e4b8",
    torch.float8_e5m2: "fp8e5",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "i1",
}


class Resources(NamedTuple):
    """What a kernel takes. registers: of a thread. spilled: bytes, or registers on AMD, in memory.

    shared: bytes of a program. matrix: matrix instructions by name. wide_loads: loads of 16 bytes.
    """

    build: str
    kernel: str
    target: str
    registers: int
    spilled: int
    shared: int
    matrix: list[str]
    wide_loads: int

    def faults(self) -> list[str]:
        """What no configuration that is shipped may have."""
        found = []
        if self.spilled:
            found.append(f"{self.spilled} spilled")
        if self.kernel in MATRIX and not self.matrix:
            found.append("no matrix instruction")
        if self.kernel not in NARROW and not self.wide_loads:
            found.append("no load of 16 bytes")
        if self.shared > SHARED_KIB.get(self.target, 0) * 1024:
            found.append(f"{self.shared} bytes of shared memory")
        return found


def compiled(name: str, call: Call, target: str) -> Iterator[Resources]:
    """Each kernel that a build launches, compiled for a target such as `cuda:90` or `hip:gfx942`."""
    with recorded() as launches:
        call()
    for launch in launches:
        binary = compile_launch(launch, target)
        yield Resources(name, launch.kernel.fn.__name__, target, *_read(binary))


def compile_launch(launch: Launch, target: str) -> Any:
    """A compiled kernel, specialised to its arguments as it would be by launching it."""
    options = {n: v for n, v in launch.options.items() if n in LAUNCH_OPTIONS}
    constants = {n: v for n, v in launch.options.items() if n not in LAUNCH_OPTIONS}
    if "PRODUCT" in constants and target.startswith("hip"):
        # As `product` has it there.
        constants["PRODUCT"] = WHOLE
    signature, aligned = {}, {}
    for place, (name, value) in enumerate(
        zip(launch.kernel.arg_names, launch.arguments, strict=False)
    ):
        plain = launch.kernel.params[place].do_not_specialize
        kind = "i32" if plain else _kind(value)
        signature[name] = kind
        if kind == "constexpr":
            constants[name] = value
        elif not plain and _divisible(value):
            aligned[place,] = [["tt.divisibility", 16]]
    signature |= {name: "constexpr" for name in constants}
    source = ASTSource(launch.kernel, signature, constants, aligned)
    return triton.compile(source, target=_target(target), options=options)


def _kind(value: Any) -> str:
    """The type of an argument: None, and the number 1, are made part of the kernel."""
    match value:
        case Tensor():
            return "*" + _TYPES[value.dtype]
        case float():
            return "fp32"
        case int() if value != 1:
            return "i32" if -(2**31) <= value < 2**31 else "i64"
        case _:
            return "constexpr"


def _divisible(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.storage_offset() * value.itemsize % 16 == 0
    return isinstance(value, int) and value % 16 == 0


def _target(name: str) -> GPUTarget:
    kind, _, architecture = name.partition(":")
    if kind == "cuda":
        return GPUTarget(kind, int(architecture), 32)
    return GPUTarget(kind, architecture, 64)


def _read(binary: Any) -> tuple[int, int, int, list[str], int]:
    shared = binary.metadata.shared
    if "cubin" in binary.asm:
        usage = _usage(binary.asm["cubin"])
        code = binary.asm["ptx"]
        return (
            usage["REG"],
            usage["STACK"] + usage["LOCAL"],
            shared,
            _names(r"(?:wgmma\.mma_async|mma)\.sync", code),
            len(re.findall(r"(?:ld\.global|cp\.async)[\w.:]*\.v4|cp\.async\.cg", code)),
        )
    code = binary.asm["amdgcn"]
    counts = [
        int(found)
        for name in ("vgpr_count", "vgpr_spill_count", "sgpr_spill_count")
        for found in re.findall(rf"\.{name}:\s+(\d+)", code)[:1]
    ]
    wide = len(re.findall(r"(?:global|buffer)_load_dwordx4", code))
    return counts[0], counts[1] + counts[2], shared, _names(r"v_mfma\w+", code), wide


def _names(pattern: str, code: str) -> list[str]:
    return sorted(set(re.findall(pattern, code)))


def _usage(cubin: bytes) -> dict[str, int]:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    return {name: int(value) for name, value in re.findall(r"([A-Z]+):(\d+)", done.stdout)}


def main() -> None:
    """Print the resources of every build for the targets named on the command line."""
    quiet()
    for target in sys.argv[1:] or TARGETS:
        for name, call in builds(target).items():
            for found in compiled(name, call, target):
                print(json.dumps(found._asdict() | {"faults": found.faults()}), flush=True)


if __name__ == "__main__":
    main()
