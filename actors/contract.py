"""Options that contradict each other are refused at the start, by name, before anything is loaded.

Which kind of plan an engine emits is fixed by its options; so is, for everyone that will be told of
rows, whether it can take that kind. Nothing of this is found out at a step.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from optimist.actors.config import EngineConfig, ProposerConfig, WorkerConfig, most_drafts
from optimist.actors.proposer.kinds import kind_of
from optimist.messages.errors import ConfigError

PlanKind = Literal["exact", "optimistic"]

_OWN_OPTIONS = {
    ("ngram", "ngram-device"): ("ngram_min", "ngram_max"),
    ("suffix",): ("suffix_depth", "suffix_tokens", "suffix_probability"),
    ("module:Class",): ("proposer_options",),
}
"""options that mean something to some proposers only"""


def plan_kind(config: EngineConfig) -> PlanKind:
    """The one kind of plan that an engine of this configuration emits, whatever happens in a step."""
    drafting = config.scheduler.proposer != "none"
    return "optimistic" if drafting and config.scheduler.depth > 1 else "exact"


def worker_config(config: EngineConfig) -> WorkerConfig:
    """What the worker is told: its own part, who drafts on the device, and how much is drafted."""
    told, name = config.proposer, config.proposer.proposer
    return msgspec.structs.replace(
        config.worker,
        proposer=name if kind_of(name) == "device" else "none",
        most_drafts=0 if name == "none" else most_drafts(told.draft_tokens),
        ngram_min=told.ngram_min,
        ngram_max=told.ngram_max,
    )


def check_contract(config: EngineConfig) -> None:
    """Raise ConfigError for options that are unknown or clash, naming both and what to change."""
    kind_of(config.proposer.proposer)
    _check_told_alike(config)
    _check_drafts(config.proposer)
    _check_owners(config.proposer)
    _check_device(config.worker, config.proposer.proposer)


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
    for owners, options in _OWN_OPTIONS.items():
        for name in options if chosen not in owners else ():
            if (value := getattr(config, name)) != getattr(defaults, name):
                raise ConfigError(_only(name, value, " or ".join(owners), config.proposer))


def _check_device(worker: WorkerConfig, proposer: str) -> None:
    """Options of the worker that mean something only with a certain proposer, or executor."""
    if worker.draft_layers is not None and proposer != "self-draft":
        raise ConfigError(_only("draft_layers", worker.draft_layers, "self-draft", proposer))
    if worker.draft_model and proposer != "draft-model":
        raise ConfigError(_only("draft_model", worker.draft_model, "draft-model", proposer))
    if proposer == "draft-model" and not worker.draft_model:
        raise ConfigError("draft_model: expected the path of a model with proposer 'draft-model'")
    if worker.verify != "sample" and proposer == "none":
        raise ConfigError(
            f"verify: {worker.verify!r} and proposer 'none' contradict each other; name a proposer, "
            f"or use verify sample"
        )
    drafting = kind_of(proposer) == "device"
    if worker.executor == "native" and (drafting or worker.verify != "sample"):
        what = f"proposer {proposer!r}" if drafting else f"verify {worker.verify!r}"
        raise ConfigError(
            f"executor: 'native' and {what} do not go together; use torch, or proposer "
            f"ngram or suffix with verify sample"
        )


def _only(name: str, value: object, owner: str, proposer: str) -> str:
    return (
        f"{name}: {value!r} is for proposer {owner} and the proposer is {proposer!r}; "
        f"use proposer {owner}, or leave {name} away"
    )
