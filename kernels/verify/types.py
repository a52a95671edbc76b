"""What verification is told about a step, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels.device import upload_together

NO_DRAFT = -1
"""behind the last place of a row"""


class Layout(NamedTuple):
    """Places of rows with so many drafts, on the host: see Places. columns: for its tensors."""

    starts: NDArray[np.int32]
    most: int
    columns: tuple[NDArray[np.integer], ...]

    @classmethod
    def of(cls, counts: NDArray[np.integer]) -> Self:
        """counts: drafts of each row, [S]."""
        counts = counts.astype(np.int64)
        starts = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts + 1, out=starts[1:])
        most = int(counts.max(initial=0))
        grid = starts[:-1, None] + np.minimum(np.arange(most + 1), counts[:, None])
        drafted = np.ones(int(starts[-1]), np.bool_)
        drafted[starts[1:] - 1] = False
        row = np.repeat(np.arange(len(counts)), counts + 1)
        return cls(starts, most, (row, grid, counts, np.flatnonzero(drafted)))


class Places(NamedTuple):
    """Where a step samples: each row at each of its drafts, and once behind them, [J] in row order.

    starts: the first place of each row, and the total, [S + 1] int32, on the host: how many drafts
        were scheduled is no secret of the device. most: drafts of the row with the most.
    row: the row of each place, [J] int64. grid: the places of each row, its last one repeated,
        [S, most + 1] int64. counts: drafts of each row, [S] int64.
    drafts: the token drafted for each place, [J] int64; NO_DRAFT at the last place of a row.
    """

    starts: NDArray[np.int32]
    most: int
    row: Tensor
    grid: Tensor
    counts: Tensor
    drafts: Tensor

    @classmethod
    def of(cls, counts: NDArray[np.integer], ids: Tensor) -> Self:
        """Places of rows with so many drafts. counts: [S], on the host. ids: the drafts, [sum(counts)]."""
        layout = Layout.of(counts)
        return cls.laid_out(layout, upload_together(layout.columns, ids.device), ids)

    @classmethod
    def laid_out(cls, layout: Layout, columns: Sequence[Tensor], ids: Tensor) -> Self:
        """The same where the layout's columns are on the device."""
        row, grid, counts, drafted = columns
        size = (int(layout.starts[-1]),)
        drafts = torch.full(size, NO_DRAFT, dtype=torch.int64, device=ids.device)
        if layout.most:
            drafts.index_copy_(0, drafted, ids.long())
        return cls(layout.starts, layout.most, row, grid, counts, drafts)


class Noise(NamedTuple):
    """What random choices are keyed by. seed: of the request, at each place, [J] int64.

    position: of the token that a place yields among prompt and output, [J] int64.
    """

    seed: Tensor
    position: Tensor


class Verified(NamedTuple):
    """ids: the token of each place, [J] int64; of a row only the first 1 + accepted count. NO_TOKEN: see there.

    accepted: drafts of each row that are accepted, [S] int64.
    """

    ids: Tensor
    accepted: Tensor
