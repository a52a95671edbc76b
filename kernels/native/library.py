"""Finds the native library and loads it. What is missing has a reason."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_uint8,
    c_uint64,
    c_void_p,
)
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from optimist.messages.errors import ConfigError

ABI = 7
"""of the library that this package speaks to"""

SETS = ("amx", "avx512", "avxvnni", "avx2", "portable")
"""instruction sets that it may hold, best first"""

FORCED = "OPTIMIST_NATIVE_ISA"
"""environment variable that names one of them, where the best is not wanted"""

MOST_THREADS = 512
"""that compute together"""

_Bytes = POINTER(c_uint8)
_Ints = POINTER(c_int32)
_Floats = POINTER(c_float)


class CShape(ctypes.Structure):
    """As in abi.h."""

    _fields_ = [
        *((name, c_int32) for name in ("vocab", "hidden", "layers", "heads", "kv_heads")),
        *((name, c_int32) for name in ("head_dim", "ffn", "window", "qk_norm", "tied")),
        *((name, c_int32) for name in ("block_size", "blocks", "slots", "max_len", "max_tokens")),
        *((name, c_int32) for name in ("threads", "shares", "kept", "verify")),
        ("eps", c_float),
        ("rope_scale", c_float),
        ("frequencies", POINTER(c_double)),
    ]


class CChoice(ctypes.Structure):
    """As in abi.h."""

    _fields_ = [
        ("seed", c_int64),
        *((name, c_float) for name in ("temperature", "top_p", "min_p")),
        *((name, c_float) for name in ("presence", "frequency", "repetition")),
        *((name, c_int32) for name in ("top_k", "min_tokens", "prompt_len", "alternatives")),
        ("biases", c_int32),
        ("stops", c_int32),
        ("bias_ids", _Ints),
        ("stop_ids", _Ints),
        ("bias_values", _Floats),
    ]


class CRows(ctypes.Structure):
    """As in abi.h. Addresses are plain numbers: a step has no time for pointer objects."""

    _fields_ = [
        ("rows", c_int32),
        *((name, c_void_p) for name in ("slots", "queries", "lengths", "samples")),
        ("drafts", c_void_p),
        ("draft_ids", c_void_p),
    ]


class CChosen(ctypes.Structure):
    """As in abi.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("counts", "ids", "logprobs", "ranks", "top_ids")),
        ("top_values", c_void_p),
        ("alternatives", c_int32),
    ]


class CScores(ctypes.Structure):
    """As in abi.h."""

    _fields_ = [
        ("count", c_int32),
        ("places", _Ints),
        ("ids", _Ints),
        ("alternatives", c_int32),
        ("logprobs", _Floats),
        ("ranks", _Ints),
        ("top_ids", _Ints),
        ("top_values", _Floats),
    ]


