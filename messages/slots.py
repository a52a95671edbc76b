"""What a plan and a batch both say about slots: who moves in, who leaves, which blocks they get."""

from __future__ import annotations

from optimist.messages.base import (
    EMPTY,
    Column,
    Floats,
    Part,
    check_columns,
    check_non_negative,
    ints,
    size,
)
from optimist.messages.lengths import ExactSeqLens


class Sampling(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How the worker chooses this request's tokens. Validated by the gateway.

    temperature: 0 is greedy. top_k: 0 is off. top_p: in (0, 1]. min_p: in [0, 1].
    seed: with the position it keys the noise, so that a token depends on nothing else.
    presence_penalty, frequency_penalty: subtracted for tokens already emitted.
    repetition_penalty: divides (multiplies, below zero) logits of tokens in prompt or output.
    bias_ids [N], bias_values [N]: added to the logits of these tokens.
    min_tokens: until so many are emitted, `stop_ids` [S] cannot be chosen.
    logprobs: how many alternatives to report beside the chosen token; -1 reports nothing.
    prompt_logprobs: the same for each token of the prompt but the first.
    """

    temperature: float
    seed: int
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    bias_ids: Column = EMPTY
    bias_values: Floats = b""
    min_tokens: int = 0
    stop_ids: Column = EMPTY
    logprobs: int = -1
    prompt_logprobs: int = -1

    def __post_init__(self) -> None:
        check_columns("Sampling", {"bias_values": (self.bias_values, size(self.bias_ids))})
        check_non_negative("Sampling", {"bias_ids": self.bias_ids, "stop_ids": self.stop_ids})


class OpenedSlot(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A request moves into a slot.

    generation: counts this request's admissions: bumped on preemption and re-admission.
    token_ids: prompt, then tokens emitted before this admission, [N].
    prompt_len: where the emitted tokens begin; penalties, limits and usage need the border.
    cached_len: how many leading tokens already have their KV in the first blocks.
    """

    slot: int
    generation: int
    request: int
    token_ids: Column
    prompt_len: int
    cached_len: int
    sampling: Sampling
    trace: str = ""

    def __post_init__(self) -> None:
        check_non_negative("OpenedSlot", {"token_ids": self.token_ids})


class BlockDelta(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What changes in the block table. Version v applies to a table of version v - 1 and to no other.

    Row i writes `counts[i]` entries of `blocks` into the table row of `slots[i]`, from `offsets[i]`.
    slots, offsets, counts: [N]; blocks: [sum(counts)].
    """

    version: int
    slots: Column = EMPTY
    offsets: Column = EMPTY
    counts: Column = EMPTY
    blocks: Column = EMPTY

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "BlockDelta",
            {
                "offsets": (self.offsets, rows),
                "counts": (self.counts, rows),
                "blocks": (self.blocks, int(ints(self.counts).sum()) if self.counts else 0),
            },
        )
        check_non_negative(
            "BlockDelta",
            {
                "slots": self.slots,
                "offsets": self.offsets,
                "counts": self.counts,
                "blocks": self.blocks,
            },
        )


class PrefillRows(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The rows whose tokens are all known: exact in every kind of plan.

    slots, generations: [P]. starts: tokens computed before this step, [P].
    seq_lens: tokens computed after it, [P]; the chunk is the difference.
    samples: 1 where the chunk reaches the last known token and so a new one is chosen, else 0, [P].
    """

    slots: Column = EMPTY
    generations: Column = EMPTY
    starts: Column = EMPTY
    seq_lens: ExactSeqLens = ExactSeqLens(b"")
    samples: Column = EMPTY

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "PrefillRows",
            {
                "generations": (self.generations, rows),
                "starts": (self.starts, rows),
                "samples": (self.samples, rows),
                "seq_lens": (bytes(4 * self.seq_lens.count()), rows),
            },
        )
        check_non_negative(
            "PrefillRows",
            {
                "slots": self.slots,
                "generations": self.generations,
                "starts": self.starts,
                "samples": self.samples,
            },
        )
