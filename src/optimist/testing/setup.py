"""What a simulated engine is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from optimist.actors.builder.actor import Builder
from optimist.actors.config import BuilderConfig, DraftTokens, SchedulerConfig
from optimist.actors.proposer.actor import ProposerActor
from optimist.actors.scheduler.actor import Scheduler
from optimist.actors.worker.base import Executor, Limits
from optimist.testing.drafting import Texts, device_drafter, place_of, proposer_actor
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.late_device import LateDevice

_PROPOSERS = {"": "none", "host": "ngram", "device": "self-draft"}
"""what a scheduler is told of who drafts: the place is all that it wants to know"""


class Setup(NamedTuple):
    """How an engine is configured: the names are those of SchedulerConfig and Limits.

    lateness: of the device, in steps. checked: see IntegerExecutor. drafts: who drafts, see drafting; ""
    is nobody. texts: what would be right; a World brings it.
    """

    depth: int = 2
    max_chunk: int = 512
    max_batch_tokens: int = 2048
    max_waiting: int = 1024
    prefix_cache: bool = True
    num_blocks: int = 64
    block_size: int = 4
    max_slots: int = 8
    max_model_len: int = 64
    model: IntegerModel = IntegerModel()
    lateness: int = 1
    checked: bool = True
    drafts: str = ""
    draft_tokens: DraftTokens = 3
    texts: Texts | None = None

    @property
    def context_limit(self) -> int:
        """Tokens of one request: what the model or all blocks hold; the last one needs no KV."""
        return min(self.max_model_len, self.num_blocks * self.block_size + 1)

    def scheduler(self) -> SchedulerConfig:
        """The scheduler's part."""
        return SchedulerConfig(
            depth=self.depth,
            max_chunk=self.max_chunk,
            max_batch_tokens=self.max_batch_tokens,
            max_waiting=self.max_waiting,
            prefix_cache=self.prefix_cache,
            proposer=_PROPOSERS[place_of(self.drafts)],
            draft_tokens=self.draft_tokens if self.drafts else "auto",
        )

    def builder(self) -> BuilderConfig:
        """The builder's part."""
        return BuilderConfig(block_size=self.block_size)

    def limits(self) -> Limits:
        """What the device says it can hold."""
        return Limits(
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            max_slots=self.max_slots,
            max_model_len=self.max_model_len,
            max_batch_tokens=self.max_batch_tokens,
            vocab_size=self.model.vocab_size,
        )


def integer_device(setup: Setup, seed: int) -> Executor:
    """A late integer model."""
    drafter = None
    if place_of(setup.drafts) == "device" and setup.texts is not None:
        drafter = device_drafter(setup.drafts, setup.texts)
    inner = IntegerExecutor(setup.limits(), setup.model, checked=setup.checked, drafter=drafter)
    return LateDevice(inner, lateness=setup.lateness, seed=seed)


def host_proposer(setup: Setup, incarnation: int, **refs: Any) -> ProposerActor:
    """The proposer of a setup whose drafts come from the host."""
    assert setup.texts is not None
    return proposer_actor(setup.drafts, setup.texts, incarnation, **refs)


class Parts(NamedTuple):
    """Who plays which role. Anything with the same constructor may stand in.

    device: makes the executor of each life of the worker, from the setup and a seed. proposer: makes
    each life of the proposer, from the setup, an incarnation and addresses.
    """

    scheduler: Callable[..., Any] = Scheduler
    builder: Callable[..., Any] = Builder
    device: Callable[[Setup, int], Executor] = integer_device
    proposer: Callable[..., Any] = host_proposer


OURS = Parts()