_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "native_abi": (c_int32, ()),
    "native_isa": (c_char_p, (c_char_p,)),
    "native_built": (c_int32, (c_char_p,)),
    "native_create": (c_void_p, (POINTER(CShape), c_char_p, c_char_p, c_int32)),
    "native_destroy": (None, (c_void_p,)),
    "native_error": (c_char_p, (c_void_p,)),
    "native_linear": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_int32)),
    "native_pack": (c_int32, (c_void_p, *(c_int32,) * 7, _Bytes, _Ints)),
    "native_vector": (c_int32, (c_void_p, *(c_int32,) * 4, _Floats)),
    "native_embedding": (c_int32, (c_void_p, c_int32, _Bytes)),
    "native_layout": (c_int32, ()),
    "native_held": (c_uint64, (c_void_p, c_int32, c_int32, POINTER(c_void_p))),
    "native_lend": (None, (c_void_p, c_int32, c_int32, c_void_p)),
    "native_checksum": (c_uint64, (c_uint64, c_void_p, c_uint64)),
    "native_dequantise": (c_int32, (*(c_int32,) * 3, _Bytes, _Floats)),
    "native_fill_cache": (None, (c_void_p, c_float)),
    "native_reset": (None, (c_void_p,)),
    "native_computing": (c_int32, (c_void_p,)),
    "native_open": (c_int32, (c_void_p, c_int32, _Ints, c_int32, c_int32, POINTER(CChoice))),
    "native_blocks": (c_int32, (c_void_p, c_int32, _Ints, _Ints, _Ints)),
    "native_step": (c_int32, (c_void_p, POINTER(CRows), POINTER(CChosen))),
    "native_announce": (None, (c_void_p, c_int32)),
    "native_draft": (c_int32, (c_void_p, c_int32, _Ints, _Ints, c_int32)),
    "native_score": (c_int32, (c_void_p, POINTER(CScores))),
    "native_logits": (c_int32, (c_void_p, POINTER(CRows), _Floats)),
    "native_profile": (None, (c_void_p, POINTER(c_double))),
    "native_weight_bytes": (c_uint64, (c_void_p,)),
    "native_cache_bytes": (c_uint64, (c_void_p,)),
    "native_probe_read": (
        c_int32,
        (c_char_p, c_int32, c_uint64, c_int32, POINTER(c_double), POINTER(c_double)),
    ),
    "native_probe_multiply": (c_double, (c_char_p, c_int32, c_int32, c_uint64)),
    "native_neighbours_tell": (c_int32, (c_char_p,)),
    "native_neighbours_compute": (c_double, (c_char_p, c_int32)),
    "native_neighbours_part": (
        None,
        (c_int32, c_int32, POINTER(c_double), POINTER(c_double), _Ints),
    ),
    "native_lookup_ngram": (c_void_p, (c_int64, c_int64)),
    "native_lookup_suffix": (c_void_p, (c_int64, c_int64, c_double)),
    "native_lookup_destroy": (None, (c_void_p,)),
    "native_lookup_open": (c_int32, (c_void_p, c_int32, c_char_p, c_int32, c_void_p, c_int32)),
    "native_lookup_close": (c_int32, (c_void_p, c_int32)),
    "native_lookup_step": (c_int32, (c_void_p, c_int32, *(c_void_p,) * 6)),
    "native_lookup_rehearse": (
        c_int32,
        (c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_void_p, c_int32, c_void_p),
    ),
    "native_lookup_bytes": (c_uint64, (c_void_p,)),
    "native_op_linear": (
        c_int32,
        (c_char_p, *(c_int32,) * 5, _Bytes, c_void_p, *(c_int32,) * 3, *(_Floats,) * 3, _Ints),
    ),
    "native_op_quantise": (None, (c_char_p, *(c_int32,) * 4, *(_Floats,) * 4)),
    "native_op_geometry": (None, (*(c_int32,) * 5, _Ints)),
    "native_op_rope": (
        None,
        (
            *(c_char_p, *(c_int32,) * 7, _Floats, _Floats, c_void_p, c_void_p),
            *(c_float, _Ints, _Floats, _Bytes),
        ),
    ),
    "native_op_choose": (
        c_int32,
        (
            *(c_char_p, c_int32, _Floats, POINTER(CChoice), *(c_int32,) * 3, _Ints, _Ints),
            *(c_int64, c_int32, c_int32, _Floats),
        ),
    ),
    "native_op_report": (
        None,
        (c_char_p, c_int32, _Floats, c_int32, c_int32, _Floats, _Ints, _Ints, _Floats),
    ),
    "native_op_verdict": (c_double, (c_char_p, c_int64, c_int32, c_int32, POINTER(c_int64))),
    "native_op_parts": (None, (*(c_int32,) * 3, _Ints)),
    "native_op_rms_norm": (None, (c_char_p, *(c_int32,) * 2, *(_Floats,) * 2, c_float, _Floats)),
    "native_op_attention": (
        None,
        (c_char_p, *(c_int32,) * 9, _Floats, _Floats, _Ints, c_int32, _Floats),
    ),
}


def missing() -> str:
    """Why the library cannot be used here, "" where it can."""
    try:
        library()
    except ConfigError as error:
        return str(error)
    return ""


def instruction_set(name: str = "") -> str:
    """The set called `name`, else the one that OPTIMIST_NATIVE_ISA names, else the best of this machine.

    Raises ConfigError where it is not there.
    """
    wanted = name or os.environ.get(FORCED, "")
    found = library().native_isa(wanted.encode())
    if found is None:
        whose = "native" if name else FORCED
        raise ConfigError(f"{whose}: expected one of {', '.join(here())}, got {wanted!r}")
    return str(found.decode())


def left_out() -> list[str]:
    """Sets of this kind of machine that the compiler did not know when the library was built."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return [name for name in SETS if x86 and not library().native_built(name.encode())]


def layout() -> int:
    """Which layout of packed weights the library has: the same bytes for the same number."""
    return int(library().native_layout())


def here() -> list[str]:
    """Every instruction set that runs on this machine, best first."""
    return [name for name in SETS if library().native_isa(name.encode()) is not None]


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises ConfigError saying what to do when it was not built, or is another's."""
    folder = Path(__file__).parent
    found = [p for end in EXTENSION_SUFFIXES if (p := folder / f"_native{end}").exists()]
    if not found:
        raise ConfigError(
            "the native library was not built when this package was installed: "
            "install a C++ compiler and install the package again"
        )
    try:
        loaded = ctypes.CDLL(str(found[0]))
    except OSError as error:
        raise ConfigError(f"the native library cannot be loaded: {error}") from error
    version = loaded.native_abi()
    if version != ABI:
        raise ConfigError(
            f"{found[0]}: expected interface {ABI}, got {version}: install the package again"
        )
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise ConfigError(
                f"{found[0]}: expected {name}, it has none: install the package again"
            )
        function.restype, function.argtypes = result, arguments
    return loaded
