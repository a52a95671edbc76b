"""A step whose tokens are to be placed: where each stands in its request, and in the KV cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

SLOTS, WIDTH, SIZE = 9, 40, 4


def ragged_step(seed: int, rows: int) -> dict[str, Any]:
    """Rows with ragged queries in random slots, with blocks in random order."""
    rng = np.random.default_rng(seed)
    queries = rng.integers(1, 7, rows)
    lengths = queries + rng.integers(0, 30, rows)
    return {
        "token_ids": torch.from_numpy(rng.integers(0, 1000, (SLOTS, WIDTH)).astype(np.int32)),
        "slots": torch.from_numpy(rng.permutation(SLOTS)[:rows].astype(np.int64)),
        "starts": torch.from_numpy(np.append(0, queries.cumsum()).astype(np.int32)),
        "seq_lens": torch.from_numpy(lengths.astype(np.int32)),
        "table": torch.from_numpy(rng.permutation(100)[: rows * 10].reshape(rows, 10)).int(),
        "size": SIZE,
    }
