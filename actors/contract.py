"""Options that contradict each other are refused at the start, by name, before anything is loaded.

Which kind of plan an engine emits is fixed by its options; so is, for everyone that will be told of
rows, whether it can take that kind. Nothing of this is found out at a step.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from optimist.actors.config import (
    EngineConfig,
    GatewayConfig,
    ProposerConfig,
    WorkerConfig,
    most_drafts,
)
from optimist.actors.proposer.kinds import kind_of
from optimist.actors.proposer.options import OWN_OPTIONS, check_own
from optimist.messages.errors import ConfigError

PlanKind = Literal["exact", "optimistic"]

TILE = 16
"""tokens that lie together in the native cache: its blocks are multiples of it"""

TORCH_ALONE = (
    "--dtype float32, --torch-compile, a --block-size that is no multiple of 16, --proposer draft-model or "
    "ngram-device, and self-draft with --verify rejection or block"
)
"""what native_lacks says of options, in short"""


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
    _check_room(config)
    check_own(config.proposer)
    _check_owners(config.proposer)
    _check_device(config)
    _check_doors(config.gateway)
    _check_memory(config.worker)


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


def _check_room(config: EngineConfig) -> None:
    """No request has room for as many drafts as the context has tokens."""
    drafts, longest = config.proposer.draft_tokens, config.worker.max_model_len
    if drafts != "auto" and longest is not None and drafts >= longest:
        raise ConfigError(too_many_drafts(drafts, longest))


def too_many_drafts(drafts: int, max_model_len: int) -> str:
    """What is said of so many in so short a context."""
    return (
        f"draft_tokens: {drafts} drafts and max_model_len {max_model_len} contradict each other: a request "
        f"has room for {max_model_len - 1} at most; use fewer, or auto"
    )


def _check_owners(config: ProposerConfig) -> None:
    """An option of one proposer is not ignored when another, or none, is chosen."""
    defaults = ProposerConfig()
    chosen = "module:Class" if ":" in config.proposer else config.proposer
    for owners, options in OWN_OPTIONS.items():
        for name in options if chosen not in owners else ():
            if (value := getattr(config, name)) != getattr(defaults, name):
                raise ConfigError(_only(name, value, " or ".join(owners), config.proposer))


def _check_doors(config: GatewayConfig) -> None:
    """Options of a door that is not there."""
    if config.zmq_keys and not config.zmq:
        raise ConfigError(f"zmq_keys: {config.zmq_keys!r} is for zmq, which is not given")
    if config.port is None and config.host != GatewayConfig().host:
        raise ConfigError(f"host: {config.host!r} is for port, which is not given")


def _check_memory(config: WorkerConfig) -> None:
    """What says how large the KV cache is, is said once."""
    said = {name: getattr(config, name) for name in ("kv_blocks", "kv_memory_mb", "reserve_mb")}
    given = [f"{name} {value}" for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(
            f"{', '.join(given)}: contradict each other, each says how large the KV cache is; give one"
        )


def _check_device(config: EngineConfig) -> None:
    """Options of the worker that mean something only with a certain proposer, or executor."""
    worker, proposer = config.worker, config.proposer.proposer
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
    if worker.draft_wait is not None and kind_of(proposer) != "host":
        raise ConfigError(
            f"draft_wait: {worker.draft_wait:g} and proposer {proposer!r} contradict each other: no drafts "
            f"come from elsewhere; name ngram, suffix or module:Class, or leave draft_wait away"
        )
    if worker.executor_options and worker.executor in ("auto", "native", "torch", "triton"):
        raise ConfigError(
            f"executor_options: {worker.executor_options!r} and executor {worker.executor!r} contradict "
            f"each other; they are for a module:Class"
        )
    told = worker_config(config)
    if worker.executor == "native" and (why := native_drafting_lacks(told)):
        raise ConfigError(f"executor: 'native' and {why}")


def native_lacks(config: WorkerConfig) -> str:
    """Which option the native library does not honour, and what to change; "" where it honours all."""
    if config.dtype != "bfloat16":
        return f"dtype {config.dtype!r} do not go together: it runs bfloat16"
    if config.block_size % TILE:
        return (
            f"block_size {config.block_size} do not go together: it runs multiples of {TILE} tokens"
        )
    if config.torch_compile != "off":
        return f"torch_compile {config.torch_compile!r} do not go together: torch compiles its own"
    return native_drafting_lacks(config)


def native_drafting_lacks(config: WorkerConfig) -> str:
    """The same, of options about drafts."""
    proposer, verify = config.proposer, config.verify
    if proposer not in ("none", "self-draft"):
        return (
            f"proposer {proposer!r} do not go together: it takes drafts from the host, as of ngram and "
            f"suffix, or drafts by self-draft"
        )
    if proposer != "none" and verify != "sample":
        return (
            f"verify {verify!r} do not go together with proposer {proposer!r}: use verify sample, or "
            f"a proposer on the host"
        )
    return ""


def _only(name: str, value: object, owner: str, proposer: str) -> str:
    return (
        f"{name}: {value!r} is for proposer {owner} and the proposer is {proposer!r}; "
        f"use proposer {owner}, or leave {name} away"
    )
