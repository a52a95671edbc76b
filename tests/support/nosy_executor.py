"""A toy network that the sync check has something to say about."""

from __future__ import annotations

import torch

from optimist.messages.batches import Batch
from optimist.testing.torch_toy import ToyExecutor


class NosyExecutor(ToyExecutor):
    """Reads a tensor of its device where a step begins."""

    def _move(self, batch: Batch) -> None:
        assert torch.ones(1).item() == 1
        super()._move(batch)
