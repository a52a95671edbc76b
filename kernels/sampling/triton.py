"""Sampling on a GPU: penalties and edits in place, then one program a row."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels.sampling.triton_device import choose, edit, penalise, spread
from optimist.kernels.sampling.types import Rows
from optimist.kernels.triton_common import divided, launch

BLOCK = 2048
"""tokens of the vocabulary at a time"""


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row of logits [S, V], the lowest id among equals. [S] int64.

    NO_TOKEN where one of them is not a number, or the largest is not finite.
    """
    return _choose(logits.contiguous(), None)


def sample(logits: Tensor, rows: Rows) -> Tensor:
    """Choose a token for each row, [S] int64. logits [S, V] float32 or wider are overwritten."""
    logits = _adjusted(logits, rows)
    return _choose(logits, None if rows.temperature is None else rows)


def distribution(logits: Tensor, rows: Rows) -> Tensor:
    """The probabilities that `sample` chooses by, [S, V] in logits' dtype; logits are overwritten.

    NaN where there is NO_TOKEN.
    """
    logits = _adjusted(logits, rows)
    best = _choose(logits, None)
    if rows.temperature is None:
        spike = torch.zeros_like(logits).scatter_(1, best[:, None].clamp(min=0), 1.0)
        return torch.where(best[:, None] < 0, torch.nan, spike)
    out = torch.empty_like(logits)
    launch(
        spread,
        (logits.shape[0],),
        *(logits, out, best, rows.temperature, rows.top_k, rows.top_p, rows.min_p),
        logits.shape[1],
        BLOCK=BLOCK,
        num_warps=8,
    )
    return out


def _adjusted(logits: Tensor, rows: Rows) -> Tensor:
    logits = logits.contiguous()
    count, vocab = logits.shape
    if (by := rows.penalties) is not None:
        launch(
            penalise,
            (count, divided(vocab, BLOCK)),
            *(logits, by.counts, by.in_prompt, by.presence, by.frequency, by.repetition, vocab),
            BLOCK=BLOCK,
            num_warps=8,
        )
    for edits in rows.edits:
        many, values = edits.rows.shape[0], edits.values.contiguous()
        launch(
            edit,
            (divided(many, 256),),
            *(logits, edits.rows, edits.ids, values, vocab, many),
            BLOCK=256,
            num_warps=4,
        )
    return logits


def _choose(logits: Tensor, rows: Rows | None) -> Tensor:
    out = torch.empty(logits.shape[0], dtype=torch.int64, device=logits.device)
    by: tuple[Tensor | None, ...] = (None,) * 6
    if rows is not None:
        by = (rows.temperature, rows.seed, rows.position, rows.top_k, rows.top_p, rows.min_p)
    launch(
        choose,
        (logits.shape[0],),
        *(logits, out, *by, logits.shape[1]),
        BLOCK=BLOCK,
        num_warps=8,
    )
    return out
