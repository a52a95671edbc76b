"""The spec of verification: one row at a time, one draft after the other."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from optimist.kernels.sampling import ACCEPT, NO_TOKEN, RESIDUAL, reference
from optimist.kernels.verify.types import Noise, Places, Verified

Reals = list[float]


class Round:
    """One row. target, proposal: [1 + drafts][V]; seeds and positions of its places."""

    def __init__(
        self, target: Tensor, proposal: Tensor | None, places: Places, noise: Noise, row: int
    ) -> None:
        low, high = int(places.starts[row]), int(places.starts[row + 1])
        self.drafts: list[int] = places.drafts[low : high - 1].tolist()
        self.p: list[Reals] = target[low:high].tolist()
        self.q = [
            _certain(draft, len(self.p[0])) if proposal is None else proposal[low + i].tolist()
            for i, draft in enumerate(self.drafts)
        ]
        self.q.append([0.0] * len(self.p[0]))
        self.seed, self.begin = int(noise.seed[low]), int(noise.position[low])

    def judge(self, i: int) -> float:
        """What decides about draft i."""
        seed = reference.branch(self.seed, self.begin, ACCEPT)
        return reference.uniform(seed, self.begin + i)

    def left(self, i: int, weight: float) -> Reals:
        """What a token behind i accepted drafts may be, not normalised."""
        every = zip(self.p[i], self.q[i], strict=True)
        # Of a NaN nothing is left.
        return [max(0.0, weight * p - q) for p, q in every]

    def draw(self, i: int, weights: Reals) -> int:
        """The token behind i accepted drafts."""
        bonus = i == len(self.drafts)
        seed = self.seed if bonus else reference.branch(self.seed, self.begin, RESIDUAL)
        weights = weights if sum(weights) > 0 else self.p[i]
        scores = [
            (math.log(w) + reference.gumbel(seed, self.begin + i, token), -token)
            for token, w in enumerate(weights)
            if w > 0
        ]
        return -max(scores)[1] if scores else NO_TOKEN


def verify(
    mode: str, target: Tensor, proposal: Tensor | None, places: Places, noise: Noise
) -> Verified:
    """As `compare` of draws from target, `reject` or `block`: mode is `sample`, `rejection` or `block`."""
    judge: Callable[[Round], tuple[int, int]]
    judge = {"sample": _compare, "rejection": _reject, "block": _block}[mode]
    ids, counts = places.drafts.clamp(min=0), []
    for row in range(len(places.counts)):
        accepted, token = judge(Round(target, proposal, places, noise, row))
        ids[int(places.starts[row]) + accepted] = token
        counts.append(accepted)
    return Verified(ids, torch.tensor(counts, dtype=torch.int64))


def _compare(row: Round) -> tuple[int, int]:
    for i in range(len(row.drafts) + 1):
        scores = [math.log(p) if p > 0 else -math.inf for p in row.p[i]]
        noise = [reference.gumbel(row.seed, row.begin + i, token) for token in range(len(scores))]
        token = max(range(len(scores)), key=lambda v: scores[v] + noise[v])
        token = token if scores[token] > -math.inf else NO_TOKEN
        if i == len(row.drafts) or token != row.drafts[i]:
            return i, token
    raise AssertionError


def _reject(row: Round) -> tuple[int, int]:
    for i, draft in enumerate(row.drafts):
        if not row.judge(i) * row.q[i][draft] < row.p[i][draft]:
            return i, row.draw(i, row.left(i, 1.0))
    return len(row.drafts), row.draw(len(row.drafts), row.p[-1])


def _block(row: Round) -> tuple[int, int]:
    weight, accepted, found = 1.0, 0, 1.0
    for i, draft in enumerate(row.drafts):
        ratio = weight * row.p[i][draft] / row.q[i][draft]
        weight = min(1.0, ratio) if ratio > 0 else 0.0
        rest = sum(row.left(i + 1, weight))
        share = weight
        if i + 1 < len(row.drafts):
            share = rest / (rest + 1 - weight) if rest + 1 - weight > 0 else 1.0
        if row.judge(i) < share:
            accepted, found = i + 1, weight
    return accepted, row.draw(accepted, row.left(accepted, found))


def _certain(token: int, vocab_size: int) -> Reals:
    return [float(v == token) for v in range(vocab_size)]
