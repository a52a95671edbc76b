"""An executor on the native library: no torch in its process."""

from __future__ import annotations

from typing import Self

import numpy as np

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Outcome, Progress, RowDrafts
from optimist.actors.worker.limits import draft_layers, limits_of
from optimist.actors.worker.native_rows import choice_of, outcome, planned
from optimist.actors.worker.processors import processors
from optimist.actors.worker.prompt_scores import PromptWishes, prompt_scores
from optimist.actors.worker.slot_book import SlotBook
from optimist.kernels.native.device import NativeDevice, NativeError
from optimist.kernels.native.shapes import Rows
from optimist.messages.base import ints
from optimist.messages.batches import Batch
from optimist.messages.errors import ConfigError, MessageError
from optimist.messages.results import PromptScores
from optimist.models.native import Sizes, block_bytes, load_device, unsupported
from optimist.models.quantisation import Formats
from optimist.models.source import open_source


class NativeTicket:
    """A step that has been computed."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def wait(self) -> Outcome:
        """What the step produced."""
        return self._outcome


class NativeExecutor(Executor):
    """Runs every kind of batch, with drafts from the host or of its own.

    device: a network with its weights and slots as `limits` says. draft_layers: of the network, that
    draft; 0 where drafts come from the host.
    """

    def __init__(self, device: NativeDevice, limits: Limits, draft_layers: int = 0) -> None:
        self.limits: Limits = limits
        self._layers = draft_layers
        self._device = device
        self._book = SlotBook(limits)
        self._wishes = PromptWishes()
        self._alternatives = np.full(limits.max_slots, -1, np.int32)

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Read the model that config names, the default one if it names none.

        Raises ConfigError for a dtype, block size or model that the library does not run.
        """
        if config.dtype != "bfloat16":
            raise ConfigError(f"worker.dtype: native expects bfloat16, got {config.dtype}")
        path = config.model
        if not path:
            from optimist.models.default import default_model

            path = str(default_model())
        with open_source(path) as source:
            if why := unsupported(source.config, config.block_size):
                raise ConfigError(f"worker.executor: native cannot run this: {why}")
            kept = Formats(source, config.quant).kept(config.kv_dtype)
            each = block_bytes(source.config, config.block_size, kept)
            limits = limits_of(config, source.config, each)
            sizes = Sizes(
                block_size=limits.block_size,
                blocks=limits.num_blocks,
                slots=limits.max_slots,
                max_len=limits.max_model_len,
                max_tokens=limits.max_batch_tokens,
                threads=config.threads or processors(),
                kept=kept,
                verify=config.verify,
            )
            quant, cache = config.quant, config.packed_cache
            layers = 0
            if config.proposer == "self-draft":
                layers = draft_layers(source.config, config.draft_layers)
            device = load_device(source, sizes, progress, quant=quant, cache=cache)
            return cls(device, limits, layers)

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> NativeTicket:
        """Compute a step. Raises MessageError, before any device state changes for its rows, when
        the batch contradicts what the slots hold.
        """
        vocab_size, itself = self.limits.vocab_size, self._layers > 0
        rows, needed = planned(batch, drafts, vocab_size, itself=itself)
        self._move(batch)
        blocks, longest = -(-needed // self.limits.block_size), int(needed.max(initial=0))
        self._book.check_rows(rows.slots, ints(batch.generations), longest, blocks)
        asked = self._alternatives[rows.slots[rows.samples != 0]]
        try:
            if itself:
                wanting = np.flatnonzero(rows.drafts)
                self._device.draft(rows.slots[wanting], rows.drafts[wanting], self._layers)
            chosen = self._device.step(rows, max(0, int(asked.max(initial=0))))
            prompt = self._told(batch, rows)
        except NativeError as error:
            raise MessageError(str(error)) from None
        found = outcome(batch, rows, chosen, asked)._replace(prompt=prompt)
        if itself:
            held = np.full_like(chosen.counts, self.limits.max_model_len)
            found = found._replace(drafts_held=held)
        return NativeTicket(found)

    def reset(self) -> None:
        """Forget every slot; the block table is at version 0 again."""
        self._book.reset()
        self._device.reset()

    def close(self) -> None:
        """Give up weights and cache. Nothing may be called after it."""
        self._device.close()

    def _told(self, batch: Batch, rows: Rows) -> PromptScores | None:
        """Of tokens of prompts, what was asked for."""
        if not self._wishes:
            return None
        offsets = np.concatenate(([0], rows.queries.cumsum())).astype(np.int32)
        if (asked := self._wishes.asked(batch, offsets)) is None:
            return None
        places = asked.places.astype(np.int32)
        found = self._device.score(places, asked.ids, int(asked.alternatives.max()))
        return prompt_scores(asked, *found)

    def _move(self, batch: Batch) -> None:
        self._wishes.move(batch)
        self._book.close_slots(batch.closed)
        for opened in batch.opened:
            self._book.open_slot(opened)
            ids = ints(opened.token_ids)
            self._device.open_slot(opened.slot, ids, opened.cached_len, choice_of(opened))
            self._alternatives[opened.slot] = opened.sampling.logprobs
        slots, columns, blocks = self._book.entries(batch.blocks)
        if slots.size:
            self._device.set_blocks(slots, columns, blocks)
