"""What is saved when a device, a builder or a message is lost."""

from __future__ import annotations

from optimist.actors.scheduler.epoch import Epoch
from optimist.actors.scheduler.queue import Queue
from optimist.actors.scheduler.request import Request
from optimist.messages.control import Resync
from optimist.messages.errors import Problem
from optimist.messages.plans import Plan
from optimist.messages.requests import Placed

MAX_STRIKES = 2
"""worker deaths after which a request that was in an unsettled step each time is not tried again"""

REFUSED_REPLAY = Problem(
    code="request_failed", message="the request was in two steps that died with their worker"
)


def unsettled(epoch: Epoch, resync: Resync) -> list[Plan]:
    """The plans in flight that an actor asks for: all of them if it knows nothing, else from a step on."""
    if resync.epoch not in (0, epoch.number):
        return []
    first = resync.step if resync.epoch else 0
    return [flight.plan for flight in epoch.flights if flight.step >= first]


def placed(epoch: Epoch, incarnation: int, plan: Plan) -> list[Placed]:
    """What the gateway is to know before a plan is sent: who is in steps from now on, and who no more."""
    waiting, epoch.waiting = epoch.waiting, []
    opened = [epoch.slots.request(one.slot) for one in plan.opened]
    news = [Placed(incarnation=incarnation, request=request, waits=True) for request in waiting]
    if epoch.told is not None and epoch.trial is None:
        # First: it may be among those that wait.
        news.insert(0, _in_steps(epoch, incarnation, epoch.told))
    news += [_in_steps(epoch, incarnation, request) for request in opened]
    epoch.told = epoch.trial
    return news


def _in_steps(epoch: Epoch, incarnation: int, request: Request) -> Placed:
    return Placed(
        incarnation=incarnation,
        request=request.id,
        alone=request is epoch.trial,
        strikes=request.strikes,
    )


def strike(epoch: Epoch) -> None:
    """The device died: a mark for every request that a step in flight named."""
    for slot in {slot for flight in epoch.flights for slot in flight.slots.tolist()}:
        request = epoch.slots.request(slot)
        request.strikes += 1
        request.tried = False


def evacuate(epoch: Epoch, queue: Queue) -> list[Request]:
    """Send every live request of a dead device back to the queue, in its old place.

    Returns those that were in too many steps that died: they are not sent back. Tokens in flight are
    lost and will be computed again. Mutates requests; the epoch is of no use afterwards.
    """
    strike(epoch)
    refused = []
    for slot, request in enumerate(epoch.slots.requests):
        if request is None or epoch.slots.dropped[slot]:
            continue
        epoch.slots.close(slot)
        if request.strikes >= MAX_STRIKES:
            refused.append(request)
        else:
            queue.push(request)
    return refused
