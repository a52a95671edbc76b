"""Requests on their way between gateway and scheduler."""

from __future__ import annotations

from typing import ClassVar, Literal

from optimist.messages.base import ActorMessage, Column, check_non_negative
from optimist.messages.errors import Problem
from optimist.messages.results import Logprobs
from optimist.messages.slots import Sampling

FinishReason = Literal["stop", "length", "cancelled"]


class Admit(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to scheduler, for a new request and again for each live one after a Resync.

    request: unique over all gateway incarnations. credit: how many tokens may be sent before a Grant.
    emitted_ids: tokens already delivered to the client, [E]; the request continues behind them.
    deadline: seconds of the host's monotonic clock, after which it is not worth computing.
    priority: smaller runs earlier. cache_salt: requests share cached prefixes, and texts that a proposer
    remembers, only within one salt. use_cache: False shares neither.
    stop_ids: end the request when chosen (the last token is delivered), [S].
    max_tokens: 0 for one that only wants the log-probabilities of its prompt.
    strikes: worker deaths that it was in, as far as the gateway knows.
    """

    request: int
    prompt_ids: Column
    emitted_ids: Column = b""
    max_tokens: int
    sampling: Sampling
    stop_ids: Column = b""
    priority: int = 0
    deadline: float | None = None
    cache_salt: str = ""
    use_cache: bool = True
    credit: int
    trace: str = ""
    strikes: int = 0

    def __post_init__(self) -> None:
        check_non_negative(
            "Admit",
            {
                "prompt_ids": self.prompt_ids,
                "emitted_ids": self.emitted_ids,
                "stop_ids": self.stop_ids,
            },
        )


class Grant(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to scheduler, when a client has taken tokens: so many more may be sent."""

    request: int
    credit: int


class Cancel(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Gateway to scheduler, when a client left, or a stop string was found in the text.

    keep: emitted tokens that stand; KV of later ones is dropped and never cached. None keeps all.
    """

    urgent: ClassVar[bool] = True

    request: int
    keep: int | None = None


class Tokens(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to gateway, when tokens of a request have settled, within the request's credit.

    index: number of the first token among the request's emitted ones. Repeats are dropped, a gap is
    refused. cached_len: prompt tokens that came from the prefix cache at the first admission.
    drafted, accepted: drafts of the request that were verified so far, and that were right.
    finish: set on the last one of the request.
    """

    request: int
    index: int
    token_ids: Column
    logprobs: Logprobs | None = None
    cached_len: int = 0
    drafted: int = 0
    accepted: int = 0
    finish: FinishReason | None = None

    def __post_init__(self) -> None:
        ids = self.token_ids
        # Hundreds of these are made a step: what is wrong is looked for only where something is.
        if len(ids) % 4 or not ids[3::4].isascii():
            check_non_negative("Tokens", {"token_ids": ids})


class Placed(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to gateway, ahead of the first step that a request is in, and when it has to wait again.

    So the gateway knows who was in a step when worker and scheduler die together. waits: it is in no step.
    alone: nobody else is in one, until the next of these messages. strikes: worker deaths that it was in,
    so that no later life of the scheduler counts from 0.
    """

    request: int
    waits: bool = False
    alone: bool = False
    strikes: int = 0


class Scored(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to gateway, when log-probabilities of prompt tokens have settled; before all Tokens.

    first: number of the first such token in the prompt, >= 1: the first of all has none. Repeats are
    dropped, a gap is refused. logprobs: of this token and those behind it; every one is listed.
    """

    request: int
    first: int
    logprobs: Logprobs


class Retired(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to gateway, when a request ends otherwise than by its own tokens.

    problem: why it was refused or failed; None after a Cancel.
    """

    request: int
    problem: Problem | None = None


class SchedulerStats(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to gateway, after steps, at most a few times a second; a newer one replaces an older.

    last_step_at: seconds of the host's monotonic clock when a step last settled.
    draft_rows: decode rows that ran with at least one draft. drafted_tokens, accepted_tokens: their drafts,
        and those that were right; accepted_at: of these, the first of its row, the second, and so on.
    proposer: who makes them, by name.
    step_us, gap_us, batch_us, drafts_us: of all steps, see StepResult. steps_ahead: steps whose batch was
        there before the device was free.
    """

    waiting: int
    running: int
    free_blocks: int
    num_blocks: int
    steps: int
    preemptions: int
    prompt_tokens: int
    cached_tokens: int
    emitted_tokens: int
    wasted_tokens: int
    last_step_at: float
    max_model_len: int
    proposer: str = "none"
    draft_rows: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_at: tuple[int, ...] = ()
    step_us: int = 0
    gap_us: int = 0
    batch_us: int = 0
    drafts_us: int = 0
    steps_ahead: int = 0
