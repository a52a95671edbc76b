"""Engines on the integer model, and executors that fail when a test says so.

Found by child processes too: their import path ends with this one's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import anyio

from optimist.actors.config import EngineConfig, Placement, SchedulerConfig, WorkerConfig
from optimist.actors.gateway.actor import Gateway
from optimist.actors.worker.base import Progress, RowDrafts, Ticket
from optimist.messages.base import ints
from optimist.messages.batches import Batch
from optimist.messages.errors import ModelError
from optimist.testing.following import Asked, Follower, answer_to
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.troupe import Troupe

MODEL = IntegerModel(vocab_size=272)
MAX_MODEL_LEN = 256
POISON = 270
INTEGERS = "optimist.testing.integer_model:IntegerExecutor"

ASKED = tuple(
    Asked(
        prompt_ids=tuple(range(7, 7 + 5 * i + 1)), max_tokens=24 + 8 * i, temperature=i % 2, seed=i
    )
    for i in range(4)
)


def config(
    placement: Placement = "processes",
    *,
    executor: str = INTEGERS,
    sleep_ms: float = 0.0,
    options: dict[str, Any] | None = None,
    **rest: Any,
) -> EngineConfig:
    """An engine on the integer model whose steps last `sleep_ms`."""
    return EngineConfig(
        placement=placement,
        scheduler=SchedulerConfig(max_chunk=8),
        worker=WorkerConfig(
            executor=executor,
            executor_options={
                "vocab_size": MODEL.vocab_size,
                "sleep_ms": sleep_ms,
                **(options or {}),
            },
            max_model_len=MAX_MODEL_LEN,
        ),
        **{"start_timeout": 60.0, **rest},
    )


class Audience:
    """Requests that are read side by side."""

    def __init__(self, gateway: Gateway | None, asked: Sequence[Asked] = ASKED) -> None:
        assert gateway is not None
        self.followers = [Follower(gateway, one) for one in asked]

    async def follow(self) -> None:
        """Read all to their end and compare them with the oracle."""
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for follower in self.followers:
                    group.start_soon(follower.follow)
        for follower in self.followers:
            assert follower.token_ids == answer_to(follower.asked, MODEL, MAX_MODEL_LEN)
            assert follower.finish == "length"

    @property
    def delivered(self) -> int:
        return sum(len(follower.token_ids) for follower in self.followers)


async def right_answers(troupe: Troupe, asked: Sequence[Asked] = ASKED) -> None:
    """Ask, and compare with the oracle."""
    await Audience(troupe.gateway, asked).follow()


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Raises(IntegerExecutor):
    """Its model is broken."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        raise ModelError("model.gguf: blk.0.attn_q.weight: truncated")


class Crashes(IntegerExecutor):
    """A bug while it loads."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        raise ZeroDivisionError("weights by zero")


class Exits(IntegerExecutor):
    """A library that ends the process."""

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        os.write(2, b"cannot allocate memory\n")
        os._exit(3)


class Sleeps(IntegerExecutor):
    """A device that does not answer before the test releases it."""

    released = threading.Event()
    made: ClassVar[list[IntegerExecutor]] = []

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        progress("integers", 0, 1)
        cls.released.wait()
        self = super().load(WorkerConfig(), lambda what, done, total: None)
        cls.made.append(self)
        return self


class Poisoned(IntegerExecutor):
    """Takes its process along in each step that computes a prompt which begins with POISON."""

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        if any(ints(slot.token_ids)[0] == POISON for slot in batch.opened):
            os._exit(9)
        return super().submit(batch, drafts)


class Fails(IntegerExecutor):
    """Fails in its step number `step` as `how` says, once for each line that the file `left` holds."""

    how, at, left = "raise", 0, Path()

    @classmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        options = dict(config.executor_options)
        how, at, left = str(options.pop("how")), int(options.pop("step")), options.pop("left")
        plain = WorkerConfig(
            executor_options=options,
            max_model_len=config.max_model_len,
        )
        self = super().load(plain, progress)
        self.how, self.at, self.left = how, at, Path(str(left))
        return self

    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        lines = self.left.read_text().splitlines() if batch.step == self.at else []
        if lines:
            self.left.write_text("\n".join(lines[1:]))
            if self.how == "hang":
                threading.Event().wait()
            os.write(2, b"the device fell off the bus\n")
            if self.how == "raise":
                raise OSError("no device")
            os._exit(9)
        return super().submit(batch, drafts)
