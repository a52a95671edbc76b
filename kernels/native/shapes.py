"""What a device is told and what it gives back, as plain Python and numpy values."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


class Part(enum.IntEnum):
    """A matrix of a layer; head and embedding belong to no layer, and the embedding is not packed."""

    QKV = 0
    O = 1
    GATE_UP = 2
    DOWN = 3
    HEAD = 4
    EMBEDDING = 5


class Vector(enum.IntEnum):
    """A vector of a layer; the last norm belongs to no layer."""

    ATTN_NORM = 0
    FFN_NORM = 1
    Q_NORM = 2
    K_NORM = 3
    NORM = 4
    QKV_BIAS = 5
    O_BIAS = 6


class Format(enum.IntEnum):
    """How a matrix is held, or keys and values."""

    BF16 = 0
    INT8 = 1
    INT4 = 2


class Finish(enum.IntEnum):
    """What becomes of the result of a linear: see isa.h."""

    STORE = 0
    ADD = 1
    GATE = 2
    PICK = 3


STORED = {
    "F32": 0,
    "F16": 1,
    "BF16": 30,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
}
"""how weights may be stored, by the numbers of the GGUF format"""

VERIFY = ("sample", "rejection", "block")
"""how drafts are judged, in the library's order"""

FOUR_BIT = frozenset(("Q4_0", "Q4_1", "Q4_K"))
"""those that Format.INT4 takes as they are"""


class Matrix(NamedTuple):
    """Weights as a file stores them. kind: a name in STORED. rows: [N, bytes of a row] uint8.

    order: which stored row each row is, [N]; None: as they are.
    """

    kind: str
    inputs: int
    rows: NDArray[np.uint8]
    order: NDArray[np.integer] | None = None


MOST_QUERY_HEADS = 96
"""of a KV head: their rows are computed together"""


class Shape(NamedTuple):
    """Sizes of a network and of its device state.

    window: tokens seen, the own one included; 0: all. frequencies: radians a position,
    [head_dim / 2] float64. block_size: a multiple of 16. max_tokens: query tokens of a step. shares:
    fewer of the threads compute beside engines of other processes. kept: keys and values, BF16 or INT8.
    verify: a place in VERIFY.
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    window: int
    qk_norm: bool
    tied: bool
    block_size: int
    blocks: int
    slots: int
    max_len: int
    max_tokens: int
    threads: int
    shares: bool
    kept: Format
    verify: int
    eps: float
    rope_scale: float
    frequencies: NDArray[np.float64]


class Choice(NamedTuple):
    """How the tokens of a request are chosen. alternatives: reported with each token, -1 nothing."""

    seed: int
    temperature: float
    top_p: float
    min_p: float
    presence: float
    frequency: float
    repetition: float
    top_k: int
    min_tokens: int
    prompt_len: int
    alternatives: int
    bias_ids: Ints
    bias_values: Floats
    stop_ids: Ints


GREEDY = Choice(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    min_p=0.0,
    presence=0.0,
    frequency=0.0,
    repetition=1.0,
    top_k=0,
    min_tokens=0,
    prompt_len=0,
    alternatives=-1,
    bias_ids=np.zeros(0, np.int32),
    bias_values=np.zeros(0, np.float32),
    stop_ids=np.zeros(0, np.int32),
)
"""the likeliest token, and no report"""


class Rows(NamedTuple):
    """The rows of a step, [R] each.

    queries: query tokens, drafts included. lengths: tokens computed after the step, -1 where only the
    device knows. samples: 1 where the row chooses. drafts: of the query. draft_ids: [sum(drafts)], or none where the device has drafted.
    """

    slots: Ints
    queries: Ints
    lengths: Ints
    samples: Ints
    drafts: Ints
    draft_ids: Ints


class Chosen(NamedTuple):
    """Of the rows that chose, S of them, in order.

    counts: tokens of each, [S]. ids, logprobs, ranks: [sum(1 + drafts)], a row's own places first filled
    from the left; an id below 0 is none, since the likeliest token's logit is no finite number. top_ids, top_values: [sum(1 + drafts), alternatives].
    """

    counts: Ints
    ids: Ints
    logprobs: Floats
    ranks: Ints
    top_ids: Ints
    top_values: Floats


class Scores(NamedTuple):
    """How likely given tokens were. logprobs, ranks: [N]. top_ids, top_values: [N, alternatives]."""

    logprobs: Floats
    ranks: Ints
    top_ids: Ints
    top_values: Floats
