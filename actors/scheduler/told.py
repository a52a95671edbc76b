"""What the proposer is told: which request is in which slot."""

from __future__ import annotations

from optimist.actors.scheduler.epoch import Epoch
from optimist.messages.base import column
from optimist.messages.drafting import Close, Open
from optimist.messages.plans import Plan


def opened(plan: Plan) -> list[Open]:
    """The slots that a plan opens."""
    return [
        Open(
            incarnation=plan.incarnation,
            epoch=plan.epoch,
            step=plan.step,
            slot=opened.slot,
            generation=opened.generation,
            token_ids=opened.token_ids,
        )
        for opened in plan.opened
    ]


def running(epoch: Epoch, incarnation: int) -> list[Open]:
    """Every slot whose request goes on, with its settled tokens."""
    slots = epoch.slots
    return [
        Open(
            incarnation=incarnation,
            epoch=epoch.number,
            step=epoch.next_step - len(epoch.flights),
            slot=slot,
            generation=int(slots.generation[slot]),
            token_ids=column(slots.tokens[slot, : slots.settled[slot]]),
        )
        for slot in slots.running()
    ]


def closed(epoch: Epoch, incarnation: int) -> list[Close]:
    """The slots that requests left since the last call."""
    left, epoch.left = epoch.left, []
    return [
        Close(incarnation=incarnation, slot=slot, generation=generation)
        for slot, generation in left
    ]
