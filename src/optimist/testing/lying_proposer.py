"""A proposer actor that lies: nothing it says may change more than speed."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.actor import ProposerActor
from optimist.actors.proposer.base import Proposer
from optimist.actors.proposer.factory import make_proposer
from optimist.messages.base import column, ints, size
from optimist.messages.control import Resync
from optimist.messages.drafting import Drafts, Rehearsed
from optimist.messages.errors import ConfigError
from optimist.transport.base import Ref

Lie = Literal[
    "wrong-slot",
    "no-such-slot",
    "wrong-generation",
    "past-step",
    "future-step",
    "past-epoch",
    "future-epoch",
    "too-many",
    "no-such-token",
    "same-slot-twice",
    "every-message-twice",
    "late",
    "silent",
    "self-praise",
]
"""late: each answer comes with that of the next step but one. silent: none ever comes. self-praise: whatever
would have been drafted would have been right, and more often than there were tokens."""

LIES: tuple[Lie, ...] = get_args(Lie)

FAR = 2**31 - 1


class LyingActor(ProposerActor):
    """Takes the drafts of an honest class and makes of each answer what its lie says.

    As `optimist.testing.lying_proposer:LyingActor` its `proposer_options` are `lie` and `inner`, the
    name of the honest class, by default ngram; all others are that one's. In Python: `lie` may be given to
    the constructor.
    """

    def __init__(
        self,
        config: ProposerConfig,
        incarnation: int,
        *,
        worker: Ref[Drafts | Resync],
        scheduler: Ref[Resync | Rehearsed],
        proposer: Proposer | None = None,
        lie: Lie | None = None,
    ) -> None:
        options = dict(config.proposer_options)
        told, inner = options.pop("lie", lie), str(options.pop("inner", "ngram"))
        if told not in LIES:
            raise ConfigError(
                f"proposer_options.lie: expected one of {', '.join(LIES)}, got {told!r}"
            )
        if proposer is None:
            honest = msgspec.structs.replace(config, proposer=inner, proposer_options=options)
            proposer = make_proposer(honest)
        super().__init__(config, incarnation, worker=worker, scheduler=scheduler, proposer=proposer)
        self.lie = told
        self._late: deque[Drafts] = deque()

    def answer(self, drafts: Drafts) -> None:
        match self.lie:
            case "silent":
                return
            case "late":
                self._late.append(drafts)
                while len(self._late) > 2:
                    super().answer(self._late.popleft())
            case "every-message-twice":
                super().answer(drafts)
                super().answer(drafts)
            case _:
                super().answer(self._distorted(drafts))

    def report(self, rehearsed: Rehearsed) -> None:
        if self.lie == "self-praise":
            praise = column(np.full(size(rehearsed.slots), FAR))
            names = ("asked", "offered", "drafted", "accepted")
            rehearsed = msgspec.structs.replace(rehearsed, **dict.fromkeys(names, praise))
        super().report(rehearsed)

    def _distorted(self, drafts: Drafts) -> Drafts:
        slots, generations = ints(drafts.slots), ints(drafts.generations)
        changes: dict[str, Any] = {}
        match self.lie:
            case "wrong-slot":
                changes["slots"] = column(np.roll(slots, 1) if slots.size > 1 else slots + 1)
            case "no-such-slot":
                changes["slots"] = column(np.full_like(slots, FAR))
            case "wrong-generation":
                changes["generations"] = column(generations + 1)
            case "past-step":
                changes["after_step"] = max(0, drafts.after_step - 1)
            case "future-step":
                changes["after_step"] = drafts.after_step + 1
            case "past-epoch":
                changes["epoch"] = max(0, drafts.epoch - 1)
            case "future-epoch":
                changes["epoch"] = drafts.epoch + 1
            case "no-such-token":
                changes["token_ids"] = column(np.full(size(drafts.token_ids), FAR))
            case "same-slot-twice":
                names = ("slots", "generations", "counts", "token_ids")
                changes = {name: 2 * getattr(drafts, name) for name in names}
            case "too-many":
                each = 3
                changes["counts"] = column(each * ints(drafts.counts))
                parts = np.split(ints(drafts.token_ids), np.cumsum(ints(drafts.counts)))[:-1]
                tripled = [np.tile(part, each) for part in parts]
                changes["token_ids"] = column(np.concatenate([*tripled, np.zeros(0, np.int32)]))
        return msgspec.structs.replace(drafts, **changes)
