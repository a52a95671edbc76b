"""Rows that sample, each with parameters of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.sampling import Edits, Penalties, Rows

VOCAB = 41


def logits_of(rows: int, seed: int = 0, vocab: int = VOCAB) -> Tensor:
    """[rows, vocab] float32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab, generator=generator) * 3


def mixed_rows(rows: int, seed: int) -> Rows:
    """Every parameter on in some rows and off in others."""
    generator = torch.Generator().manual_seed(seed)

    def choice(*values: float) -> Tensor:
        return torch.tensor(values)[torch.randint(len(values), (rows,), generator=generator)]

    counts = torch.randint(-3, 3, (rows, VOCAB), generator=generator).clamp(min=0)
    return Rows(
        temperature=choice(0.0, 0.3, 1.0, 1.7),
        seed=torch.randint(-(2**62), 2**62, (rows,), generator=generator),
        position=torch.randint(0, 5000, (rows,), generator=generator),
        penalties=Penalties(
            counts.to(torch.int32),
            torch.rand(rows, VOCAB, generator=generator) < 0.2,
            choice(0.0, 0.8, -0.5),
            choice(0.0, 0.4),
            choice(1.0, 1.3, 0.8),
        ),
        edits=(
            Edits(
                torch.randint(rows, (2 * rows,), generator=generator),
                torch.randint(VOCAB, (2 * rows,), generator=generator),
                torch.randn(2 * rows, generator=generator) * 4,
            ),
            Edits(torch.tensor([0, 1]), torch.tensor([3, 7]), torch.tensor([-torch.inf, 0.0])),
        ),
        top_k=choice(0, 1, 2, 10, 100).to(torch.int32),
        max_top_k=100,
        top_p=choice(1.0, 0.9, 0.5, 0.01),
        min_p=choice(0.0, 0.05, 0.5, 1.0),
    )


BROKEN = 4
"""rows of `broken` that have no likeliest token; behind them are two that have one"""


def broken(seed: int = 0) -> Tensor:
    """Logits of which one is no number, or all, or infinite, or none is allowed; and of two whole rows."""
    logits = logits_of(BROKEN + 2, seed)
    logits[0, VOCAB // 2] = torch.nan
    logits[1] = torch.nan
    logits[2, 3] = torch.inf
    logits[3] = -torch.inf
    logits[5, 7] = -torch.inf
    return logits
