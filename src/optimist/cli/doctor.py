"""`optimist doctor`: says what is here, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from optimist.cli.settings import command_value
from optimist.environment import VARIABLES
from optimist.messages.errors import ConfigError, OptimistError

if TYPE_CHECKING:
    from optimist.cli.parser import Parsed

NEEDED = (
    "torch",
    "numpy",
    "msgspec",
    "anyio",
    "pyzmq",
    "tokenizers",
    "starlette",
    "uvicorn",
    "httptools",
)
OPTIONAL = {"uvloop": "a faster event loop", "trio": "Engine in trio programs", "triton": "GPUs"}

WITHOUT_LIBRARY = (
    "torch computes instead, more slowly; on a CPU there is no --quant, no --packed-cache and no --kv-dtype int8, a "
    "row's logits need not be the same bits alone and among others, and every worker loads torch"
)

NOT_TOLD = "; engines of other processes are not seen, since /proc cannot be locked: give each its --threads"


class Finding(NamedTuple):
    """One thing looked at. good: None where it is only worth knowing."""

    what: str
    good: bool | None
    says: str


def run(parsed: Parsed) -> int:
    """Print the findings. Exit status 1 when something that is needed is missing."""
    findings = examine()
    if command_value(parsed, "json"):
        print(msgspec.json.encode([finding._asdict() for finding in findings]).decode())
    else:
        width = max(len(finding.what) for finding in findings)
        for what, good, says in findings:
            print(f"{_MARKS[good]} {what:<{width}}  {says}")
    return int(any(finding.good is False for finding in findings))


_MARKS = {True: "ok ", False: "BAD", None: "   "}


def examine() -> list[Finding]:
    """Look at everything."""
    return [
        Finding("python", sys.version_info >= (3, 11), platform.python_version()),
        Finding("system", sys.platform == "linux", platform.platform()),
        _processors(),
        _looked("memory", _memory),
        *(_installed(name) for name in NEEDED),
        *(_optional(name, use) for name, use in OPTIONAL.items()),
        _looked("torch threads", _torch),
        _native(),
        _device(),
        _looked("default model", _model),
        _looked("sockets", _sockets),
        *(
            Finding(one.name, None, f"{os.environ[one.name]} ({one.effect})")
            for one in VARIABLES
            if one.name in os.environ
        ),
    ]


def _looked(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except (OptimistError, OSError, ImportError) as error:
        return Finding(what, False, str(error))


def _installed(name: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, f"not installed: pip install {name}")


def _optional(name: str, use: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, None, f"not installed; it is for {use}")


def _processors() -> Finding:
    from optimist.actors.worker.processors import threads_of
    from optimist.kernels.native import neighbours
    from optimist.kernels.native.library import missing

    there, threads = len(os.sched_getaffinity(0)), threads_of(None)
    says = f"{there} to be used here; threads that compute: {threads}"
    if not missing():
        says += ", fewer beside engines of other processes" if neighbours.tell() else NOT_TOLD
    return Finding("processors", None, says)


def _memory() -> str:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    total, free = values["MemTotal"] / 2**20, values["MemAvailable"] / 2**20
    return f"{free:.1f} GiB of {total:.1f} GiB available"


def _torch() -> str:
    import torch

    return f"{torch.get_num_threads()}; {torch.backends.cpu.get_cpu_capability()}"


def _native() -> Finding:
    from optimist.kernels.native.library import here, instruction_set, left_out, missing

    if why := missing():
        return Finding("native library", None, f"{why}; {WITHOUT_LIBRARY}")
    return _looked("native library", lambda: native_says(instruction_set(), here(), left_out()))


def native_says(used: str, here: Sequence[str], left_out: Sequence[str]) -> str:
    """Which instruction set computes, which others could, and which the compiler did not know."""
    says = f"{used} computes, {', '.join(here)} can"
    if left_out:
        says += (
            f"; {', '.join(left_out)} left out: this needs GCC 11 or Clang 12, and binutils 2.36"
        )
    return f"{says}; KV cache of 8 bits with --quant int8 and int4, else bfloat16"


def _device() -> Finding:
    """What `--device auto` and `--kernels auto` come to here."""
    from optimist.actors.contract import TORCH_ALONE
    from optimist.kernels import gpus
    from optimist.kernels.native.library import missing
    from optimist.kernels.triton_interpreter import cannot_compile

    try:
        device, seen = gpus.chosen_device("auto"), gpus.found()
    except ConfigError as error:
        return Finding("device", False, str(error))
    if device == "cpu":
        whose = "torch's kernels"
        if not missing():
            whose = f"the native library's kernels; torch's with {TORCH_ALONE}"
        return Finding("device", True, f"cpu, no GPU is visible; {whose}")
    whose, why = gpus.kernels_for(device, seen, cannot_compile())
    name = seen.names[int(device.partition(":")[2])]
    what = "triton's kernels" if whose == "triton" else "torch's kernels, attention by its SDPA"
    return Finding("device", True, f"{device} {name}; {what}: {why}")


def _model() -> str:
    from optimist.models.default import default_model
    from optimist.models.source import open_source

    path = default_model()
    open_source(path).close()
    return f"{path} ({path.stat().st_size / 2**20:.0f} MiB)"


def _sockets() -> str:
    """Sockets of actors are made in a directory of their own below this one."""
    from optimist.actors.runtime.rundir import run_directory

    with run_directory() as directory:
        return f"can be made in {directory.parent}"
