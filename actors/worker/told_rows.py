"""The rows of a step as the device is told of them: all of it in one copy."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from optimist.actors.worker.torch_rows import Indices, Ints, Rows
from optimist.kernels.device import upload_together
from optimist.kernels.verify import Layout, Places


class ToldRows(NamedTuple):
    """See Rows. slots: [R] int64. starts: [R + 1] int32. queries: [R] int32. row: of each token, [T] int64.

    lengths: of each row, [R] int32: see `torch_step`. places: [J] int64. draft_tokens: [sum(drafts)] int64.
    sampling: [S] int64. owners: slots of the rows that sample, [S] int64. layout: of the places.
    """

    slots: Tensor
    starts: Tensor
    queries: Tensor
    row: Tensor
    lengths: Tensor
    places: Tensor
    draft_tokens: Tensor
    sampling: Tensor
    owners: Tensor
    layout: Layout
    columns: tuple[Tensor, ...]

    @classmethod
    def of(cls, rows: Rows, lengths: Ints, device: torch.device) -> Self:
        """Tell the device."""
        layout = Layout.of(rows.drafted)
        slots = rows.slots.astype(np.int64)
        every: tuple[Ints | Indices, ...] = (
            slots,
            rows.offsets.copy(),
            rows.queries,
            np.repeat(np.arange(rows.slots.size), rows.queries),
            lengths,
            rows.places,
            rows.draft_tokens,
            rows.sampling.astype(np.int64),
            slots[rows.sampling],
        )
        there = upload_together((*every, *layout.columns), device)
        slots_there, starts, queries, row, known, places, drafts, sampling, owners, *columns = there
        return cls(
            *(slots_there, starts, queries, row, known),
            *(places, drafts, sampling, owners),
            layout=layout,
            columns=tuple(columns),
        )

    def places_of(self, drafts: Tensor) -> Places:
        """Where the step samples. drafts: of all rows, [sum(drafts)]."""
        return Places.laid_out(self.layout, self.columns, drafts)
