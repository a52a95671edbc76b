"""An executor without torch that does what the sync check would."""

from __future__ import annotations

from optimist.actors.worker.base import RowDrafts, Ticket
from optimist.messages.batches import Batch
from optimist.messages.control import SyncMode
from optimist.testing.integer_model import IntegerExecutor


class ToldExecutor(IntegerExecutor):
    """Raises in a step once it was told to check them for errors."""

    told: SyncMode = "off"

    def check_syncs(self, mode: SyncMode) -> None:
        """Remember it."""
        self.told = mode

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        """A step, unless it was told otherwise."""
        if self.told == "error":
            raise RuntimeError("item: the host read a device tensor inside a step")
        return super().submit(batch, drafts)
