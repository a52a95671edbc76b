"""Triton's kernels on a CPU: its interpreter, made right for bfloat16 and fast enough for tests.

Whether kernels are interpreted or compiled is decided when Triton is first imported, for the whole
process: `interpret` comes before that.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from optimist.messages.errors import ConfigError

SWITCH = "TRITON_INTERPRET"


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
    """Correct what is wrong with bfloat16, and leave out what takes most of the time.

    The interpreter holds bfloat16 as 16-bit words and multiplies these in `dot`. It looks for overflow
    of integers in every operation without telling, and replaces the names of the language anew for
    every function that a kernel calls: once for the process will do.
    """
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

    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    interpreter.InterpreterBuilder.create_dot = create_dot
    private = vars(interpreter)
    private["_patch_lang"](both)
    nothing = private["_LangPatchScope"]()
    private["_patch_lang"] = lambda fn: nothing
