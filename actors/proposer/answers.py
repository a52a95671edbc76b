"""Which steps the worker has told of, and which rows of them want drafts."""

from __future__ import annotations


class Answers:
    """newest: the latest step told of, in this epoch; -1 before the first."""

    def __init__(self) -> None:
        self.newest = -1
        self._due: set[int] = set()
        self._rows: dict[int, tuple[int, int]] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing waits for an answer."""
        return not (self._due or self._rows)

    def due(self, step: int) -> None:
        """A step was told of. One that is older than the newest needs no answer of its own."""
        if step > self.newest:
            self.newest = step
            self._due = {step}

    def want(self, slot: int, step: int, drafts: int) -> None:
        """The slot's tokens after this step are known now, and that many drafts are wanted."""
        self._rows[slot] = (step, drafts)

    def drop(self, slot: int) -> None:
        """The request has left the slot."""
        self._rows.pop(slot, None)

    def at_once(self, step: int) -> bool:
        """A step was told of, and is answered now. False when it is not, since others wait, or it needs none."""
        if not self.idle or step <= self.newest:
            return False
        self.newest = step
        return True

    def take(self) -> list[tuple[int, dict[int, int]]]:
        """Each step that wants an answer, oldest first, with the drafts wanted in each slot."""
        steps: dict[int, dict[int, int]] = {step: {} for step in self._due}
        for slot, (step, drafts) in self._rows.items():
            steps.setdefault(step, {})[slot] = drafts
        self._due, self._rows = set(), {}
        return sorted(steps.items())
