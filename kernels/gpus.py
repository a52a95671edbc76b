"""Which GPU there is to use, without loading torch where there is none."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from optimist.messages.errors import ConfigError

VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""in order of precedence"""

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""one of these files is there where a GPU's driver is"""

LEAST_CAPABILITY = (8, 0)
"""of an NVIDIA GPU that Triton's kernels are compiled and checked for"""


AMD = "gfx942"
"""the architecture of AMD that they are compiled and checked for"""


class Gpus(NamedTuple):
    """names: of the GPUs that torch sees. capabilities: of each, as torch numbers them. amd: the architecture
    of each where they are AMD's, such as `gfx942`; none on NVIDIA.
    """

    names: tuple[str, ...] = ()
    capabilities: tuple[tuple[int, int], ...] = ()
    amd: tuple[str, ...] = ()


def visible_devices(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that says which GPUs may be used, and its value; None where none is set.

    An empty one counts as not set. Raises ConfigError where two of them say different things, and where
    ROCR_VISIBLE_DEVICES and another both leave devices out: the other would number those that are left.
    """
    given = [(name, environ[name]) for name in VISIBLE if environ.get(name)]
    for name, value in given[1:]:
        if value != given[0][1]:
            raise ConfigError(
                f"{name}: expected {given[0][1]!r} as in {given[0][0]}, or not to be set, got {value!r}"
            )
        if name == "ROCR_VISIBLE_DEVICES" and not _first_devices(value):
            raise ConfigError(
                f"{name}: expected not to be set beside {given[0][0]}, which counts the devices that it "
                f"leaves, or both to be 0,1, and so on, got {value!r}"
            )
    return given[0] if given else None


def _first_devices(value: str) -> bool:
    """Whether a list of devices leaves every number where it is."""
    return [part.strip() for part in value.split(",")] == [
        str(i) for i in range(value.count(",") + 1)
    ]


def found() -> Gpus:
    """The GPUs that torch sees. Loads torch only where there is a driver."""
    if not _driver():
        return Gpus()
    import torch

    if not torch.cuda.is_available():
        return Gpus()
    every = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return Gpus(
        tuple(one.name for one in every),
        tuple((one.major, one.minor) for one in every),
        # The name has features behind it: gfx942:sramecc+:xnack-.
        () if torch.version.hip is None else tuple(one.gcnArchName.split(":")[0] for one in every),
    )


def on_cpu(option: str) -> bool:
    """Whether a device option means the CPU, as far as can be told without torch."""
    return option == "cpu" or (option == "auto" and not _driver())


def _driver() -> bool:
    return any(Path(path).exists() for path in DRIVERS)


def device_named(option: str, gpus: Gpus) -> str:
    """`cpu` or `cuda:N`, whichever `auto`, `cpu`, `cuda` or `cuda:N` means here.

    Raises ConfigError for anything else, and for a GPU that is not there.
    """
    match = re.fullmatch(r"(auto|cpu|cuda)|cuda:(\d+)", option)
    if match is None:
        raise ConfigError(f"worker.device: expected auto, cpu, cuda or cuda:N, got {option!r}")
    if option == "cpu" or (option == "auto" and not gpus.names):
        return "cpu"
    number = int(match[2] or 0)
    if number >= len(gpus.names):
        seen = ", ".join(f"cuda:{i} {name}" for i, name in enumerate(gpus.names)) or "none"
        raise ConfigError(f"worker.device: expected a GPU that torch sees, got {option!r}: {seen}")
    return f"cuda:{number}"


def chosen_device(option: str) -> str:
    """`device_named` for this machine. Raises ConfigError also where visibility contradicts itself."""
    if option == "cpu":
        return option
    visible_devices(os.environ)
    return device_named(option, found())


def kernels_for(device: str, gpus: Gpus, missing: str) -> tuple[str, str]:
    """Whose kernels run on a GPU, `triton` or `torch`, and why. missing: why there is no Triton, or ""."""
    if missing:
        return "torch", missing
    number = int(device.partition(":")[2] or 0)
    if gpus.amd:
        seen = gpus.amd[number]
        if seen != AMD:
            return "torch", f"Triton's are compiled and checked for {AMD}, it is {seen}"
        return "triton", f"architecture {seen}"
    capability = gpus.capabilities[number]
    if capability < LEAST_CAPABILITY:
        return "torch", "Triton's need capability 8.0, it has {}.{}".format(*capability)
    return "triton", "capability {}.{}".format(*capability)
