"""What the proposer is told: which request is in which slot."""

from __future__ import annotations

from optimist.actors.scheduler.epoch import Epoch
from optimist.messages.base import Column, column
from optimist.messages.drafting import Close, Open
from optimist.messages.plans import Plan


def moved(epoch: Epoch, incarnation: int, plan: Plan | None) -> list[Open | Close]:
    """The slots that requests left since the last call, and those that a plan opens, just made."""
    left, epoch.left = epoch.left, []
    closed = [Close(incarnation=incarnation, slot=slot, generation=old) for slot, old in left]
    opened = () if plan is None else plan.opened
    step = 0 if plan is None else plan.step
    news = [_open(epoch, incarnation, step, one.slot, one.token_ids) for one in opened]
    return [*closed, *news]


def running(epoch: Epoch, incarnation: int) -> list[Open]:
    """Every slot whose request goes on, with its settled tokens."""
    slots, step = epoch.slots, epoch.next_step - len(epoch.flights)
    tokens = {slot: column(slots.tokens[slot, : slots.settled[slot]]) for slot in slots.running()}
    return [_open(epoch, incarnation, step, slot, known) for slot, known in tokens.items()]


def _open(epoch: Epoch, incarnation: int, step: int, slot: int, token_ids: Column) -> Open:
    request = epoch.slots.request(slot)
    return Open(
        incarnation=incarnation,
        epoch=epoch.number,
        step=step,
        slot=slot,
        generation=int(epoch.slots.generation[slot]),
        token_ids=token_ids,
        cache_salt=request.salt,
        use_cache=request.share_drafts,
    )
