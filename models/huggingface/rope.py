"""Rotary scaling out of config.json, in its older and its newer spelling."""

from __future__ import annotations

from math import inf, log

from optimist.models.config import (
    LinearRope,
    Llama3Rope,
    PlainRope,
    RopeScaling,
    YarnRope,
)
from optimist.models.huggingface.json_file import JsonFile

_UNDERSTOOD = {
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "low_freq_factor",
    "original_max_position_embeddings",
    "rope_theta",
    "rope_type",
    "truncate",
    "type",
}


def rope_section(file: JsonFile) -> JsonFile:
    """The object that describes RoPE: `rope_parameters`, or `rope_scaling` in older files.

    Raises ModelError for a key in it that is not supported.
    """
    newer = file.section("rope_parameters")
    section = newer if newer.values else file.section("rope_scaling")
    for key, value in section.values.items():
        if value is not None and key not in _UNDERSTOOD:
            raise section.refused(key, "nothing: it is not supported")
    return section


def rope_scaling(file: JsonFile, rope: JsonFile) -> RopeScaling:
    """The scaling. Raises ModelError for a type that is not supported.

    `dynamic` scales only texts longer than max_position_embeddings, which is the length that the
    config allows: up to there it is no scaling.
    """
    match _kind(rope):
        case "default" | "dynamic":
            return PlainRope()
        case "linear":
            return LinearRope(factor=rope.real("factor"))
        case "llama3":
            return Llama3Rope(
                factor=rope.real("factor"),
                low_freq_factor=rope.real("low_freq_factor"),
                high_freq_factor=rope.real("high_freq_factor"),
                original_max_len=rope.integer("original_max_position_embeddings"),
            )
        case "yarn":
            return _yarn(rope, _original(file, rope))
    raise rope.refused(_key(rope), "default, linear, dynamic, llama3 or yarn")


def max_positions(file: JsonFile, scaling: RopeScaling) -> int:
    """Positions that the model is good for: YaRN stretches the original ones by its factor."""
    stated = file.integer("max_position_embeddings", 2048)
    if isinstance(scaling, YarnRope):
        return max(stated, int(scaling.original_max_len * scaling.factor))
    return stated


def _key(rope: JsonFile) -> str:
    return "rope_type" if "rope_type" in rope.values else "type"


def _kind(rope: JsonFile) -> str:
    return rope.text(_key(rope), "default")


def _original(file: JsonFile, rope: JsonFile) -> int:
    return rope.integer(
        "original_max_position_embeddings", file.integer("max_position_embeddings", 2048)
    )


def _yarn(rope: JsonFile, original: int) -> YarnRope:
    factor = rope.real("factor")
    if not 1.0 <= factor < inf:
        raise rope.refused("factor", "at least 1")
    return YarnRope(
        factor=factor,
        original_max_len=original,
        attention_factor=rope.real("attention_factor", 1.0 + 0.1 * log(factor)),
        beta_fast=rope.real("beta_fast", 32.0),
        beta_slow=rope.real("beta_slow", 1.0),
        truncate=rope.flag("truncate", True),
    )
