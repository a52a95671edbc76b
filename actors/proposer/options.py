"""Options of proposers: whose they are, how they are written, their ranges. None is made to find out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from optimist.actors.config import ProposerConfig
from optimist.messages.errors import ConfigError

MOST_TOKENS = 2**31 - 1
"""lengths travel as int32"""

OWN_OPTIONS = {
    ("ngram", "ngram-device"): ("ngram_min", "ngram_max"),
    ("suffix",): ("suffix_depth", "suffix_tokens", "suffix_probability"),
    ("module:Class",): ("proposer_options",),
}
"""options that mean something to some proposers only"""


def check_own(config: ProposerConfig) -> None:
    """Raise ConfigError, naming the option, for one that the proposer that config names cannot take."""
    if config.proposer in ("ngram", "ngram-device"):
        check_ngram(config.ngram_min, config.ngram_max)
    if config.proposer == "suffix":
        check_suffix(config)


def check_ngram(shortest: int, longest: int) -> None:
    """Raise ConfigError, naming the option, for numbers of tokens that cannot be matched."""
    if not 1 <= shortest <= MOST_TOKENS:
        raise ConfigError(f"ngram_min: expected 1 to {MOST_TOKENS}, got {shortest}")
    if longest < shortest:
        raise ConfigError(
            f"ngram_max: expected at least ngram_min, which is {shortest}, got {longest}"
        )
    if longest > MOST_TOKENS:
        raise ConfigError(f"ngram_max: expected at most {MOST_TOKENS}, got {longest}")


def check_suffix(config: ProposerConfig) -> None:
    """Raise ConfigError, naming the option, for one out of range."""
    if not 2 <= config.suffix_depth <= MOST_TOKENS:
        raise ConfigError(f"suffix_depth: expected 2 to {MOST_TOKENS}, got {config.suffix_depth}")
    if not 0 <= config.suffix_tokens <= MOST_TOKENS:
        raise ConfigError(f"suffix_tokens: expected 0 to {MOST_TOKENS}, got {config.suffix_tokens}")
    if not 0 < config.suffix_probability <= 1:
        raise ConfigError(
            f"suffix_probability: expected above 0 and at most 1, got {config.suffix_probability}"
        )


def written_options(proposer: str, pairs: Iterable[str]) -> dict[str, Any]:
    """Fields of ProposerConfig from `key=value`s, each a field of this proposer, or an option of a class.

    Values are as in JSON; what is none, such as a path, is text. Raises ConfigError for a key that the
    proposer does not have, naming the nearest, one that comes twice, and a value of another type.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not key or not sign:
            raise ConfigError(f"proposer_option: expected key=value, got {pair!r}")
        if key in given:
            raise ConfigError(f"proposer_option: expected {key} once, got it twice")
        given[key] = _value(text)
    if ":" in proposer:
        return {"proposer_options": given} if given else {}
    known = next((names for owners, names in OWN_OPTIONS.items() if proposer in owners), ())
    for key, value in given.items():
        if key not in known:
            raise ConfigError(_unknown(proposer, key, known))
        _check_type(key, value)
    return given


def _value(text: str) -> int | float | str | bool:
    with suppress(msgspec.DecodeError):
        value = msgspec.json.decode(text)
        if isinstance(value, int | float | str):
            return value
    return text


def _check_type(key: str, value: object) -> None:
    hint = next(f.type for f in msgspec.structs.fields(ProposerConfig) if f.name == key)
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        expected = "a whole number" if hint is int else "a number"
        raise ConfigError(f"proposer_option: {key}: expected {expected}, got {value!r}") from None


def _unknown(proposer: str, key: str, known: tuple[str, ...]) -> str:
    if not known:
        return f"proposer_option: {key!r} and proposer {proposer!r} contradict each other: it has no options"
    (nearest,) = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"proposer_option: {proposer} has no {key!r}; the nearest is {nearest}"
