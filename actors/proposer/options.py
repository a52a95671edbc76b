"""Options of our own proposers, held against their ranges: no proposer is made to find out."""

from __future__ import annotations

from optimist.actors.config import ProposerConfig
from optimist.messages.errors import ConfigError


def check_own(config: ProposerConfig) -> None:
    """Raise ConfigError, naming the option, for one that the proposer that config names cannot take."""
    if config.proposer in ("ngram", "ngram-device"):
        check_ngram(config.ngram_min, config.ngram_max)
    if config.proposer == "suffix":
        check_suffix(config)


def check_ngram(shortest: int, longest: int) -> None:
    """Raise ConfigError, naming the option, for numbers of tokens that cannot be matched."""
    if shortest < 1:
        raise ConfigError(f"ngram_min: expected >= 1, got {shortest}")
    if longest < shortest:
        raise ConfigError(
            f"ngram_max: expected at least ngram_min, which is {shortest}, got {longest}"
        )


def check_suffix(config: ProposerConfig) -> None:
    """Raise ConfigError, naming the option, for one out of range."""
    if config.suffix_depth < 2:
        raise ConfigError(f"suffix_depth: expected >= 2, got {config.suffix_depth}")
    if config.suffix_tokens < 0:
        raise ConfigError(f"suffix_tokens: expected >= 0, got {config.suffix_tokens}")
    if not 0 < config.suffix_probability <= 1:
        raise ConfigError(
            f"suffix_probability: expected above 0 and at most 1, got {config.suffix_probability}"
        )
