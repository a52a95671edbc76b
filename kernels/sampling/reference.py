"""The spec of sampling: one row at a time, as one would explain it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optimist.kernels.sampling.types import NO_TOKEN, Rows

_WORD = 0xFFFFFFFF


def sample(logits: Tensor, rows: Rows) -> Tensor:
    """A token for each row of logits [S, V], [S] int64. Reads tensors freely: it is for tests.

    NO_TOKEN where the largest logit is no finite number, or another is not a number.
    """
    return torch.tensor([_row(logits[s].clone(), rows, s) for s in range(logits.shape[0])])


def distribution(logits: Tensor, rows: Rows) -> Tensor:
    """The probabilities that a token is chosen by, [S, V]."""
    out = torch.zeros_like(logits)
    for s in range(logits.shape[0]):
        scores, warm = _scores(logits[s].clone(), rows, s)
        if not scores.max().isfinite():
            out[s] = torch.nan
        elif warm:
            out[s] = torch.softmax(scores, 0)
        else:
            out[s, int((scores == scores.max()).nonzero()[0])] = 1.0
    return out


def mix(x: int) -> int:
    """A bijection of 32-bit words."""
    x ^= x >> 16
    x = x * 0x7FEB352D & _WORD
    x ^= x >> 15
    x = x * 0x846CA68B & _WORD
    return x ^ x >> 16


def uniform_bits(seed: int, position: int, token: int) -> int:
    """31 bits that depend on these three and on nothing else."""
    first, second = _keys(seed, position)
    return mix(mix((token * 0x9E3779B9 & _WORD) ^ first) ^ second) & 0x7FFFFFFF


def gumbel(seed: int, position: int, token: int) -> float:
    """The noise of one token."""
    v = min((uniform_bits(seed, position, token) + 0.5) * 2.0**-31, 1 - 2.0**-24)
    return -math.log(-math.log1p(-v))


def branch(seed: int, at: int, which: int) -> int:
    """Another seed, for one use of the noise at one place."""
    first, second = _keys(seed, at)
    high, low = mix(mix(first ^ which) ^ second), mix(mix(second ^ which) ^ first)
    return (high << 32 | low) - (high >> 31 << 64)


def uniform(seed: int, position: int) -> float:
    """A number in (0, 1)."""
    return (uniform_bits(seed, position, 0) + 0.5) * 2.0**-31


def _keys(seed: int, position: int) -> tuple[int, int]:
    low, high, at = seed & _WORD, seed >> 32 & _WORD, position & _WORD
    first = mix(mix(mix(low ^ 0x85EBCA6B) ^ high) ^ at)
    return first, mix(mix(mix(at ^ 0x9E3779B9) ^ high) ^ low)


def _row(logits: Tensor, rows: Rows, s: int) -> int:
    scores, warm = _scores(logits, rows, s)
    if not scores.max().isfinite():
        return NO_TOKEN
    if not warm:
        return int((scores == scores.max()).nonzero()[0])
    seed, position = int(rows.seed[s]), int(rows.position[s])
    best, chosen = -math.inf, -1
    for token in (scores > -math.inf).nonzero().flatten().tolist():
        score = float(scores[token]) + gumbel(seed, position, token)
        if score > best:
            best, chosen = score, token
    return chosen


def _scores(logits: Tensor, rows: Rows, s: int) -> tuple[Tensor, bool]:
    """What is left to choose among, and whether noise has a say."""
    _penalise_(logits, rows, s)
    for edits in rows.edits:
        for row, token, value in zip(*(part.tolist() for part in edits), strict=True):
            if row == s:
                logits[token] += value
    temperature = 0.0 if rows.temperature is None else float(rows.temperature[s])
    if not temperature or not logits.max().isfinite():
        return logits, False
    scores = (logits - logits.max()) / temperature
    for keep in (_top_k, _top_p, _min_p):
        scores[~keep(scores, rows, s)] = -math.inf
    return scores, True


def _penalise_(logits: Tensor, rows: Rows, s: int) -> None:
    if (by := rows.penalties) is None:
        return
    for token in range(logits.shape[0]):
        emitted, known = int(by.counts[s, token]), bool(by.in_prompt[s, token])
        if emitted or known:
            factor = float(by.repetition[s])
            logits[token] = logits[token] / factor if logits[token] > 0 else logits[token] * factor
        logits[token] -= emitted * by.frequency[s] + (emitted > 0) * by.presence[s]


def _top_k(scores: Tensor, rows: Rows, s: int) -> Tensor:
    k = 0 if rows.top_k is None else int(rows.top_k[s])
    if not 0 < k < scores.shape[0]:
        return torch.ones_like(scores, dtype=torch.bool)
    return scores >= scores.sort(descending=True).values[k - 1]


def _top_p(scores: Tensor, rows: Rows, s: int) -> Tensor:
    p = 1.0 if rows.top_p is None else float(rows.top_p[s])
    if p >= 1:
        return torch.ones_like(scores, dtype=torch.bool)
    mass, floor, scores = 0.0, math.inf, scores.float()
    probability = torch.softmax(scores, 0)
    for token in scores.argsort(descending=True, stable=True).tolist():
        if mass >= p:
            break
        mass, floor = mass + float(probability[token]), float(scores[token])
    return scores >= floor


def _min_p(scores: Tensor, rows: Rows, s: int) -> Tensor:
    p = 0.0 if rows.min_p is None else float(rows.min_p[s])
    return scores >= (math.log(p) if p else -math.inf)
