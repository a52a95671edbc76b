"""What the worker knows after a step, and what it is able to do."""

from __future__ import annotations

from optimist.messages.base import (
    EMPTY,
    ActorMessage,
    Column,
    Floats,
    Part,
    check_columns,
    check_non_negative,
    ints,
    size,
)


class Logprobs(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Natural logarithms of probabilities, for tokens that asked for them, in token order.

    tokens: index into the message's token_ids, [N]. chosen: of the token itself, [N].
    ranks: of the token among all, 0 the likeliest, [N].
    counts: alternatives of each, [N]; top_ids, top_values: the alternatives, best first, [sum(counts)].
    """

    tokens: Column = EMPTY
    chosen: Floats = b""
    ranks: Column = EMPTY
    counts: Column = EMPTY
    top_ids: Column = EMPTY
    top_values: Floats = b""

    def __post_init__(self) -> None:
        rows = size(self.tokens)
        total = int(ints(self.counts).sum()) if self.counts else 0
        check_columns(
            "Logprobs",
            {
                "chosen": (self.chosen, rows),
                "ranks": (self.ranks, rows),
                "counts": (self.counts, rows),
                "top_ids": (self.top_ids, total),
                "top_values": (self.top_values, total),
            },
        )
        check_non_negative(
            "Logprobs",
            {
                "tokens": self.tokens,
                "ranks": self.ranks,
                "counts": self.counts,
                "top_ids": self.top_ids,
            },
        )


class PromptScores(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Log-probabilities of prompt tokens that a step computed, of the rows that asked for them.

    slots, generations: [P]. firsts: number of each row's first such token in its prompt, >= 1, [P].
    logprobs: of all of them, row by row; `counts` of them belong to each row, [P].
    """

    slots: Column = EMPTY
    generations: Column = EMPTY
    firsts: Column = EMPTY
    counts: Column = EMPTY
    logprobs: Logprobs

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "PromptScores",
            {
                "generations": (self.generations, rows),
                "firsts": (self.firsts, rows),
                "counts": (self.counts, rows),
                "logprobs.tokens": (self.logprobs.tokens, int(ints(self.counts).sum())),
            },
        )
        check_non_negative(
            "PromptScores",
            {
                "slots": self.slots,
                "generations": self.generations,
                "firsts": self.firsts,
                "counts": self.counts,
            },
        )


class StepResult(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Worker to scheduler, once for each batch, when its tokens have become readable.

    Only rows that sampled are listed, and in `prompt` those that asked for it. slots, generations: [S].
    token_counts: tokens accepted on the row, the bonus token included, [S]; token_ids: [sum]. 0: none could be
        chosen, since the row's logits were no numbers or let none in, and its request fails.
    drafts_run: drafts the row was verified with, [S]: at most what the plan had room for.
    drafts_held: drafts that wait at the worker for the row's next step, [S], for a scheduler that plans
        no more than there are; empty where drafts are bound to a step when it begins.
    step_us: how long the step ran on the device, microseconds. gap_us: how long the device had nothing
        to do before it. batch_us, drafts_us: of the gap, until the batch came, and then its drafts.
    """

    epoch: int
    step: int
    slots: Column = EMPTY
    generations: Column = EMPTY
    token_counts: Column = EMPTY
    token_ids: Column = EMPTY
    drafts_run: Column = EMPTY
    drafts_held: Column = EMPTY
    logprobs: Logprobs | None = None
    prompt: PromptScores | None = None
    step_us: int = 0
    gap_us: int = 0
    batch_us: int = 0
    drafts_us: int = 0

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "StepResult",
            {
                "generations": (self.generations, rows),
                "token_counts": (self.token_counts, rows),
                "drafts_run": (self.drafts_run, rows),
                "drafts_held": (self.drafts_held, rows if self.drafts_held else 0),
                "token_ids": (self.token_ids, int(ints(self.token_counts).sum()) if rows else 0),
            },
        )
        check_non_negative(
            "StepResult",
            {
                "slots": self.slots,
                "generations": self.generations,
                "token_counts": self.token_counts,
                "token_ids": self.token_ids,
                "drafts_run": self.drafts_run,
                "drafts_held": self.drafts_held,
            },
        )


class Capacity(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Worker to scheduler and proposer, when it is ready and whenever one of them asks by Resync.

    A new incarnation means an empty device. num_blocks: KV blocks, all usable, numbered from 0.
    block_size: tokens a block holds. max_slots: requests on the device at once.
    max_model_len: tokens of one request. max_batch_tokens: query tokens of one step.
    max_prompt_tokens: of these, how many may be of prompts; None: as many as decode rows leave.
    """

    num_blocks: int
    block_size: int
    max_slots: int
    max_model_len: int
    max_batch_tokens: int
    vocab_size: int
    max_prompt_tokens: int | None = None
