"""A decode step and a prompt through the torch executor, beside the time it takes to read the weights.

The read is timed between steps, so that both meet the same machine. `ratio` is step over read: 1 is a
step that does nothing but fetch weights, which no step of one row can beat.

    python benchmarks/steps.py [--dtype bfloat16] [--threads N] [--batches 1,8,32] [--contexts 256] [--steps 20]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.models.base import expected_shapes
from optimist.models.config import ModelConfig
from optimist.testing.hand import Hand, Row

BLOCK = 16


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    begun = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begun)


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """What a step must fetch: every matrix once; a tied embedding is the head."""
    shapes = expected_shapes(config)
    if not config.tie_embeddings:
        del shapes["embed"]
    return sum(int(np.prod(shape)) for shape in shapes.values()) * dtype.itemsize


def measure(
    executor: TorchExecutor, weights: torch.Tensor, rows: int, context: int, steps: int
) -> dict[str, Any]:
    """Medians over so many steps of so many rows, each with `context` tokens at first."""
    executor.reset()
    hand, rng = Hand(executor), np.random.default_rng(0)
    blocks = -(-(context + steps + 2) // BLOCK)
    vocab = executor.limits.vocab_size
    for slot in range(rows):
        owned = range(slot * blocks, (slot + 1) * blocks)
        hand.open(slot, rng.integers(0, vocab, context).tolist(), owned)
    prefill = [timed(lambda slot=slot: hand.run([Row(slot, context)])) for slot in range(rows)]
    decode = [Row(slot, 1, decode=True) for slot in range(rows)]
    hand.run(decode)
    step, read = [], []
    for _ in range(steps):
        step.append(timed(lambda: hand.run(decode)))
        read.append(timed(weights.sum))
    return {
        "rows": rows,
        "context": context,
        "step_ms": round(statistics.median(step), 2),
        "step_ms_best": round(min(step), 2),
        "read_ms": round(statistics.median(read), 2),
        "ratio": round(statistics.median(step) / statistics.median(read), 2),
        "prefill_tokens_a_second": round(1000 * context / statistics.median(prefill)),
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--contexts", default="256")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    batches = [int(value) for value in args.batches.split(",")]
    contexts = [int(value) for value in args.contexts.split(",")]
    longest = max(contexts) + args.steps + 2
    config = WorkerConfig(
        model=args.model,
        dtype=args.dtype,
        threads=args.threads,
        max_slots=max(batches),
        max_model_len=longest,
        kv_blocks=max(batches) * -(-longest // BLOCK),
    )
    begun = time.perf_counter()
    executor = TorchExecutor.load(config, lambda what, done, total: None)
    loaded = time.perf_counter() - begun
    dtype = getattr(torch, args.dtype)
    network = executor._model.config  # noqa: SLF001
    weights = torch.ones(weight_bytes(network, dtype) // 4)
    print(
        json.dumps(
            {
                "dtype": args.dtype,
                "threads": torch.get_num_threads(),
                "load_s": round(loaded, 2),
                "weights_mb": round(weight_bytes(network, dtype) / 1e6),
                "steps": [
                    measure(executor, weights, rows, context, args.steps)
                    for context in contexts
                    for rows in batches
                ],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
