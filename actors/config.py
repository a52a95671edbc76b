"""What each actor is told when it starts. Each gets its own Struct and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=2)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]

Placement = Literal["inline", "embedded", "processes"]

DraftTokens = int | Literal["auto"]
"""Most drafts of a row and step; `auto`: as many as pay, at most AUTO_DRAFTS."""

AUTO_DRAFTS = 16
"""what `auto` may reach"""


DRAFT_WAIT, RESERVE_MB = 0.5, 1024
"""of a WorkerConfig that says nothing"""

HANG_SECONDS, INTERPRETED_SECONDS = 60.0, 3600.0
"""of silence, or of one step, after which a process counts as dead"""


def most_drafts(draft_tokens: DraftTokens) -> int:
    """How many drafts a row may have in one step, whatever pays."""
    return AUTO_DRAFTS if draft_tokens == "auto" else draft_tokens


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """executor: `native`, `torch`, `triton`, `auto`, the fastest that can, or `module:Class` of an Executor.

    model: path of a GGUF file or of a Hugging Face folder. dtype: of weights and KV cache.
    quant: of weights, see optimist.models.quantisation. threads: that compute, None is one for each
    core, fewer beside engines of other processes. kv_blocks: KV blocks, None sizes them from
    kv_memory_mb; if that is None too, it is 512 on a CPU, and on a GPU all that is free but reserve_mb.
    max_model_len: None is the model's own. max_batch_tokens: query tokens of a step, None leaves them to the
    device, see `batch_tokens`. executor_options: for a `module:Class` executor, as JSON.
    draft_wait: how long a step waits for drafts at most, as a share of the time that steps take; None is
    DRAFT_WAIT.
    proposer: `self-draft`, `draft-model` or `ngram-device`, which draft on the device; `none`: drafts, if
    any, come from the host. draft_layers: of the model, for self-draft; None is a quarter of them.
    draft_model: path of another model with the same vocabulary, for draft-model. ngram_min, ngram_max:
    for ngram-device, see ProposerConfig; the engine says.
    device: `cpu`, `cuda`, `cuda:N`, or `auto`, a GPU where torch sees one. kv_dtype: of the KV cache, auto
    is dtype, and int8 on the native executor where weights have 8 or 4 bits; `int8` needs that executor,
    `fp8` the triton one. reserve_mb: of a GPU's memory, left free beside weights,
    cache and what a step takes; None is RESERVE_MB. graphs: capture steps of decode rows on a GPU.
    most_drafts: of a row,
    that graphs have room for; the engine says.
    packed_cache: a folder where the native library's packed weights are kept and mapped from, "" for none.
    torch_compile: the backend with which the torch executor compiles norms, gate and rotation; off: none.
    verify: how drafts are judged: compared with the `sample` at their place, so that seeded output does
    not depend on them, or by `rejection` sampling, one by one or as a `block`, where it does.
    """

    model: str = ""
    executor: str = "auto"
    dtype: Literal["float32", "bfloat16", "float64"] = "bfloat16"
    quant: Literal["none", "int8", "int4", "auto"] = "none"
    block_size: Count = 16
    kv_blocks: Count | None = None
    kv_memory_mb: Count | None = None
    max_slots: Count = 64
    max_model_len: Count | None = None
    max_batch_tokens: Count | None = None
    threads: Count | None = None
    draft_wait: Annotated[float, msgspec.Meta(ge=0)] | None = None
    proposer: Literal["none", "self-draft", "draft-model", "ngram-device"] = "none"
    draft_layers: Count | None = None
    draft_model: str = ""
    ngram_min: int = 2
    ngram_max: int = 5
    verify: Literal["sample", "rejection", "block"] = "sample"
    executor_options: dict[str, int | float | str | bool] = {}
    device: str = "auto"
    kv_dtype: Literal["auto", "bfloat16", "int8", "fp8"] = "auto"
    torch_compile: Literal["off", "inductor", "aot_eager"] = "off"
    reserve_mb: Annotated[int, msgspec.Meta(ge=0)] | None = None
    graphs: bool = True
    most_drafts: Annotated[int, msgspec.Meta(ge=0)] = 0
    packed_cache: str = ""


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """depth: steps planned ahead of results, 1 or 2; 1 is synchronous.

    max_batch_tokens: query tokens of a step, None is what the worker takes. max_chunk: prompt tokens of one request in a step.
    max_waiting: requests that may wait; one more is refused. max_waiting_tokens: their prompt tokens.
    prefix_cache: share KV of equal prefixes. proposer, draft_tokens: as in ProposerConfig.
    """

    depth: Depth = 2
    max_batch_tokens: Count | None = None
    max_chunk: Count = 512
    max_waiting: Count = 1024
    max_waiting_tokens: Count = 1_000_000
    prefix_cache: bool = True
    proposer: str = "none"
    draft_tokens: DraftTokens = "auto"


class ProposerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """proposer: who guesses the next tokens: `none`, `ngram`, `suffix`, or `module:Class` of a Proposer.

    Those that draft on the worker's device have no actor. draft_tokens: see DraftTokens.
    ngram_min, ngram_max: how many last tokens must have occurred before, at least and at most.
    suffix_depth: how many last tokens are compared. suffix_tokens: of ended requests that are
    remembered for others. suffix_probability: a draft is made while it is accepted this likely.
    proposer_options: for a `module:Class`, as JSON.
    """

    proposer: str = "none"
    draft_tokens: DraftTokens = "auto"
    ngram_min: int = 2
    ngram_max: int = 5
    suffix_depth: int = 24
    suffix_tokens: int = 1_000_000
    suffix_probability: float = 0.3
    proposer_options: dict[str, int | float | str | bool] = {}


class BuilderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """block_size: tokens of a KV block."""

    block_size: Count = 16


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """model: where tokenizer and chat template come from. model_name: what clients call it.

    credit: tokens a request may be ahead of its client. zmq: endpoint of the client protocol, or "".
    zmq_keys: path of a JSON file with the CURVE keys of that endpoint, `public` and `secret`, or "".
    host, port: of HTTP; port 0 takes a free one, None serves no HTTP. max_requests: live ones.
    """

    model: str = ""
    model_name: str = ""
    credit: Count = 256
    max_requests: Count = 1024
    zmq: str = ""
    zmq_keys: str = ""
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole engine. groups: actors that share a process, such as `scheduler+builder`.

    hang_timeout: None is HANG_SECONDS, or INTERPRETED_SECONDS where Triton's kernels are interpreted.
    """

    placement: Placement = "embedded"
    groups: tuple[str, ...] = ()
    gateway: GatewayConfig = GatewayConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    proposer: ProposerConfig = ProposerConfig()
    builder: BuilderConfig = BuilderConfig()
    worker: WorkerConfig = WorkerConfig()
    start_timeout: Seconds = 120.0
    stop_timeout: Seconds = 10.0
    restarts: Annotated[int, msgspec.Meta(ge=0)] = 3
    restart_window: Seconds = 30.0
    hang_timeout: Seconds | None = None
