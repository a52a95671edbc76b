"""An executor on the native library: no torch in its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Outcome, Prepared, Progress, RowDrafts
from optimist.actors.worker.limits import draft_layers, limits_of
from optimist.actors.worker.native_rows import bounds, choice_of, outcome, plain_outcome, planned
from optimist.actors.worker.native_steady import Steady, steady
from optimist.actors.worker.processors import threads_of
from optimist.actors.worker.prompt_scores import Asked, PromptWishes, prompt_scores
from optimist.actors.worker.slot_book import SlotBook
from optimist.kernels.native.device import NativeDevice, NativeError
from optimist.kernels.native.shapes import Chosen, Ints, Rows
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch
from optimist.messages.errors import ConfigError, MessageError
from optimist.messages.results import PromptScores
from optimist.messages.slots import OpenedSlot
from optimist.models.native import Sizes, block_bytes, load_device, unsupported
from optimist.models.quantisation import Formats
from optimist.models.source import open_source


class Step(NamedTuple):
    """What was computed. asked: alternatives of each row that sampled, [S]."""

    batch: Batch
    rows: Rows
    chosen: Chosen
    asked: Ints


class NativeTicket:
    """A step that has been computed. held: drafts that each row has for the next one, None for the host's.

    plain: as in plain_outcome.
    """

    def __init__(
        self, step: Step, prompt: PromptScores | None, held: int | None, *, plain: bool = False
    ) -> None:
        self._step, self._prompt, self._held = step, prompt, held
        self._plain = plain

    def wait(self) -> Outcome:
        """What the step produced."""
        batch, rows, chosen, asked = self._step
        found = plain_outcome(batch, rows, chosen) if self._plain else None
        found = found or outcome(batch, rows, chosen, asked)
        if self._held is not None:
            found = found._replace(drafts_held=np.full_like(found.token_counts, self._held))
        return found if self._prompt is None else found._replace(prompt=self._prompt)


class _Moves(NamedTuple):
    """What changes in the slots before a step. entries: of the block table."""

    opened: tuple[OpenedSlot, ...]
    entries: tuple[Ints, Ints, Ints]
    fresh: bool


class NativeExecutor(Executor):
    """Runs every kind of batch, with drafts from the host or of its own.

    device: a network with its weights and slots as `limits` says. draft_layers: of the network, that
    draft; 0 where drafts come from the host.
    """

    def __init__(self, device: NativeDevice, limits: Limits, draft_layers: int = 0) -> None:
        self.limits: Limits = limits
        self._layers = draft_layers
        self._held = limits.max_model_len if draft_layers else None
        self._device = device
        self._book = SlotBook(limits)
        self._wishes = PromptWishes()
        self._alternatives = np.full(limits.max_slots, -1, np.int32)
        self._steady: Steady | None = None

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
                threads=threads_of(config.threads),
                kept=kept,
                verify=config.verify,
                shares=config.threads is None,
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
        return self._prepare(batch, drafts, fresh=False)()

    def prepare(self, batch: Batch, drafts: RowDrafts | None = None) -> Prepared:
        """All but the step itself. Raises MessageError as `submit` does."""
        fresh = batch.step == 0
        if fresh:
            self._steady = None
            self._book.reset()
        return self._prepare(batch, drafts, fresh=fresh)

    def _prepare(
        self, batch: Batch, drafts: RowDrafts | None, *, fresh: bool
    ) -> Callable[[], NativeTicket]:
        if self._steady is not None and self._steady.goes_on(batch, drafts):
            return self._go_on(self._steady, batch, fresh=fresh)
        self._steady = None
        rows, needed = planned(batch, drafts, self.limits.vocab_size, itself=self._layers > 0)
        moves = _Moves(batch.opened, self._move(batch), fresh)
        blocks, longest = -(-needed // self.limits.block_size), int(needed.max(initial=0))
        self._book.check_rows(rows.slots, ints(batch.generations), longest, blocks)
        asked = self._alternatives[rows.slots[rows.samples != 0]]
        most, wished = max(0, int(asked.max(initial=0))), self._wished(batch, rows)
        self._steady = None if self._layers else steady(batch, drafts, rows, asked)
        wanted = self._device.ask(rows, most)

        def step() -> NativeTicket:
            try:
                self._apply(moves)
                if self._layers:
                    self._draft(rows)
                chosen = self._device.run(wanted)
                told = None if wished is None else self._told(wished)
            except NativeError as error:
                raise MessageError(str(error)) from None
            return NativeTicket(Step(batch, rows, chosen, asked), told, self._held)

        return step

    def _go_on(self, steady: Steady, batch: Batch, *, fresh: bool) -> Callable[[], NativeTicket]:
        """The same for a batch of the rows that the last one had."""
        moves = _Moves((), self._book.entries(batch.blocks), fresh)
        lengths = batch.seq_lens.exact() if isinstance(batch, ExactBatch) else None
        self._book.check_lengths(steady.rows.slots, bounds(batch))
        wanted = self._device.ask(steady.rows, steady.most, lengths)

        def step() -> NativeTicket:
            try:
                self._apply(moves)
                chosen = self._device.run(wanted)
            except NativeError as error:
                raise MessageError(str(error)) from None
            made = Step(batch, steady.rows, chosen, steady.asked)
            return NativeTicket(made, None, None, plain=not steady.reports)

        return step

    def announce(self, fd: int) -> bool:
        """See Executor."""
        self._device.announce(fd)
        return True

    def reset(self) -> None:
        """Forget every slot; the block table is at version 0 again."""
        self._steady = None
        self._book.reset()
        self._device.reset()

    def close(self) -> None:
        """Give up weights and cache. Nothing may be called after it."""
        self._device.close()

    def _draft(self, rows: Rows) -> None:
        wanting = np.flatnonzero(rows.drafts)
        self._device.draft(rows.slots[wanting], rows.drafts[wanting], self._layers)

    def _wished(self, batch: Batch, rows: Rows) -> Asked | None:
        """What is to be told of tokens of prompts."""
        if not self._wishes:
            return None
        offsets = np.concatenate(([0], rows.queries.cumsum())).astype(np.int32)
        return self._wishes.asked(batch, offsets)

    def _told(self, asked: Asked) -> PromptScores:
        places = asked.places.astype(np.int32)
        found = self._device.score(places, asked.ids, int(asked.alternatives.max()))
        return prompt_scores(asked, *found)

    def _move(self, batch: Batch) -> tuple[Ints, Ints, Ints]:
        """Who leaves and comes, as the host knows it. Returns what is new in the block table."""
        self._wishes.move(batch)
        self._book.close_slots(batch.closed)
        for opened in batch.opened:
            self._book.open_slot(opened)
            self._alternatives[opened.slot] = opened.sampling.logprobs
        return self._book.entries(batch.blocks)

    def _apply(self, moves: _Moves) -> None:
        """The same on the device."""
        if moves.fresh:
            self._device.reset()
        for opened in moves.opened:
            ids = ints(opened.token_ids)
            self._device.open_slot(opened.slot, ids, opened.cached_len, choice_of(opened))
        if moves.entries[0].size:
            self._device.set_blocks(*moves.entries)
