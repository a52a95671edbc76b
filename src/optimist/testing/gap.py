"""The length contract, held in every simulated run: how far a bound is above the truth, exactly.

    bound - current == drafts planned and not accepted in earlier steps, unsettled when it was planned
                       + drafts that the row had room for and did not run

On prefill rows, and wherever a plan is exact, both are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from optimist.messages.base import ActorMessage, ints
from optimist.messages.errors import OptimistError
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.results import StepResult
from optimist.testing.edges import Edge
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.late_device import LateDevice
from optimist.testing.world import World


class ContractBroken(OptimistError):
    """A bound that is not what it must be."""


class _Row(NamedTuple):
    slot: int
    generation: int
    drafts: int
    length: int
    """as planned: exact, or a bound"""


class _Ran(NamedTuple):
    step: int
    generation: int
    lost: int
    """drafts planned and not accepted"""


class GapRule:
    """Watches plans and results of a world. rows: decode rows compared. loose: of them, above the truth."""

    def __init__(self, world: World) -> None:
        self.rows = 0
        self.loose = 0
        self._world = world
        self._epoch = -1
        self._reset(-1)
        world.edges.watches.append(self._sent)
        world.edges.arrivals.append(self._arrived)

    def _reset(self, epoch: int) -> None:
        self._epoch = epoch
        self._plans: dict[int, tuple[int, list[_Row], list[_Row]]] = {}
        self._ran: dict[int, list[_Ran]] = {}
        self._results: set[int] = set()
        self._settled = -1

    def _arrived(self, edge: Edge, message: ActorMessage) -> None:
        if isinstance(message, StepResult) and message.epoch == self._epoch:
            self._results.add(message.step)
            while self._settled + 1 in self._results:
                self._settled += 1
                self._results.discard(self._settled)

    def _sent(self, edge: Edge, message: ActorMessage) -> None:
        match message:
            case ExactPlan() | OptimisticPlan():
                if message.epoch > self._epoch:
                    self._reset(message.epoch)
                if message.epoch == self._epoch and message.step not in self._plans:
                    decodes, prefill = list(_decodes(message)), list(_prefill(message))
                    self._plans[message.step] = (self._settled, decodes, prefill)
            case StepResult() if message.epoch == self._epoch:
                self._compare(message)

    def _compare(self, result: StepResult) -> None:
        settled, decodes, prefill = self._plans[result.step]
        lengths = self._lengths(result)
        if lengths is None:
            return
        counts = (result.slots, result.token_counts, result.drafts_run)
        came = {s: (c, r) for s, c, r in zip(*(ints(c).tolist() for c in counts), strict=True)}
        for row in prefill:
            if row.length != lengths[row.slot]:
                raise ContractBroken(f"step {result.step}: {row}, the truth is {lengths[row.slot]}")
        for row in decodes:
            count, run = came[row.slot]
            earlier = self._ran.setdefault(row.slot, [])
            lost = sum(
                ran.lost
                for ran in earlier
                if ran.step > settled and ran.generation == row.generation
            )
            expected, gap = lost + row.drafts - run, row.length - lengths[row.slot]
            if gap != expected:
                raise ContractBroken(
                    f"step {result.step}: {row} is {gap} above the truth, expected {expected}"
                )
            self.rows, self.loose = self.rows + 1, self.loose + (gap > 0)
            earlier.append(_Ran(result.step, row.generation, row.drafts + 1 - count))
            del earlier[:-8]

    def _lengths(self, result: StepResult) -> dict[int, int] | None:
        device = self._world.device
        inner = device.inner if isinstance(device, LateDevice) else device
        if not isinstance(inner, IntegerExecutor):
            return None
        return inner.lengths.get((result.epoch, result.step))


def _decodes(plan: Plan) -> Iterator[_Row]:
    if isinstance(plan, OptimisticPlan):
        # bound, test: compared with the truth of the device
        lengths = plan.decode_bound.sizing_array(reader="testing.gap").tolist()
    else:
        lengths = plan.decode_lens.exact().tolist()
    columns = (plan.decode_slots, plan.decode_generations, plan.draft_counts)
    for values in zip(*(ints(c).tolist() for c in columns), lengths, strict=True):
        yield _Row(*values)


def _prefill(plan: Plan) -> Iterator[_Row]:
    rows = plan.prefill
    # bound, exact on prefill rows: compared with the truth of the device
    lengths = rows.seq_lens.exact().tolist()
    for slot, generation, length in zip(
        ints(rows.slots).tolist(), ints(rows.generations).tolist(), lengths, strict=True
    ):
        yield _Row(slot, generation, 0, length)
