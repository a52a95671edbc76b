"""Tokens by their place in a round of drafts: has each the probability that it should have there?

A round verifies the drafts of a row. Its tokens are the drafts that were accepted and the one behind them, so
a token's place is how many were accepted before it. Given all that came before it a token should have the
target's distribution at each place apart: of the first draft, the second, and so on, whether it was accepted
there or drawn in its stead; and behind all drafts.

Where drafts are judged together, whether the second is reached says something of what comes there. What
holds then is counted from where a round began: whichever round the token behind it is of, the target's
distribution is its own.

Of each place, and each token there, what is compared is how often it came against the sum of its
probabilities: the difference is a martingale with steps within 1. By Freedman's inequality it exceeds
L / 3 + sqrt((L / 3)**2 + 2 * V * L), V the sum of the conditional variances, with a probability of at most
exp(-L) in either direction. L is such that all comparisons together exceed it once in a million.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

CHANCE = 1e-6
"""that anything of all that is compared is off by more than it may, where nothing is wrong"""

BONUS = "behind all drafts"


class Rounds(NamedTuple):
    """For each token of texts: place, drafts accepted before it in its round, [N, T], -1 of none; ran, drafts
    of that round, [N, T], 0 where there were none.
    """

    place: Tensor
    ran: Tensor

    @classmethod
    def empty(cls, texts: int, length: int) -> Rounds:
        """Of so many texts of which no round is known."""
        return cls(torch.full((texts, length), -1), torch.zeros((texts, length), dtype=torch.int64))

    def at(self, drafts: int, *, together: bool) -> dict[str, Tensor]:
        """Tokens of each place, [N, T] bool, by the name of the place. together: drafts are judged so."""
        found = {}
        began = (self.place == 0) & (self.ran > 0)
        for i in range(drafts):
            reached = (self.place == i) & (self.ran > i)
            if together and i:
                reached = torch.zeros_like(began)
                reached[:, i:] = began[:, :-i]
            found[f"draft {i + 1}"] = reached
        return found | {BONUS: (self.place == self.ran) & (self.ran > 0)}


class Tally(NamedTuple):
    """How often tokens came beyond what they should, and the variance of that, [P, G, V, V]: by place, group
    of texts, token before, and token. impossible: places where one came that has no probability, [P] bool.
    """

    excess: Tensor
    variance: Tensor
    impossible: Tensor

    def shares(self, families: int = 1) -> list[float]:
        """Of each place how far it is off, as a share of what it may be: above 1 something is wrong.

        Groups are looked at apart, and tokens before apart. families: tallies that are looked at.
        """
        ways = [(self.excess.sum(of).flatten(1), self.variance.sum(of).flatten(1)) for of in (1, 2)]
        compared = families * sum(excess.numel() for excess, _ in ways)
        shares = [(excess.abs() / allowed(variance, compared)).amax(1) for excess, variance in ways]
        worst = torch.stack(shares).amax(0).masked_fill(self.impossible, math.inf)
        found: list[float] = worst.tolist()
        return found


def allowed(variance: Tensor, compared: int) -> Tensor:
    """How far a sum with this variance may be off where so many are looked at."""
    log = math.log(2 * compared / CHANCE)
    return log / 3 + ((log / 3) ** 2 + 2 * variance * log).sqrt()


def tally(texts: Tensor, p: Tensor, masks: list[Tensor], group: Tensor) -> Tally:
    """Count. texts: [N, T + 1], the first token given. p: of every token behind those before it, [N, T, V].

    masks: tokens of each place, [N, T] each. group: of each text, [N].
    """
    vocab = p.shape[-1]
    seen = torch.nn.functional.one_hot(texts[:, 1:], vocab).double()
    p = p.double()
    before = group[:, None] * vocab + texts[:, :-1]
    groups = int(group.max()) + 1
    shape = (groups * vocab, vocab)
    sums = [[], []]  # type: list[list[Tensor]]
    for mask in masks:
        for sum_, values in zip(sums, (seen - p, p * (1 - p)), strict=True):
            total = torch.zeros(shape, dtype=torch.float64)
            sum_.append(total.index_add_(0, before[mask], values[mask]).view(groups, vocab, vocab))
    excess, variance = (torch.stack(one) for one in sums)
    lies = (seen * (p == 0)).any(-1)
    return Tally(excess, variance, torch.stack([(lies & mask).any() for mask in masks]))
