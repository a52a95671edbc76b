"""Makes the actors of a simulated world, each life of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.actor import Worker

if TYPE_CHECKING:
    from optimist.testing.world import World


def born(world: World, name: str, life: int) -> Any:
    """An actor of this name. A new worker brings a new device."""

    def ref(receiver: str) -> Any:
        return world.edges.ref(name, life, receiver)

    # A scheduler of somebody else's need not know of proposers where there are none.
    drafts = {"proposer": ref("proposer")} if world.drafts == "host" else {}
    match name:
        case "scheduler":
            return world.parts.scheduler(
                world.setup.scheduler(),
                life,
                builder=ref("builder"),
                gateway=ref("gateway"),
                worker=ref("worker"),
                **drafts,
                clock=lambda: world.now,
            )
        case "builder":
            return world.parts.builder(
                world.setup.builder(), life, worker=ref("worker"), scheduler=ref("scheduler")
            )
        case "proposer":
            return world.parts.proposer(
                world.setup, life, worker=ref("worker"), scheduler=ref("scheduler")
            )
        case _:
            world.device = world.parts.device(world.setup, world.rng.getrandbits(32))
            return Worker(
                WorkerConfig(), life, scheduler=ref("scheduler"), executor=world.device, **drafts
            )
