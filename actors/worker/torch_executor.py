"""An executor on torch: a Llama-family network over a paged cache."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor, Limits, Operator, Progress, RowDrafts
from optimist.actors.worker.device_proposer import DeviceProposer, Drafter, Round
from optimist.actors.worker.gpu_sizes import enough_memory, kv_room
from optimist.actors.worker.prompt_scores import Asked, PromptWishes
from optimist.actors.worker.step_graphs import Network, StepGraphs, graph_keys
from optimist.actors.worker.told_rows import ToldRows
from optimist.actors.worker.torch_choice import Choice
from optimist.actors.worker.torch_limits import limits_of
from optimist.actors.worker.torch_proposer import (
    Factory,
    draft_config,
    load_draft,
    make_proposer,
    proposer_class,
)
from optimist.actors.worker.torch_result import Chosen, TorchTicket
from optimist.actors.worker.torch_rows import Rows, blocks_needed, longest, rows_of
from optimist.actors.worker.torch_sampling import SamplingState
from optimist.actors.worker.torch_state import SlotState
from optimist.actors.worker.torch_step import StepInput, lengths_told, step_input
from optimist.actors.worker.warm_choices import warm_choices
from optimist.actors.worker.warm_up import warm_up
from optimist.kernels.choice import torch_kernels
from optimist.kernels.compiled import compiled
from optimist.kernels.contract import Kernels, told_of_rows
from optimist.kernels.device import Device, current, device_of, upload
from optimist.kernels.gpus import chosen_device
from optimist.kernels.logprobs import Report, logprobs
from optimist.kernels.sync_check import checked_step, mode
from optimist.kernels.triton_interpreter import cannot_compile
from optimist.messages.batches import Batch
from optimist.messages.control import SyncMode
from optimist.models.llama import Llama
from optimist.models.loader import load_model
from optimist.models.source import open_source

HEAD_ROWS = 64
"""prompt tokens whose logits exist at once"""


def unheard(what: str, done: int, total: int) -> None:
    """Progress that nobody follows."""


class TorchExecutor(Executor):
    """Runs batches of both kinds, with drafts from the host or without.

    model: the network, with its weights. config: sizes; its `model`, `dtype` and `threads` are read
    by `load` alone. draft: the model that drafts, where config says so. proposer: makes a proposer
    that config does not know. device: where model is, None is its own. progress: of captures. Raises
    ConfigError when the sizes do not fit the model or each other.
    """

    operators = (Llama.forward, Llama.hidden, Llama.step)

    def __init__(
        self,
        model: Llama,
        config: WorkerConfig,
        *,
        draft: Llama | None = None,
        proposer: Factory | None = None,
        device: Device | None = None,
        progress: Progress = unheard,
    ) -> None:
        shape = None if draft is None else draft.config
        self._device = device or device_of(str(model.device))
        self.asynchronous = self._device.asynchronous
        room = self._device.room(
            lambda free: kv_room(free, config, model.config, model.dtype.itemsize)
        )
        self.limits: Limits = limits_of(config, model.config, model.kv_dtype, shape, room)
        self._model = model
        self._checks = mode()
        vocab_size, at = self.limits.vocab_size, model.device
        self._sampling = SamplingState(self.limits.max_slots, vocab_size, at)
        self._wishes = PromptWishes()
        self._choice = Choice(self._sampling, config.verify, model.kernels)
        if proposer is not None:
            given = proposer(model, self.limits)
            own: DeviceProposer | None = given
            self.brought = given.operators
        else:
            own = make_proposer(config, model, draft, self.limits)
        cache = model.allocate_cache(self.limits.num_blocks, self.limits.block_size)
        more = () if own is None else own.caches
        self._state = SlotState(self.limits, cache, more, model.kernels)
        self._drafter: Drafter | None = None
        if own is not None:
            self._drafter = Drafter(own, self._sampling, coupled=config.verify == "sample")
        if self._device.captures or config.torch_compile != "off":
            with self._device.step():
                drafts = config.most_drafts
                warm_up(model, cache, progress, self.limits.max_model_len, drafts)
                if model.kernels.captured:
                    warm_choices(self._state, vocab_size, config, progress)
        self._graphs = self._captured(config, progress)
        self._device.settle()

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Read the model that config names, the default one if it names none, in config.dtype.

        Sets torch's threads for the whole process when config.threads is given. Sizes that do not
        fit the model are refused before a weight is read. Raises ConfigError where there is no such
        device, and where its memory does not suffice.
        """
        path = config.model
        if not path:
            from optimist.models.default import default_model

            path = str(default_model())
        dtype, name = getattr(torch, config.dtype), chosen_device(config.device)
        kernels = cls.choose_kernels(config, name)
        with open_source(path) as source:
            shape = draft_config(config, source.config, path)
            limits_of(config, source.config, kernels.kv_dtype or dtype, shape)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        at = torch.device(name)
        with enough_memory(config, name), current(name):
            draft = load_draft(config, dtype, progress, kernels, at)
            model = load_model(path, dtype, progress, kernels, at)
            return cls(model, config, draft=draft, progress=progress)

    @classmethod
    def operators_for(cls, config: WorkerConfig) -> tuple[Operator, ...]:
        kernels = cls.choose_kernels(config, chosen_device(config.device))
        kind = proposer_class(config)
        drafting = () if kind is None else kind.operators
        return (*cls.operators, *told_of_rows(kernels), *drafting)

    @staticmethod
    def choose_kernels(config: WorkerConfig, device: str) -> Kernels:
        """The operators that models are loaded for. Raises ConfigError where there are none."""
        plain, backend = torch_kernels(device), config.torch_compile
        return plain if backend == "off" else compiled(plain, backend, device, cannot_compile())

    def _captured(self, config: WorkerConfig, progress: Progress) -> StepGraphs | None:
        """Graphs, where the device gains by them and its kernels read nothing of the host's."""
        if not (config.graphs and self._device.captures and self._model.kernels.captured):
            return None

        def graphs(network: Network, most: int, what: str = "draft graphs") -> StepGraphs:
            keys = graph_keys(self.limits.max_slots, most)
            return StepGraphs(network, self._state, self._device, self.limits, keys, progress, what)

        proposer = None if self._drafter is None else self._drafter.proposer
        with torch.inference_mode():
            if proposer is not None:
                proposer.capture(graphs)
            return graphs(Network(self._model), config.most_drafts, "graphs")

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> TorchTicket:
        """Compute a step. Raises MessageError, before any device state changes for its rows, when
        the batch contradicts what the slots hold. Raises SyncError as `check_syncs` says.
        """
        with self._device.step(), checked_step(self._checks), torch.inference_mode():
            itself, vocab_size = self._drafter is not None, self.limits.vocab_size
            rows = rows_of(batch, drafts, itself=itself, vocab_size=vocab_size)
            self._move(batch)
            needed = blocks_needed(batch, self.limits.block_size)
            self._state.book.check_rows(rows.slots, rows.generations, longest(batch), needed)
            proposal = self._draft(batch, rows, drafts)
            asked = self._wishes.asked(batch, rows.offsets)
            chosen, told = self._run(batch, rows, proposal, asked)
            held = self.limits.max_model_len if itself else None
            return TorchTicket(chosen, self._device, held, told)

    def check_syncs(self, mode: SyncMode) -> None:
        """See Executor. At first as OPTIMIST_SYNC_CHECK says."""
        self._checks = mode

    def reset(self) -> None:
        """Forget every slot; the block table is at version 0 again."""
        self._state.reset()

    def close(self) -> None:
        """Give up weights and cache. Nothing may be called after it."""
        self._device.settle()
        del self._model, self._state, self._sampling, self._choice, self._drafter, self._graphs

    def _move(self, batch: Batch) -> None:
        self._wishes.move(batch)
        if self._drafter is not None and batch.closed:
            self._drafter.proposer.close_slots(batch, self._state)
        self._state.close_slots(batch.closed)
        for opened in batch.opened:
            self._state.open_slot(opened)
            self._sampling.open_slot(opened)
            if self._drafter is not None:
                self._drafter.proposer.open_slot(opened)
        self._state.apply_blocks(batch.blocks)

    def _draft(self, batch: Batch, rows: Rows, drafts: RowDrafts | None) -> Tensor | None:
        """Put drafts behind the last tokens; what they were drawn from, if verification needs it."""
        if self._drafter is not None:
            return self._drafter.draft(Round(batch, rows, self._state))
        if drafts is not None and drafts.ids.size:
            ids = upload(drafts.ids.copy(), self._state.device)
            self._state.draft(rows.slots[: rows.num_decodes], rows.drafts, ids)
        return None

    def _run(
        self, batch: Batch, rows: Rows, proposal: Tensor | None, asked: Asked | None
    ) -> tuple[Chosen, tuple[Asked, Report] | None]:
        known = ToldRows.of(rows, lengths_told(batch, rows), self._state.device)
        step, logits, hidden = self._computed(batch, rows, known, keep=asked is not None)
        told = None if hidden is None or asked is None else (asked, self._told(hidden, asked))
        places = known.places_of(step.ids.index_select(0, known.draft_tokens))
        positions = step.positions.index_select(0, known.places) + 1
        slots, generations = rows.slots[rows.sampling], rows.generations[rows.sampling]
        chosen = self._choice.choose(slots, generations, places, positions, logits, proposal)
        rejected = self._advance(known, step, chosen, positions)
        if hidden is not None and self._drafter is not None and self._drafter.proposer.hidden:
            round = Round(batch, rows, self._state)
            self._drafter.proposer.observe(round, step, hidden, rejected)
        return chosen, told

    def _computed(
        self, batch: Batch, rows: Rows, known: ToldRows, *, keep: bool
    ) -> tuple[StepInput, Tensor, Tensor | None]:
        """The step as the network was told of it, and what it says."""
        if (
            self._graphs is not None
            and not keep
            and (replayed := self._graphs.run(rows)) is not None
        ):
            # Every token of such a step is a place. Who watches computes with no more rows than there are.
            watched = self._drafter is not None and self._drafter.proposer.hidden
            step = step_input(batch, rows, self._state, known) if watched else replayed.step
            logits = self._model.logits(replayed.hidden)
            return step, logits, replayed.hidden if watched else None
        step = step_input(batch, rows, self._state, known)
        return step, *self._forward(step, known.places, keep=keep)

    def _forward(self, step: StepInput, at: Tensor, *, keep: bool) -> tuple[Tensor, Tensor | None]:
        """Logits at places, and the residual stream of all tokens where a proposer or `keep` wants it."""
        model, cache = self._model, self._state.cache
        watched = self._drafter is not None and self._drafter.proposer.hidden
        if not (keep or watched):
            return model.forward(step.ids, step.positions, cache, step.metadata, at), None
        hidden = model.hidden(step.ids, step.positions, cache, step.metadata)
        return model.logits(hidden.index_select(0, at)), hidden

    def _told(self, hidden: Tensor, asked: Asked) -> Report:
        """Log-probabilities of prompt tokens. hidden: [T, E]. A few at a time: logits are wide."""
        places = upload(asked.places, hidden.device)
        ids = upload(asked.ids.astype(np.int64), hidden.device)
        most = int(asked.alternatives.max())
        parts = [
            logprobs(self._model.logits(hidden.index_select(0, at)), of, most)
            for at, of in zip(
                torch.split(places, HEAD_ROWS), torch.split(ids, HEAD_ROWS), strict=True
            )
        ]
        return Report(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _advance(
        self, known: ToldRows, step: StepInput, chosen: Chosen, positions: Tensor
    ) -> Tensor:
        """What the step leaves behind in its slots: drafts rejected of each row, [R], do not count."""
        places, verified = chosen.places, chosen.verified
        rejected = torch.zeros_like(known.slots)
        rejected.index_copy_(0, known.sampling, places.counts - verified.accepted)
        owners = known.owners.index_select(0, places.row)
        self._model.kernels.advance(
            self._state.computed,
            self._state.token_ids,
            step.slots,
            known.queries,
            rejected.to(torch.int32),
            owners,
            positions,
            verified.ids,
        )
        return rejected
