"""What the worker asks of a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from optimist.actors.config import WorkerConfig
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.control import SyncMode
from optimist.messages.results import Logprobs, PromptScores

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while weights load."""


Operator = Callable[..., Any]


class Limits(NamedTuple):
    """What the device can hold, fixed when it is ready: see Capacity."""

    num_blocks: int
    block_size: int
    max_slots: int
    max_model_len: int
    max_batch_tokens: int
    vocab_size: int
    max_prompt_tokens: int | None = None


class RowDrafts(NamedTuple):
    """Drafts from the host for the decode rows of one batch, in row order.

    counts: [D] int32, of each row at most what its batch has room for, and exactly that in an
    ExactBatch. ids: [sum(counts)] int32, each in the vocabulary.
    """

    counts: NDArray[np.int32]
    ids: NDArray[np.int32]


class Outcome(NamedTuple):
    """What one step produced, for the rows that sampled, in row order.

    slots, generations, drafts_run: [S] int32. token_counts: drafts accepted, and one more, [S] int32; 0
    where no token could be chosen, since logits were no numbers or let none in: the request fails.
    token_ids: [sum(token_counts)] int32.
    drafts_held: drafts that the device now holds for the next step of each row, [S] int32; None
    where drafts come from the host.
    prompt: of the rows that prefill and asked for it.
    """

    slots: NDArray[np.int32]
    generations: NDArray[np.int32]
    token_counts: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    drafts_run: NDArray[np.int32]
    logprobs: Logprobs | None
    drafts_held: NDArray[np.int32] | None = None
    prompt: PromptScores | None = None

    def copied(self) -> Self:
        """The same in arrays of its own."""
        arrays: dict[str, Any] = {
            name: value.copy()
            for name, value in self._asdict().items()
            if isinstance(value, np.ndarray)
        }
        return self._replace(**arrays)


class Ticket(Protocol):
    """A step that was submitted and whose tokens may not be readable yet."""

    def wait(self) -> Outcome:
        """Block until the tokens are readable. Called once, in order of submission, in any thread.

        The arrays of what it returns are the caller's until the next ticket is waited for.
        """
        ...


Prepared = Callable[[], Ticket]
"""Submits the step that it was made for."""


class Executor(ABC):
    """Runs batches on a device, in order. Called from one thread at a time.

    asynchronous: tickets may not be readable when `submit` returns. Only then does another thread
    wait for a ticket while this one submits.
    takes: the kinds of batch that it runs. operators: functions of it that are told of rows; the
    parameter for that says by its type which kinds of metadata they take. brought: more of them, known
    when it has been loaded, as of a proposer that it makes itself. An engine whose plans are of
    another kind refuses to start.
    It holds, per slot and on the device: computed tokens, token ids, last token, drafts and block
    table. Positions, lengths and slots of KV follow from them there.
    """

    asynchronous: bool = False
    takes: ClassVar[tuple[type[Batch], ...]] = (ExactBatch, OptimisticBatch)
    operators: ClassVar[tuple[Operator, ...]] = ()
    brought: tuple[Operator, ...] = ()
    limits: Limits

    @classmethod
    def operators_for(cls, config: WorkerConfig) -> tuple[Operator, ...]:
        """Its `operators`, and those that it chooses by config. Asked before `load`; raises what that raises."""
        return cls.operators

    @classmethod
    @abstractmethod
    def load(cls, config: WorkerConfig, progress: Progress) -> Self:
        """Read the model and allocate the cache. Raises ModelError or ConfigError before allocating."""

    @abstractmethod
    def submit(self, batch: Batch, drafts: RowDrafts | None = None) -> Ticket:
        """Enqueue a step. On a CPU it has been computed on return.

        drafts: what the host drafts for the decode rows. None: the device verifies what its own
        proposer left in the slots, at most `draft_counts` of each row, or nothing if it has none.
        A row samples at each of its drafts, up to the first that differs from its sample, and behind
        them; what follows a rejected draft is as if it had never been computed.
        """

    def prepare(self, batch: Batch, drafts: RowDrafts | None = None) -> Prepared:
        """Do for a step what needs no device, perhaps beside an earlier step; the call of what is
        returned does the rest of `submit`, and the `reset` before an epoch's first step.

        Called in the order of steps, in a thread of its own choice but one at a time.
        """

        def submit() -> Ticket:
            if batch.step == 0:
                self.reset()
            return self.submit(batch, drafts)

        return submit

    def announce(self, fd: int) -> bool:
        """Let the next submit write to an eventfd, once, when its step is under way. In the thread that submits.

        False: steps of this executor do not. One that raises need not have written.
        """
        return False

    def check_syncs(self, mode: SyncMode) -> None:  # noqa: B027 - most have nothing to do
        """Check for host reads of device data from the next `submit` on; see SyncCheck. From any thread.

        Here nothing happens: an executor that has no torch tensors has none that the host could read.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forget every slot: a new epoch begins, with a block table of version 0."""

    @abstractmethod
    def close(self) -> None:
        """Release the device."""
