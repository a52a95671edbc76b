"""Options that contradict each other are refused at the start, by name, before anything is loaded.

Which kind of plan an engine emits is fixed by its options; so is, for everyone that will be told of
rows, whether it can take that kind. Nothing of this is found out at a step.
"""

from __future__ import annotations

from typing import Literal

from optimist.actors.config import EngineConfig, ProposerConfig
from optimist.actors.proposer.kinds import kind_of
from optimist.messages.errors import ConfigError

PlanKind = Literal["exact", "optimistic"]

_OWN_OPTIONS = {
    "ngram": ("ngram_min", "ngram_max"),
    "suffix": ("suffix_depth", "suffix_tokens", "suffix_probability"),
    "module:Class": ("proposer_options",),
}
"""options that mean something to one proposer only"""


def plan_kind(config: EngineConfig) -> PlanKind:
    """The one kind of plan that an engine of this configuration emits, whatever happens in a step."""
    drafting = config.scheduler.proposer != "none"
    return "optimistic" if drafting and config.scheduler.depth > 1 else "exact"


def check_contract(config: EngineConfig) -> None:
    """Raise ConfigError for options that are unknown or clash, naming both and what to change."""
    kind_of(config.proposer.proposer)
    _check_told_alike(config)
    _check_drafts(config.proposer)
    _check_owners(config.proposer)


def _check_told_alike(config: EngineConfig) -> None:
    """Options that several actors are told must be told to all of them alike."""
    scheduler, proposer = config.scheduler, config.proposer
    for one, other, value, another in (
        ("scheduler.proposer", "proposer.proposer", scheduler.proposer, proposer.proposer),
        (
            *("scheduler.draft_tokens", "proposer.draft_tokens"),
            *(scheduler.draft_tokens, proposer.draft_tokens),
        ),
        (
            *("builder.block_size", "worker.block_size"),
            *(config.builder.block_size, config.worker.block_size),
        ),
    ):
        if value != another:
            raise ConfigError(
                f"{one}: expected the same as {other}, which is {another!r}, got {value!r}"
            )


def _check_drafts(config: ProposerConfig) -> None:
    drafts, proposer = config.draft_tokens, config.proposer
    if drafts != "auto" and drafts < 0:
        raise ConfigError(f"draft_tokens: expected auto or a number >= 0, got {drafts}")
    if proposer == "none" and drafts not in (0, "auto"):
        raise ConfigError(
            f"draft_tokens: {drafts} drafts and proposer 'none' contradict each other; "
            f"name a proposer, or leave draft_tokens away"
        )
    if proposer != "none" and drafts == 0:
        raise ConfigError(
            f"draft_tokens: 0 drafts and proposer {proposer!r} contradict each other; "
            f"use proposer none, or draft_tokens auto"
        )


def _check_owners(config: ProposerConfig) -> None:
    """An option of one proposer is not ignored when another, or none, is chosen."""
    defaults = ProposerConfig()
    chosen = "module:Class" if ":" in config.proposer else config.proposer
    for owner, options in _OWN_OPTIONS.items():
        for name in options if owner != chosen else ():
            if (value := getattr(config, name)) != getattr(defaults, name):
                raise ConfigError(
                    f"{name}: {value!r} is for proposer {owner} and the proposer is "
                    f"{config.proposer!r}; use proposer {owner}, or leave {name} away"
                )
