"""One example of each message, every field filled: the source of the golden bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimist.messages.base import Message, column
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.control import (
    Beat,
    Drain,
    Drained,
    Dropped,
    Fault,
    Hello,
    Progress,
    Ready,
    Restarted,
    Resync,
    Start,
    Stop,
    SyncCheck,
)
from optimist.messages.drafting import Accepted, Close, Drafts, Open, Rehearsed
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.requests import (
    Admit,
    Cancel,
    Grant,
    Placed,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.messages.results import Capacity, Logprobs, PromptScores, StepResult
from optimist.messages.schema.client_examples import CLIENT_EXAMPLES, PROBLEM
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling


def _floats(*values: float) -> bytes:
    return np.asarray(values, "<f4").tobytes()


_SAMPLING = Sampling(
    temperature=0.75,
    seed=-7,
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    presence_penalty=0.5,
    frequency_penalty=0.25,
    repetition_penalty=1.5,
    bias_ids=column([3, 4]),
    bias_values=_floats(1.5, -2.5),
    min_tokens=2,
    stop_ids=column([2]),
    logprobs=2,
    prompt_logprobs=1,
)
_LOGPROBS = Logprobs(
    tokens=column([0, 2]),
    chosen=_floats(-0.5, -1.5),
    ranks=column([0, 3]),
    counts=column([1, 2]),
    top_ids=column([5, 6, 7]),
    top_values=_floats(-0.5, -0.75, -1.0),
)
_OPENED = OpenedSlot(
    slot=1,
    generation=2,
    request=3,
    token_ids=column([10, 11, 12]),
    prompt_len=2,
    cached_len=1,
    sampling=_SAMPLING,
    trace="t1",
)
_BLOCKS = BlockDelta(
    version=6,
    slots=column([0, 1]),
    offsets=column([2, 0]),
    counts=column([1, 2]),
    blocks=column([9, 4, 5]),
)
_PREFILL = PrefillRows(
    slots=column([1]),
    generations=column([2]),
    starts=column([16]),
    seq_lens=ExactSeqLens.of([20]),
    samples=column([1]),
)
_PLANNED: dict[str, Any] = {
    "incarnation": 2,
    "epoch": 4,
    "step": 5,
    "opened": (_OPENED,),
    "closed": column([2]),
    "blocks": _BLOCKS,
}
_DECODE: dict[str, Any] = {
    "prefill": _PREFILL,
    "decode_slots": column([0]),
    "decode_generations": column([3]),
    "draft_counts": column([2]),
}
_ROWS: dict[str, Any] = {
    **_PLANNED,
    "slots": column([0, 1]),
    "generations": column([3, 2]),
    "num_decodes": 1,
    "draft_counts": column([2]),
    "max_query_len": 4,
    "max_blocks": 3,
}
_AFTER: dict[str, Any] = {
    "incarnation": 3,
    "epoch": 4,
    "after_step": 5,
    "slots": column([0, 1]),
    "generations": column([3, 2]),
    "counts": column([2, 1]),
    "token_ids": column([7, 8, 9]),
}

_REQUESTS: tuple[Message, ...] = (
    Admit(
        incarnation=1,
        request=3,
        prompt_ids=column([10, 11]),
        emitted_ids=column([12]),
        max_tokens=8,
        sampling=_SAMPLING,
        stop_ids=column([2]),
        priority=-1,
        deadline=12.5,
        cache_salt="salt",
        use_cache=False,
        credit=64,
        trace="t1",
        strikes=1,
    ),
    Cancel(incarnation=1, request=3, keep=1),
    Grant(incarnation=1, request=3, credit=16),
    Placed(incarnation=2, request=3, waits=True, alone=True, strikes=1),
    Scored(incarnation=2, request=3, first=1, logprobs=_LOGPROBS),
    Tokens(
        incarnation=2,
        request=3,
        index=1,
        token_ids=column([7, 8, 9]),
        logprobs=_LOGPROBS,
        cached_len=1,
        drafted=4,
        accepted=2,
        finish="length",
    ),
    Retired(incarnation=2, request=3, problem=PROBLEM),
    SchedulerStats(
        incarnation=2,
        waiting=1,
        running=2,
        free_blocks=3,
        num_blocks=4,
        steps=5,
        preemptions=6,
        prompt_tokens=7,
        cached_tokens=8,
        emitted_tokens=9,
        wasted_tokens=10,
        last_step_at=11.5,
        max_model_len=2048,
        proposer="ngram",
        draft_rows=12,
        drafted_tokens=13,
        accepted_tokens=14,
        accepted_at=(9, 5),
        step_us=15,
        gap_us=16,
        batch_us=17,
        drafts_us=18,
        steps_ahead=19,
    ),
)

_STEPS: tuple[Message, ...] = (
    ExactPlan(
        **_PLANNED,
        **_DECODE,
        decode_lens=ExactSeqLens.of([30]),
        drafts_wanted=column([3, 0]),
    ),
    OptimisticPlan(**_PLANNED, **_DECODE, decode_bound=SeqLensUpperBound.of([33])),
    ExactBatch(
        **_ROWS,
        query_start_loc=column([0, 3, 7]),
        seq_lens=ExactSeqLens.of([30, 20]),
        samples=column([1, 0]),
        drafts_wanted=column([3, 0]),
    ),
    OptimisticBatch(**_ROWS, bound=SeqLensUpperBound.of([33]), prefill=_PREFILL),
    StepResult(
        incarnation=3,
        epoch=4,
        step=5,
        slots=column([0, 1]),
        generations=column([3, 2]),
        token_counts=column([2, 1]),
        token_ids=column([7, 8, 9]),
        drafts_run=column([2, 0]),
        drafts_held=column([2, 0]),
        logprobs=_LOGPROBS,
        prompt=PromptScores(
            slots=column([1]),
            generations=column([2]),
            firsts=column([17]),
            counts=column([2]),
            logprobs=_LOGPROBS,
        ),
        step_us=1500,
        gap_us=30,
        batch_us=20,
        drafts_us=10,
    ),
    Capacity(
        incarnation=3,
        num_blocks=100,
        block_size=16,
        max_slots=8,
        max_model_len=2048,
        max_batch_tokens=256,
        vocab_size=512,
        max_prompt_tokens=248,
    ),
    Open(
        incarnation=2,
        epoch=4,
        step=5,
        slot=1,
        generation=2,
        token_ids=column([10, 11]),
        cache_salt="salt",
        use_cache=False,
    ),
    Close(incarnation=2, slot=1, generation=2),
    Accepted(**_AFTER, starts=column([20, 30]), wanted=column([2, 0])),
    Drafts(**_AFTER),
    Rehearsed(
        incarnation=2,
        epoch=4,
        slots=column([1, 3]),
        generations=column([2, 0]),
        asked=column([9, 16]),
        offered=column([7, 0]),
        drafted=column([12, 0]),
        accepted=column([7, 0]),
    ),
)

_CONTROL: tuple[Message, ...] = (
    Hello(incarnation=3, cell="worker", pid=4321),
    Start(
        incarnation=0,
        actors=("worker",),
        life=3,
        directory="/run/optimist",
        config=b"{}",
        path=("/plugins",),
    ),
    Ready(incarnation=3, actor="worker", detail="toy"),
    Progress(incarnation=3, actor="worker", what="weights", done=1, total=2),
    Beat(incarnation=3, cell="worker", dropped={"worker": 3}),
    Drain(incarnation=0),
    Drained(incarnation=3),
    Stop(incarnation=0),
    Fault(incarnation=3, actor="worker", reason="exit 1", kind="ModelError", final=True),
    Restarted(incarnation=0, actor="worker"),
    Dropped(incarnation=0, actor="worker", frames=3),
    SyncCheck(incarnation=0, mode="warn"),
    Resync(incarnation=3, actor="worker", epoch=4, step=5),
)


def examples() -> tuple[Message, ...]:
    """One of each message class."""
    return (*CLIENT_EXAMPLES, *_REQUESTS, *_STEPS, *_CONTROL)
