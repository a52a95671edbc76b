"""Every environment variable that Optimist reads, and the refusal of any other OPTIMIST_ one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple

from optimist.messages.errors import ConfigError

PREFIX = "OPTIMIST_"


class Variable(NamedTuple):
    """One environment variable. choices: its values, () for any text. default: as if it were set to."""

    name: str
    default: str
    effect: str
    choices: tuple[str, ...] = ()


VARIABLES = (
    Variable(
        "OPTIMIST_CODEC",
        "wire",
        "`always` passes messages inside one process through the codec too, as the tests do",
        ("wire", "always"),
    ),
    Variable(
        "OPTIMIST_SYNC_CHECK",
        "off",
        "what a host read of a device tensor inside a step does; read at the start; Engine.check_syncs switches later",
        ("off", "warn", "error"),
    ),
    Variable(
        "OPTIMIST_NATIVE_ISA",
        "",
        "instruction set of the native library, where it is not to be the best that this machine has; texts differ among sets",
        ("amx", "avx512", "avxvnni", "avx2", "portable"),
    ),
    Variable(
        "OPTIMIST_CONSTRAINTS",
        "",
        "constraints file of `./run`; empty is constraints/cpu.txt unless a GPU is there",
    ),
    Variable(
        "CUDA_VISIBLE_DEVICES",
        "",
        "GPUs that may be used, all where it is not set. Two of these three that say different things are an error",
    ),
    Variable("HIP_VISIBLE_DEVICES", "", "the same on AMD, where CUDA_VISIBLE_DEVICES is not set"),
    Variable("ROCR_VISIBLE_DEVICES", "", "the same on AMD, where neither of the others is set"),
)

REMOVED: dict[str, str] = {}
"""Variables that were removed, and what to use in their place."""


def check_environment(environ: Mapping[str, str]) -> None:
    """Raise ConfigError for an OPTIMIST_ variable that is unknown, removed or badly set."""
    known = {variable.name: variable for variable in VARIABLES}
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if name in REMOVED:
            raise ConfigError(f"{name}: was removed; use {REMOVED[name]}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{name}: no such variable; the nearest is {near}")
    check_values(environ)


def check_values(environ: Mapping[str, str]) -> None:
    """Raise ConfigError for a variable of ours that has none of its values."""
    for variable in VARIABLES:
        choices, value = variable.choices, environ.get(variable.name)
        if choices and value and value not in choices:
            raise ConfigError(
                f"{variable.name}: expected one of {', '.join(choices)}, got {value!r}"
            )
