"""Every option of every command, in one table: parser and docs/configuration.md are made from it."""

from __future__ import annotations

from typing import Any

from optimist.cli.bench_options import BENCH
from optimist.cli.device_options import DEVICE
from optimist.cli.drafting_options import DRAFTING
from optimist.cli.option import (
    COMPARED,
    GENERATE,
    JSON,
    MEASURES,
    ON_DEVICE,
    SERVE,
    Option,
    engine_option,
    serve_option,
)
from optimist.cli.sampling_options import SAMPLED

OPTIONS = (
    engine_option(
        "--model",
        "gateway.model worker.model",
        "text",
        "path of a GGUF file or Hugging Face folder to serve; empty is the installed default model",
        also=(*COMPARED, *MEASURES, *ON_DEVICE),
    ),
    engine_option(
        "--dtype",
        "worker.dtype",
        "text",
        "number type of weights and KV cache",
        ("float32", "bfloat16"),
    ),
    *DEVICE,
    engine_option(
        "--placement",
        "placement",
        "text",
        "where the actors run: this loop, all but the gateway in one process, or each in its own; with a "
        "--proposer of your own embedded takes the place of a default of inline",
        ("inline", "embedded", "processes"),
    ),
    engine_option(
        "--group",
        "groups",
        "texts",
        "actors that share a process, such as worker+builder, or one alone; may be repeated",
    ),
    engine_option(
        "--depth",
        "scheduler.depth",
        "int",
        "steps planned ahead of results; 1 is synchronous",
        ("1", "2"),
    ),
    *DRAFTING,
    engine_option(
        "--max-model-len",
        "worker.max_model_len",
        "int",
        "tokens of one request, prompt included; not given: the model's own limit",
    ),
    engine_option(
        "--block-size",
        "worker.block_size builder.block_size",
        "int",
        "tokens that a KV block holds",
    ),
    engine_option(
        "--kv-blocks",
        "worker.kv_blocks",
        "int",
        "KV blocks on the device; not given: as many as --kv-memory-mb holds",
    ),
    engine_option(
        "--kv-memory-mb",
        "worker.kv_memory_mb",
        "int",
        "memory of the KV cache, in MiB; not given: 512, on a GPU all but --reserve-mb",
    ),
    engine_option("--max-slots", "worker.max_slots", "int", "requests that run at once"),
    engine_option(
        "--max-batch-tokens",
        "scheduler.max_batch_tokens worker.max_batch_tokens",
        "int",
        "query tokens of one step; not given: 256 of prompts and 1 for each slot, on a GPU 2048 in all "
        "and at least 2 for each slot",
    ),
    engine_option(
        "--max-chunk", "scheduler.max_chunk", "int", "prompt tokens of one request in one step"
    ),
    engine_option(
        "--max-waiting",
        "scheduler.max_waiting",
        "int",
        "requests that may wait; one more is refused",
    ),
    engine_option(
        "--no-prefix-cache",
        "scheduler.prefix_cache",
        "off",
        "every prompt is computed in full; cached_tokens stays 0",
    ),
    engine_option(
        "--threads",
        "worker.threads",
        "int",
        "threads that compute, of the native library 512 at most; not given: one for each core, fewer beside "
        "engines of other processes",
        also=(*COMPARED, *MEASURES),
    ),
    engine_option(
        "--start-timeout",
        "start_timeout",
        "float",
        "seconds until a start that is not ready is given up",
    ),
    engine_option(
        "--stop-timeout",
        "stop_timeout",
        "float",
        "seconds an actor may take to stop before it is killed",
    ),
    engine_option(
        "--restarts",
        "restarts",
        "int",
        "deaths of an actor within --restart-window before the engine ends",
    ),
    engine_option(
        "--restart-window", "restart_window", "float", "seconds over which deaths are counted"
    ),
    engine_option(
        "--hang-timeout",
        "hang_timeout",
        "float",
        "seconds of silence, or of one step, after which a process counts as dead; not given: 60, or "
        "3600 where Triton's kernels are interpreted",
    ),
    serve_option("--host", "host", "text", "address that HTTP listens on"),
    serve_option("--port", "port", "int", "port that HTTP listens on; 0 takes a free one"),
    serve_option(
        "--zmq",
        "zmq",
        "text",
        "endpoint of the ZeroMQ client protocol, such as ipc:///run/optimist.sock",
    ),
    serve_option(
        "--zmq-keys",
        "zmq_keys",
        "text",
        "JSON file with the CURVE keys of --zmq, which tcp beyond the loopback address needs",
    ),
    serve_option(
        "--model-name",
        "model_name",
        "text",
        "what clients call the model; not given: its file name",
    ),
    serve_option("--max-requests", "max_requests", "int", "live requests; one more is refused"),
    serve_option(
        "--credit",
        "credit",
        "int",
        "tokens a request may be ahead of its client before its row pauses",
    ),
    Option(
        "--drain-timeout",
        SERVE,
        ("command.drain_timeout",),
        "float",
        "seconds that requests may take to finish after SIGTERM or SIGINT; a second one ends them",
    ),
    Option(
        "--prompt-ids", GENERATE, ("command.prompt_ids",), "ints", "token ids instead of a PROMPT"
    ),
    Option(
        "--chat",
        GENERATE,
        ("command.chat",),
        "on",
        "PROMPT is a user's message, put into the model's chat template",
    ),
    Option("--system", ("chat",), ("command.system",), "text", "the system message"),
    *SAMPLED,
    *BENCH,
    Option("--json", JSON, ("command.json",), "on", "prints one JSON object instead of prose"),
)

