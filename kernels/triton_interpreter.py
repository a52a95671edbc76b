"""Triton's kernels on a CPU: its interpreter, made right for bfloat16 and fast enough for tests.

Whether kernels are interpreted or compiled is decided when Triton is first imported, for the whole
process: `interpret` comes before that.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from optimist.kernels.triton_quick import quicken
from optimist.messages.errors import ConfigError

SWITCH = "TRITON_INTERPRET"

COMPILERS = ("gcc", "clang")
"""of which Triton takes one, unless CC names another"""


def missing() -> str:
    """Why there is no Triton here, or nothing."""
    if find_spec("triton") is not None:
        return ""
    return "triton is not installed: pip install 'optimist[gpu]'"


def cannot_compile() -> str:
    """Why Triton's kernels cannot be compiled for a GPU here, or nothing."""
    if why := missing():
        return why
    named = os.environ.get("CC")
    if not any(shutil.which(one) for one in ((named,) if named else COMPILERS)):
        wanted = (
            f"CC names {named!r}, which is not there" if named else "found none of gcc and clang"
        )
        return f"triton needs a C compiler to launch kernels: {wanted}"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        return f"triton needs Python's headers to launch kernels: found no Python.h in {headers}"
    return ""


def interpret() -> None:
    """Have this process interpret Triton's kernels. Calling it again changes nothing.

    Raises ConfigError when Triton was imported before, and compiles.
    """
    if "triton" in sys.modules and not interpreting():
        raise ConfigError("kernels: triton is loaded to compile, it cannot interpret any more")
    os.environ[SWITCH] = "1"
    quiet()
    from triton.runtime import interpreter

    if interpreter.InterpreterBuilder.create_dot.__module__ != __name__:
        _mend(interpreter)


def interpreting() -> bool:
    """Whether kernels are interpreted in this process."""
    return os.environ.get(SWITCH) == "1"


def quiet() -> None:
    """Ask for fused multiply-add by name: Triton warns where it is left to a default that will change."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def _mend(interpreter: Any) -> None:
    """Correct what is wrong with narrow numbers, and leave out what takes most of the time.

    The interpreter holds bfloat16 as 16-bit words and multiplies these in `dot`. It cuts off what does
    not fit into bfloat16 or fp8, where a GPU rounds to nearest. It looks for overflow of integers in
    every operation without telling, and replaces the names of the language anew for every function
    that a kernel calls: once for the process will do.
    """
    import torch

    language = interpreter.tl
    plain_dot = interpreter.InterpreterBuilder.create_dot
    both = SimpleNamespace(__globals__={"tl": language, "core": language.core})

    def wide(handle: Any) -> Any:
        if handle.dtype.scalar != language.bfloat16:
            return handle
        values = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(values, language.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return plain_dot(self, wide(a), wide(b), d, *rest)

    private = vars(interpreter)
    plain_convert = private["_convert_float"]
    narrow = {
        language.bfloat16: (torch.bfloat16, torch.uint16),
        language.float8e4nv: (torch.float8_e4m3fn, torch.uint8),
        language.float8e4b8: (torch.float8_e4m3fnuz, torch.uint8),
        language.float8e5: (torch.float8_e5m2, torch.uint8),
        language.float8e5b16: (torch.float8_e5m2fnuz, torch.uint8),
    }

    def convert(values: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source != language.float32 or target not in narrow:
            return plain_convert(values, source, target, rounding)
        dtype, words = narrow[target]
        wide = torch.from_numpy(np.array(values).view(np.float32))
        return wide.to(dtype).view(words).numpy()

    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    interpreter.InterpreterBuilder.create_dot = create_dot
    private["_convert_float"] = convert
    private["_patch_lang"](both)
    nothing = private["_LangPatchScope"]()
    private["_patch_lang"] = lambda fn: nothing
    quicken(interpreter)
