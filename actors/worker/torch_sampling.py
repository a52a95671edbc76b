"""Sampling parameters by slot: columns on the host, which decides from them what a step needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.kernels.device import upload, upload_together
from optimist.kernels.sampling import Edits, Penalties
from optimist.kernels.sampling import Rows as SamplingRows
from optimist.messages.base import floats, ints
from optimist.messages.slots import OpenedSlot, Sampling

Ints = NDArray[np.int32]

_COLUMNS = np.dtype(
    [
        ("temperature", np.float32),
        ("seed", np.int64),
        ("top_k", np.int32),
        ("top_p", np.float32),
        ("min_p", np.float32),
        ("presence", np.float32),
        ("frequency", np.float32),
        ("repetition", np.float32),
        ("prompt_len", np.int32),
        ("min_tokens", np.int32),
        ("logprobs", np.int32),
        ("biased", np.bool_),
        ("penalised", np.bool_),
    ]
)


class Earlier(NamedTuple):
    """Drafts that count as emitted where a later token is chosen. places: where, [N]. ids: which, [N]."""

    places: NDArray[np.int64]
    ids: Tensor


CPU = torch.device("cpu")

NOTHING = Earlier(np.zeros(0, np.int64), torch.zeros(0, dtype=torch.int64))


class SamplingState:
    """Parameters of the requests in the slots, and, once one asks for penalties, token counts."""

    def __init__(self, slots: int, vocab_size: int, device: torch.device = CPU) -> None:
        self._device = device
        self._columns = np.zeros(slots, _COLUMNS)
        self._params: list[Sampling | None] = [None] * slots
        self._vocab_size = vocab_size
        self._counts: tuple[Tensor, Tensor] | None = None

    def open_slot(self, opened: OpenedSlot) -> None:
        """A request moves in, whose tokens are in the vocabulary."""
        params = opened.sampling
        self._params[opened.slot] = params
        penalised = (
            params.presence_penalty != 0
            or params.frequency_penalty != 0
            or params.repetition_penalty != 1
        )
        self._columns[opened.slot] = (
            params.temperature,
            params.seed,
            params.top_k,
            params.top_p,
            params.min_p,
            params.presence_penalty,
            params.frequency_penalty,
            params.repetition_penalty,
            opened.prompt_len,
            params.min_tokens,
            params.logprobs,
            len(params.bias_ids) > 0,
            penalised,
        )
        if penalised:
            self._count(opened)

    def greedy(self, slots: Ints) -> bool:
        """Whether the likeliest token is the answer for all of these."""
        rows = self._columns[slots]
        plain = ~(rows["penalised"] | rows["biased"]) & (rows["min_tokens"] == 0)
        return bool((plain & (rows["temperature"] == 0)).all())

    def alternatives(self, slots: Ints) -> Ints:
        """How many alternatives each slot reports, -1 for no report at all."""
        return np.ascontiguousarray(self._columns["logprobs"][slots])

    def rows(self, slots: Ints, positions: Tensor, earlier: Earlier = NOTHING) -> SamplingRows:
        """What `sample` takes for these slots, of which one may stand there several times.

        positions: of the token to choose in its request, [J] int64. earlier: drafts before it.
        """
        rows = self._columns[slots]
        used = {"seed": True, "temperature": bool((rows["temperature"] > 0).any())}
        if used["temperature"]:
            used["top_k"] = bool((rows["top_k"] > 0).any())
            used["top_p"] = bool((rows["top_p"] < 1).any())
            used["min_p"] = bool((rows["min_p"] > 0).any())
        names = [name for name, any_row in used.items() if any_row]
        # A field of one record counts as contiguous and keeps the record's stride: copy it in any case.
        columns = upload_together([rows[name].copy() for name in names], self._device)
        there = dict(zip(names, columns, strict=True))
        return SamplingRows(
            temperature=there.get("temperature"),
            seed=there["seed"],
            position=positions,
            penalties=self._penalties(slots, rows, earlier),
            edits=self._edits(slots, rows, positions),
            top_k=there.get("top_k"),
            max_top_k=int(rows["top_k"].max()) if "top_k" in there else 0,
            top_p=there.get("top_p"),
            min_p=there.get("min_p"),
        )

    def penalised(self, slots: Ints) -> NDArray[np.bool_]:
        """Which of these count their tokens, [J]."""
        return np.ascontiguousarray(self._columns["penalised"][slots])

    def chosen(self, slots: Ints, ids: Tensor, valid: Tensor) -> None:
        """Count the tokens ids [J] that these slots have just chosen, where valid [J] bool says so."""
        which = np.flatnonzero(self.penalised(slots))
        if self._counts is None or not which.size:
            return
        at, chosen = self._up(slots[which].astype(np.int64)), self._up(which)
        once = valid.index_select(0, chosen).to(torch.int32)
        self._counts[0].index_put_((at, ids.index_select(0, chosen)), once, accumulate=True)

    def _count(self, opened: OpenedSlot) -> None:
        if self._counts is None:
            shape = (len(self._params), self._vocab_size)
            self._counts = (
                torch.zeros(shape, dtype=torch.int32, device=self._device),
                torch.zeros(shape, dtype=torch.bool, device=self._device),
            )
        ids = ints(opened.token_ids)
        emitted = np.bincount(ids[opened.prompt_len :], minlength=self._vocab_size)
        prompt = np.zeros(self._vocab_size, np.bool_)
        prompt[ids[: opened.prompt_len]] = True
        self._counts[0][opened.slot] = self._up(emitted.astype(np.int32))
        self._counts[1][opened.slot] = self._up(prompt)

    def _penalties(self, slots: Ints, rows: NDArray[np.void], earlier: Earlier) -> Penalties | None:
        if self._counts is None or not rows["penalised"].any():
            return None
        at = self._up(slots.astype(np.int64))
        # Slots that ask for no penalty may hold another request's counts: factors of 0 and 1 undo them.
        counts = self._counts[0].index_select(0, at)
        if earlier.places.size:
            once = torch.ones((), dtype=torch.int32, device=self._device)
            index = (self._up(earlier.places), earlier.ids)
            counts.index_put_(index, once, accumulate=True)
        return Penalties(
            counts,
            self._counts[1].index_select(0, at),
            self._up(rows["presence"]),
            self._up(rows["frequency"]),
            self._up(rows["repetition"]),
        )

    def _edits(self, slots: Ints, rows: NDArray[np.void], positions: Tensor) -> tuple[Edits, ...]:
        edits = []
        if rows["biased"].any():
            at, ids = self._listed(slots, rows["biased"], lambda params: ints(params.bias_ids))
            values = [floats(p.bias_values) for p in self._chosen(slots, rows["biased"])]
            edits.append(Edits(at, ids, self._up(np.concatenate(values))))
        if (bound := rows["min_tokens"] > 0).any():
            at, ids = self._listed(slots, bound, lambda params: ints(params.stop_ids))
            emitted = positions - self._up(rows["prompt_len"])
            early = (emitted < self._up(rows["min_tokens"])).index_select(0, at)
            edits.append(Edits(at, ids, torch.where(early, -torch.inf, 0.0)))
        return tuple(edits)

    def _listed(
        self, slots: Ints, which: NDArray[np.bool_], ids: Callable[[Sampling], Ints]
    ) -> tuple[Tensor, Tensor]:
        lists = [ids(params) for params in self._chosen(slots, which)]
        rows = np.repeat(np.flatnonzero(which), [len(found) for found in lists])
        return self._up(rows), self._up(np.concatenate(lists).astype(np.int64))

    def _chosen(self, slots: Ints, which: NDArray[np.bool_]) -> list[Sampling]:
        found = (self._params[slot] for slot in slots[which])
        return [params for params in found if params is not None]

    def _up(self, values: NDArray[Any]) -> Tensor:
        # A field of one record counts as contiguous and keeps the record's stride: copy it in any case.
        return upload(values.copy(), self._device)
