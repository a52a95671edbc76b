"""How the rows of a step choose their tokens, as columns on the device.

Where drafts are verified, each token that may be chosen is a row of its own.

A None says that no row of the step uses it: the host knows from the parameters, never from a tensor.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

NO_TOKEN = -2
"""in place of a token where the largest logit is no finite number: nothing can be chosen. Apart from NO_DRAFT"""


class Penalties(NamedTuple):
    """counts: how often each token was emitted, [S, V] int32. in_prompt: [S, V] bool.

    presence, frequency, repetition: [S] float32; 0, 0 and 1 change nothing.
    """

    counts: Tensor
    in_prompt: Tensor
    presence: Tensor
    frequency: Tensor
    repetition: Tensor


class Edits(NamedTuple):
    """Single logits to add to: rows [N] int64, ids [N] int64, values [N] float32; -inf forbids."""

    rows: Tensor
    ids: Tensor
    values: Tensor


class Rows(NamedTuple):
    """One entry for each row that samples.

    temperature: [S] float32, 0 is greedy; None: every row is. seed: [S] int64. position: of the new token among prompt
    and output, [S] int64. penalties, edits: applied in this order, before temperature.
    top_k: [S] int32, 0 is off, and the largest of them. top_p: [S] float32, 1 is off.
    min_p: [S] float32, 0 is off.
    """

    temperature: Tensor | None
    seed: Tensor
    position: Tensor
    penalties: Penalties | None = None
    edits: tuple[Edits, ...] = ()
    top_k: Tensor | None = None
    max_top_k: int = 0
    top_p: Tensor | None = None
    min_p: Tensor | None = None
