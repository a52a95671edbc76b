"""Child processes of an engine whose scheduler takes longer: `python -m optimist.bench.slow_planning`.

For measuring alone: what a delay of each plan costs that no policy can explain away.
"""

from __future__ import annotations

import time

from optimist.cells import Cells, main
from optimist.messages.plans import Plan
from optimist.transport.base import Ref

DELAY_S = 0.003
"""what every plan takes longer"""


class Delayed:
    """An address that a plan reaches DELAY_S later; its sender does nothing else meanwhile."""

    def __init__(self, builder: Ref[Plan]) -> None:
        self._builder = builder

    def send(self, plan: Plan, /) -> None:
        time.sleep(DELAY_S)
        self._builder.send(plan)


class SlowCells(Cells):
    """As always, but for the scheduler's plans."""

    def _to_builder(self, builder: Ref[Plan]) -> Ref[Plan]:
        return Delayed(builder)


if __name__ == "__main__":
    main(SlowCells)
