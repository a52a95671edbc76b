"""Who is restarted when one dies, when it is enough, and in which order all of them stop.

Pure: a written tree and the times of deaths go in, decisions come out as values. No clock, no task,
no process; the supervisor carries the decisions out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from optimist.messages.errors import ConfigError

Strategy = Literal["one_for_one", "rest_for_one"]


class Branch(NamedTuple):
    """One supervised child. Its place in the tree is its place in the starting order.

    stop_limit: seconds it may take to stop in good order before it is killed.
    restarts: False for a child that cannot be replaced: its death ends the engine.
    dispensable: its deaths are never enough: it is restarted again and again, each time later.
    """

    name: str
    stop_limit: float
    restarts: bool = True
    dispensable: bool = False


class Budget(NamedTuple):
    """At most `restarts` deaths within any `window` seconds are answered by a restart."""

    restarts: int
    window: float


class Backoff(NamedTuple):
    """Seconds before a restart: none for a child's first death in the window, then growing."""

    first: float = 0.1
    factor: float = 2.0
    cap: float = 5.0

    def delay(self, nth: int) -> float:
        """The wait before the restart that follows the nth death within the window, nth >= 1."""
        return 0.0 if nth <= 1 else min(self.cap, self.first * self.factor ** (nth - 2))


@dataclass(frozen=True, slots=True)
class Tree:
    """The supervision tree as it is written: one level, in starting order.

    one_for_one: the dead child alone is restarted; its peers learn what it needs by Resync.
    rest_for_one: those that started after it are restarted as well.
    Raises ConfigError for a tree that makes no sense.
    """

    branches: tuple[Branch, ...]
    budget: Budget
    strategy: Strategy = "one_for_one"
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        names = [branch.name for branch in self.branches]
        if len(set(names)) != len(names):
            raise ConfigError(f"supervision tree: expected names to differ, got {', '.join(names)}")
        if self.budget.restarts < 0:
            raise ConfigError(f"restarts: expected >= 0, got {self.budget.restarts}")
        if self.budget.window <= 0:
            raise ConfigError(f"restart_window: expected > 0 seconds, got {self.budget.window:g}")
        if any(branch.stop_limit < 0 for branch in self.branches):
            raise ConfigError("stop_timeout: expected >= 0 seconds, got a negative value")


class Restart(NamedTuple):
    """Stop these, in this order; wait `delay` seconds; start these, in this order."""

    stop: tuple[str, ...]
    start: tuple[str, ...]
    delay: float


class GiveUp(NamedTuple):
    """Restart nobody: the engine ends. why: the rule that says so, in words."""

    why: str


Decision = Restart | GiveUp


class StopStep(NamedTuple):
    """Ask this child to stop, and kill it after `limit` seconds."""

    name: str
    limit: float


class Policy:
    """Remembers the deaths within the window and decides on the next one."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._deaths: deque[tuple[float, str]] = deque()

    def died(self, name: str, now: float) -> Decision:
        """Decide after the child called `name` died, or failed to start, at `now` seconds.

        Deaths of all children but dispensable ones count against the one budget; the delay grows
        with each child's own.
        """
        at = self._place(name)
        self._forget(now)
        self._deaths.append((now, name))
        branch, budget = self.tree.branches[at], self.tree.budget
        if not branch.restarts:
            return GiveUp(f"{name} cannot be restarted")
        if not branch.dispensable and self._counted() > budget.restarts:
            return GiveUp(_overspent(budget))
        own = sum(1 for _, dead in self._deaths if dead == name)
        return self._restart(at, self.tree.backoff.delay(own))

    def _counted(self) -> int:
        spared = {branch.name for branch in self.tree.branches if branch.dispensable}
        return sum(1 for _, dead in self._deaths if dead not in spared)

    def _restart(self, at: int, delay: float) -> Restart:
        names = tuple(branch.name for branch in self.tree.branches)
        if self.tree.strategy == "one_for_one":
            return Restart((), (names[at],), delay)
        return Restart(names[:at:-1], names[at:], delay)

    def _place(self, name: str) -> int:
        for at, branch in enumerate(self.tree.branches):
            if branch.name == name:
                return at
        raise ConfigError(f"supervision tree: it has no child {name!r}")

    def _forget(self, now: float) -> None:
        while self._deaths and self._deaths[0][0] <= now - self.tree.budget.window:
            self._deaths.popleft()


def stop_order(tree: Tree) -> tuple[StopStep, ...]:
    """How all of them stop: the last that started first, each within its limit."""
    return tuple(StopStep(branch.name, branch.stop_limit) for branch in reversed(tree.branches))


def _overspent(budget: Budget) -> str:
    if budget.restarts == 0:
        return "the restart budget is 0"
    return f"more than {budget.restarts} deaths within {budget.window:g} s (the restart budget)"