COMMAND_DEFAULTS: dict[str, dict[str, Any]] = {
    "generate": {"config.placement": "inline"},
    "chat": {
        "config.placement": "inline",
        "params.max_tokens": 1024,
        "params.temperature": 0.2,
        "params.top_p": 0.9,
    },
    "serve": {
        "config.groups": ("worker+builder+scheduler",),
        "config.placement": "processes",
        "config.gateway.port": 8000,
        "command.drain_timeout": 25.0,
    },
    "bench offline": {
        "config.placement": "inline",
        "command.requests": 32,
        "command.input": 128,
        "command.output": 128,
    },
    "bench speculation": {"command.parts": "ngram,suffix,optimum", "command.pairs": 5},
    "bench quality": {"command.tokens": 24_000},
    "bench floor": {"command.context": 256},
    "bench attention": {
        "command.batch": "8q1s1k_2q512s4k",
        "command.backends": "triton,cpu,torch",
    },
}
"""Where a command starts from something else than the Struct's own default."""

SUCCESSORS = {
    "--max-new-tokens": "--max-tokens",
    "--n-predict": "--max-tokens",
    "--temp": "--temperature",
    "--ctx-size": "--max-model-len",
    "--max-num-seqs": "--max-slots",
    "--max-num-batched-tokens": "--max-batch-tokens",
    "--num-speculative-tokens": "--draft-tokens",
    "--speculative-model": "--draft-model",
    "--model-draft": "--draft-model",
    "--quantization": "--quant",
    "--kv-cache-dtype": "--kv-dtype",
    "--gpu-memory-utilization": "--reserve-mb",
    "--enforce-eager": "--no-graphs",
    "--enable-prefix-caching": "--no-prefix-cache (the prefix cache is on unless it is given)",
    "--num-threads": "--threads",
}
"""Options that were removed, or that people bring along, and what takes their place here."""


def by_option(message: str, command: str) -> str:
    """A complaint that begins with a field, beginning with the command's option for it instead."""
    field, colon, reason = message.partition(": ")
    name, bracket, at = field.partition("[")
    for option in options_of(command) if colon else ():
        if any(f".{target}".endswith(f".{name}") for target in option.targets):
            return f"{option.flag}{bracket}{at}: {reason}"
    from optimist.actors.proposer.options import OWN_OPTIONS

    if colon and any(name in names for names in OWN_OPTIONS.values()):
        return f"--proposer-option {name}=: {reason}"
    return message


def options_of(command: str) -> list[Option]:
    """The options that a command takes, in the order of the table."""
    return [option for option in OPTIONS if command in option.commands]
