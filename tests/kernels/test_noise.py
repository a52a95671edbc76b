"""Branches of the noise: each use of it knows nothing of the others."""

from __future__ import annotations

import torch

from optimist.kernels.sampling import (
    ACCEPT,
    PROPOSAL,
    RESIDUAL,
    branch,
    gumbel,
    reference,
    uniform,
)

SEEDS = [0, 1, -1, 2**31, -(2**63), 2**63 - 1, 0x123456789ABC]


def test_branches_and_uniforms_equal_the_spec() -> None:
    seeds, at = torch.tensor(SEEDS), torch.tensor([0, 1, 17, 5, 2**31 - 1, 3, 3])
    for which in (PROPOSAL, ACCEPT, RESIDUAL):
        got = branch(seeds, at, which)
        want = [reference.branch(s, a, which) for s, a in zip(SEEDS, at.tolist(), strict=True)]
        assert got.tolist() == want
        numbers = [reference.uniform(s, a) for s, a in zip(want, at.tolist(), strict=True)]
        assert uniform(got, at).tolist() == numbers


def test_uniforms_fill_the_open_interval_evenly() -> None:
    numbers = uniform(torch.arange(100_000), torch.arange(100_000) % 11)
    assert numbers.min() > 0
    assert numbers.max() < 1
    counts = torch.histc(numbers, 50, 0.0, 1.0)
    # Chi-square with 49 degrees of freedom exceeds 95 once in ten thousand.
    assert ((counts - 2000).square() / 2000).sum() < 95


def test_branches_do_not_know_each_other() -> None:
    seeds, at = torch.arange(50_000), torch.arange(50_000) % 7
    ids = torch.arange(3, dtype=torch.int32)
    branches = [branch(seeds, at, which) for which in (PROPOSAL, ACCEPT, RESIDUAL)]
    branches += [seeds, branch(seeds, at + 1, PROPOSAL), branch(seeds + 1, at, RESIDUAL)]
    noise = torch.cat([gumbel(seed, at, ids).T for seed in branches])
    numbers = torch.stack([uniform(seed, at) for seed in branches])
    related = torch.corrcoef(torch.cat((noise.double(), numbers)))
    own = torch.zeros(len(noise) + 6, len(noise) + 6, dtype=torch.bool)
    own[: len(noise), : len(noise)] = torch.eye(len(noise)).bool()
    own[len(noise) :, len(noise) :] = torch.eye(6).bool()
    # A number comes from the same bits as the noise of token 0 of its branch.
    for i in range(6):
        own[len(noise) + i, 3 * i] = own[3 * i, len(noise) + i] = True
    assert related.masked_fill(own, 0.0).abs().max() < 0.025
