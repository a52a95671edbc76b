"""The torch executor on the toy network, and what the dense network would say."""

from __future__ import annotations

from typing import Any

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.testing.hand import GREEDY
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import toy_network

NETWORK = toy_network()
NEXT_TOKEN = ToyOracle()
PROMPT = [5, 60, 7, 81, 9, 10, 11]
OTHER = [1, 2, 3]

SIZES: dict[str, Any] = {"block_size": 4, "kv_blocks": 40, "max_slots": 4, "max_model_len": 48}


def executor(**options: Any) -> TorchExecutor:
    """Four slots, forty blocks of four tokens, unless told otherwise."""
    config: dict[str, Any] = {"dtype": "float64", **SIZES, **options}
    return TorchExecutor(NETWORK, WorkerConfig(**config))


def greedy_from(prompt: list[int], count: int) -> list[int]:
    """The next tokens, computed without cache or batch."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(NEXT_TOKEN(tokens, len(prompt), GREEDY))
    return tokens[len(prompt) :]
