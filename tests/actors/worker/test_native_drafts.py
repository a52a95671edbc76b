"""Drafts from the host: whatever is guessed, the tokens are those that come without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from native_toy import NextToken, executor, ints

from optimist.actors.worker.base import Outcome, RowDrafts
from optimist.messages.base import column
from optimist.messages.base import ints as values
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.errors import MessageError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

NEXT = NextToken()
PROMPTS = [
    [int(i) for i in np.random.default_rng(seed).integers(0, 101, length)]
    for seed, length in ((1, 120), (2, 21))
]
TOKENS = 40
GREEDY = Sampling(temperature=0, seed=0)
SEEDED = Sampling(temperature=1.0, seed=77, top_p=0.9, frequency_penalty=0.4, logprobs=2)

Guess = Callable[[list[int], int], list[int]]
"""From the true continuation and how far it has come to the drafts."""


class Run:
    """Two requests to their end: prefill, then decode rows with drafts, exact or optimistic."""

    def __init__(self, sampling: Sampling, *, exact: bool, threads: int = 1) -> None:
        self.device = executor(threads=threads)
        self.exact, self.step = exact, 0
        self.text = [list(prompt) for prompt in PROMPTS]
        self.outcomes = [self._prefill(sampling)]
        self._take(self.outcomes[0])

    def decode(self, drafts: list[list[int]]) -> Outcome:
        """One step in which every row verifies its drafts."""
        counts = ints(*[len(guess) for guess in drafts])
        ids = ints(*[token for guess in drafts for token in guess])
        batch = self._exact(counts) if self.exact else self._optimistic(counts)
        self.outcomes.append(self.device.submit(batch, RowDrafts(counts, ids)).wait())
        self._take(self.outcomes[-1])
        return self.outcomes[-1]

    def _take(self, outcome: Outcome) -> None:
        at = 0
        for slot, count in zip(outcome.slots, outcome.token_counts, strict=True):
            self.text[slot] += outcome.token_ids[at : at + count].tolist()
            at += count
        assert at == outcome.token_ids.size

    def _prefill(self, sampling: Sampling) -> Outcome:
        opened = tuple(
            OpenedSlot(
                slot=slot,
                generation=0,
                request=slot,
                token_ids=column(prompt),
                prompt_len=len(prompt),
                cached_len=0,
                sampling=sampling,
            )
            for slot, prompt in enumerate(PROMPTS)
        )
        lengths = [len(prompt) for prompt in PROMPTS]
        batch = ExactBatch(
            **self._shared(0),
            opened=opened,
            query_start_loc=column([0, lengths[0], sum(lengths)]),
            seq_lens=ExactSeqLens.of(lengths),
            samples=column([1, 1]),
        )
        return self.device.submit(batch).wait()

    def _shared(self, decodes: int) -> dict[str, Any]:
        blocks = range(26) if not self.step else []
        delta = BlockDelta(
            version=self.step + 1,
            slots=column([0, 1] if blocks else []),
            offsets=column([0, 0] if blocks else []),
            counts=column([13, 13] if blocks else []),
            blocks=column(blocks),
        )
        self.step += 1
        return {
            "incarnation": 1,
            "epoch": 1,
            "step": self.step - 1,
            "blocks": delta,
            "slots": column([0, 1]),
            "generations": column([0, 0]),
            "num_decodes": decodes,
            "max_query_len": 200,
            "max_blocks": 13,
        }

    def _exact(self, counts: Any) -> ExactBatch:
        queries = 1 + counts
        lengths = [len(text) - 1 + int(q) for text, q in zip(self.text, queries, strict=True)]
        return ExactBatch(
            **self._shared(2),
            draft_counts=column(counts),
            query_start_loc=column([0, *np.cumsum(queries)]),
            seq_lens=ExactSeqLens.of(lengths),
            samples=column([1, 1]),
        )

    def _optimistic(self, counts: Any) -> OptimisticBatch:
        bound = [len(text) + 12 for text in self.text]
        return OptimisticBatch(
            **self._shared(2),
            draft_counts=column(counts + 3),
            bound=SeqLensUpperBound.of(bound),
            prefill=PrefillRows(),
        )


def plain(sampling: Sampling) -> list[list[int]]:
    """Both continuations without drafts."""
    run = Run(sampling, exact=True)
    while min(len(t) - len(p) for t, p in zip(run.text, PROMPTS, strict=True)) < TOKENS:
        run.decode([[], []])
    return [t[len(p) :][:TOKENS] for t, p in zip(run.text, PROMPTS, strict=True)]


def right(count: int) -> Guess:
    return lambda truth, at: truth[at : at + count]


def wrong_at(index: int) -> Guess:
    def guess(truth: list[int], at: int) -> list[int]:
        drafts = truth[at : at + 4]
        return [(t + 1) % 101 if i == index else t for i, t in enumerate(drafts)]

    return guess


def ragged(truth: list[int], at: int) -> list[int]:
    return [*truth[at : at + 5], 7, 7, 7][: at * 7 % 5]


GUESSES: dict[str, Guess] = {
    "all right": right(4),
    "first wrong": wrong_at(0),
    "third wrong": wrong_at(2),
    "ragged": ragged,
    "many": right(9),
}


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "optimistic"])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("guess", GUESSES)
def test_drafts_change_no_token(guess: str, sampling: Sampling, exact: bool) -> None:
    truth = plain(sampling)
    run = Run(sampling, exact=exact, threads=2)
    done = [1, 1]
    while min(done) < TOKENS - 10:
        drafts = [GUESSES[guess](truth[slot], done[slot]) for slot in (0, 1)]
        outcome = run.decode(drafts)
        assert outcome.drafts_run.tolist() == [len(each) for each in drafts]
        done = [len(t) - len(p) for t, p in zip(run.text, PROMPTS, strict=True)]
    for slot, prompt in enumerate(PROMPTS):
        assert run.text[slot][len(prompt) :] == truth[slot][: done[slot]]


@pytest.mark.usefixtures("every_set")
def test_accepted_drafts_and_one_more_are_counted() -> None:
    truth = plain(GREEDY)
    run = Run(GREEDY, exact=True)
    drafts = [truth[0][1:5], [truth[1][1], truth[1][2], (truth[1][3] + 1) % 101]]
    assert run.decode(drafts).token_counts.tolist() == [5, 3]


@pytest.mark.usefixtures("every_set")
def test_logprobs_go_with_every_accepted_token() -> None:
    truth = plain(SEEDED)
    run = Run(SEEDED, exact=True)
    got = run.decode([truth[0][1:4], [0, 0]])
    alone = Run(SEEDED, exact=True)
    steps = [alone.decode([[], []]) for _ in range(4)]
    assert got.logprobs is not None
    assert values(got.logprobs.tokens).tolist() == list(range(int(got.token_counts.sum())))
    mine = np.frombuffer(got.logprobs.chosen, "<f4")[: got.token_counts[0]]
    theirs = [np.frombuffer(s.logprobs.chosen, "<f4")[0] for s in steps if s.logprobs is not None]
    assert mine.tolist() == theirs


@pytest.mark.parametrize(
    ("counts", "ids", "text"),
    [
        ([2, 0], [5], r"drafts\.ids: expected 2 tokens, got 1"),
        ([1], [5], r"drafts\.counts: expected at most batch\.draft_counts \[2, 0\], got \[1\]"),
        ([1, 1], [5, 5], r"expected at most batch\.draft_counts \[2, 0\], got \[1, 1\]"),
        (
            [1, 0],
            [5],
            r"expected exactly batch\.draft_counts \[2, 0\] in an ExactBatch, got \[1, 0\]",
        ),
        ([2, 0], [5, 101], r"drafts\.ids: expected tokens from 0 to 100, got 5 to 101"),
    ],
)
def test_drafts_that_contradict_the_batch_are_refused(
    counts: Sequence[int], ids: Sequence[int], text: str
) -> None:
    run = Run(GREEDY, exact=True)
    batch = run._exact(ints(2, 0))  # noqa: SLF001
    with pytest.raises(MessageError, match=text):
        run.device.submit(batch, RowDrafts(ints(*counts), ints(*ids)))


def test_an_exact_batch_with_drafts_needs_them() -> None:
    run = Run(GREEDY, exact=True)
    with pytest.raises(MessageError, match="expected exactly"):
        run.device.submit(run._exact(ints(2, 0)))  # noqa: SLF001
