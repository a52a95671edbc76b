"""Many requests at once over a toy target that is known exactly, verified round by round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from optimist.kernels.sampling import PROPOSAL, Rows, branch, distribution, sample
from optimist.kernels.verify import Noise, Places, block, compare, reject
from optimist.testing.by_place import Rounds, tally

VOCAB = 5
NARROW = {"top_k": 3, "top_p": 0.9}


class Toy(NamedTuple):
    """The next token depends on the last one. target, proposal: logits, [VOCAB, VOCAB].

    temperature, top_k, top_p: of every request.
    """

    target: Tensor
    proposal: Tensor
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def rows(self, seed: Tensor, position: Tensor) -> Rows:
        """The parameters of places."""
        full = seed.shape
        return Rows(
            torch.full(full, self.temperature),
            seed,
            position,
            top_k=torch.full(full, self.top_k, dtype=torch.int32) if self.top_k else None,
            max_top_k=self.top_k,
            top_p=torch.full(full, self.top_p) if self.top_p < 1 else None,
        )

    def probabilities(self) -> Tensor:
        """Of the next token behind each token, as the parameters say, [VOCAB, VOCAB] float64."""
        nothing = torch.zeros(VOCAB, dtype=torch.int64)
        return distribution(self.target.double(), self.rows(nothing, nothing))


def toy(seed: int = 0, **parameters: float) -> Toy:
    """A proposal that is often right."""
    generator = torch.Generator().manual_seed(seed)
    target = 1.5 * torch.randn(VOCAB, VOCAB, generator=generator)
    proposal = target + 0.8 * torch.randn(VOCAB, VOCAB, generator=generator)
    return Toy(target, proposal, **parameters)  # type: ignore[arg-type]


class Run(NamedTuple):
    """tokens: the first ones of each request, [N, length]. accepted: drafts in the first round, [N].

    rounds: that they came in.
    """

    tokens: Tensor
    accepted: Tensor
    rounds: Rounds


def run(one: Toy, mode: str, count: int, drafts: int, length: int, *, certain: bool) -> Run:
    """Generate `length` tokens for each of `count` requests that all begin behind token 0.

    certain: drafts are a function of the last token; else drawn from the proposal, in mode `sample`
    with the noise of the target itself, as device proposers do.
    """
    known = torch.ones(count, dtype=torch.int64)
    tokens = torch.zeros(count, length + drafts + 2, dtype=torch.int64)
    rounds = Rounds.empty(count, tokens.shape[1])
    seed, first = torch.arange(count) * 7919, None
    counts = np.full(count, drafts)
    grid = torch.arange(drafts + 1)
    while int(known.min()) <= length:
        # Requests that are done stay at the end of their text: their rounds change nothing there.
        known.clamp_(max=length + 1)
        position = known[:, None] + grid
        last = tokens.gather(1, known[:, None] - 1)[:, 0]
        chain, proposals = _propose(one, mode, last, seed, known, drafts, certain=certain)
        context = torch.cat((last[:, None], chain), 1).view(-1)
        places = Places.of(counts, chain.reshape(-1))
        noise = Noise(seed.repeat_interleave(drafts + 1), position.view(-1))
        logits, rows = one.target[context], one.rows(*noise)
        if mode == "sample":
            verified = compare(sample(logits, rows), places)
        else:
            judge = {"rejection": reject, "block": block}[mode]
            verified = judge(distribution(logits, rows), proposals, places, noise)
        tokens.scatter_(1, position, verified.ids.view(count, -1))
        first = verified.accepted if first is None else first
        # What is behind the last accepted token is written again by the next round.
        rounds.place.scatter_(1, position - 1, grid.expand(count, -1))
        rounds.ran.scatter_(1, position - 1, torch.full_like(position, drafts))
        known += verified.accepted + 1
    assert first is not None
    found = Rounds(rounds.place[:, :length], rounds.ran[:, :length])
    return Run(tokens[:, 1 : length + 1], first, found)


def by_place(one: Toy, mode: str, done: Run, drafts: int) -> dict[str, float]:
    """For each place in a round, how far tokens are off of what they may be."""
    texts = torch.cat((torch.zeros_like(done.tokens[:, :1]), done.tokens), 1)
    places = done.rounds.at(drafts, together=mode == "block")
    p = one.probabilities()[texts[:, :-1]]
    counted = tally(texts, p, list(places.values()), torch.zeros(len(texts), dtype=torch.int64))
    return dict(zip(places, counted.shares(), strict=True))


def _propose(
    one: Toy, mode: str, last: Tensor, seed: Tensor, known: Tensor, drafts: int, *, certain: bool
) -> tuple[Tensor, Tensor | None]:
    """Drafts [N, drafts], and what they were drawn from at each place, [N * (drafts + 1), VOCAB]."""
    chain, drawn_from = [last], []
    noise = seed if mode == "sample" else branch(seed, known, PROPOSAL)
    for i in range(drafts):
        logits = one.proposal[chain[-1]]
        if certain:
            chain.append(logits.argmax(-1))
            continue
        rows = one.rows(noise, known + i)
        drawn_from.append(distribution(logits.clone(), rows))
        chain.append(sample(logits, rows))
    ids = torch.stack(chain[1:], 1)
    if certain:
        return ids, None
    padding = torch.full_like(drawn_from[0], torch.nan)
    return ids, torch.stack([*drawn_from, padding], 1).view(-1, VOCAB)


def joint(one: Toy, length: int) -> Tensor:
    """Probability of every text of so many tokens behind token 0, [VOCAB ** length] float64."""
    step = one.probabilities()
    texts = step[0]
    for _ in range(length - 1):
        texts = texts.view(-1, VOCAB, 1) * step
    return texts.reshape(-1)


def excess(tokens: Tensor, probability: Tensor) -> float:
    """How many standard deviations chi-square exceeds its mean, texts that are rare taken together.

    Impossible texts must not occur. tokens: [N, length]. probability: of `joint`.
    """
    count, length = tokens.shape
    code = (tokens * VOCAB ** torch.arange(length - 1, -1, -1)).sum(1)
    seen = torch.bincount(code, minlength=len(probability)).double()
    assert not seen[probability == 0].any(), "a token that the parameters exclude"
    want = probability * count
    rare = want < 10
    cells = torch.stack((seen, want))
    cells = torch.cat((cells[:, ~rare], cells[:, rare].sum(1, keepdim=True)), 1)
    seen, want = cells[:, cells[1] > 0]
    freedom = len(want) - 1
    chi = float(((seen - want).square() / want).sum())
    return (chi - freedom) / float(np.sqrt(2 * freedom))
