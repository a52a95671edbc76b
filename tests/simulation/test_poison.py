"""A request that takes worker and scheduler along in each step it is in, among others that do no harm."""

from __future__ import annotations

import pytest

from optimist.messages.base import ActorMessage, ints
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.testing.edges import Edge
from optimist.testing.setup import Setup
from optimist.testing.verdicts import differences, unrest
from optimist.testing.wishes import Wish
from optimist.testing.world import World

ENGINE_ROOM = "worker+proposer+builder+scheduler"
POISON = 96


class Killer:
    """Kills when a batch that the poison is in has arrived at the worker."""

    def __init__(self, world: World, cell: str) -> None:
        self.deaths = 0
        self._world, self._cell = world, cell
        self._due = False
        world.edges.arrivals.append(self._look)

    def _look(self, edge: Edge, message: ActorMessage) -> None:
        if isinstance(message, ExactBatch | OptimisticBatch) and message.epoch:
            worker = self._world.actors["worker"].incarnation
            self._due |= message.epoch >= worker and any(
                ints(slot.token_ids)[0] == POISON for slot in message.opened
            )

    def run(self) -> None:
        while not self._world.quiet():
            self._world.step()
            if self._due:
                self._world.kill(self._cell)
                self.deaths, self._due = self.deaths + 1, False


@pytest.mark.parametrize("cell", ["worker", ENGINE_ROOM])
@pytest.mark.parametrize("drafts", ["", "ngram"])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_refused_after_two_deaths_and_all_others_finish(
    seed: int, drafts: str, cell: str
) -> None:
    wishes = [
        Wish((5 + i, *range(9)), max_tokens=8, arrival=0.002 * i, window=3 if i == 4 else 1024)
        for i in range(6)
    ]
    wishes.insert(2, Wish((POISON, 1, 2), max_tokens=8, arrival=0.003))
    world = World(seed, Setup(max_slots=4, drafts=drafts), wishes)
    killer = Killer(world, cell)
    killer.run()
    world.run()
    assert killer.deaths == 2
    assert differences(world) + unrest(world) == []
    codes = {j.wish.prompt_ids[0]: j.code for j in world.gateway.journals.values()}
    assert codes.pop(POISON) == "request_failed"
    assert set(codes.values()) == {None}
