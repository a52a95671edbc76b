"""One example of each message of the client protocol, every field filled."""

from __future__ import annotations

from optimist.messages.base import Message
from optimist.messages.client import (
    Alternative,
    CancelRequest,
    ChatMessage,
    ClientHello,
    Delta,
    Failed,
    Finished,
    Generate,
    Ping,
    Pong,
    PromptLogprobs,
    PromptToken,
    Resume,
    ServerHello,
    Stats,
    StatsRequest,
    TokenLogprob,
    Usage,
)
from optimist.messages.errors import Problem
from optimist.messages.params import SamplingParams

PROBLEM = Problem(code="overloaded", message="the queue is full", field="prompt", retry_after=0.5)

CLIENT_EXAMPLES: tuple[Message, ...] = (
    ClientHello(version=1, client="example 1.0"),
    Generate(
        request="r1",
        prompt="once",
        prompt_ids=(1, 2),
        messages=(ChatMessage(role="user", content="hello"),),
        params=SamplingParams(
            max_tokens=8, temperature=0.5, seed=1, stop=("end",), logit_bias={3: -1.5}
        ),
        want_text=False,
        priority=-1,
        deadline_ms=1000,
        cache_salt="salt",
        resume_key="key",
        trace="t1",
    ),
    CancelRequest(request="r1"),
    Resume(request="r1", resume_key="key", next_index=5),
    StatsRequest(),
    Ping(nonce=9),
    ServerHello(
        version=1,
        versions=(1,),
        server="optimist",
        model="toy",
        max_model_len=2048,
        vocab_size=512,
    ),
    Delta(
        request="r1",
        choice=1,
        index=2,
        token_ids=(7, 8),
        text="upon",
        logprobs=(
            TokenLogprob(
                id=7, token="u", logprob=-0.5, top=(Alternative(id=8, token="p", logprob=-1.0),)
            ),
        ),
    ),
    PromptLogprobs(
        request="r1",
        choice=1,
        tokens=(
            PromptToken(id=1, token="Once", logprob=None),
            PromptToken(
                id=2,
                token=" ",
                logprob=-0.5,
                top=(Alternative(id=3, token="\n", logprob=-2.0),),
            ),
        ),
    ),
    Finished(
        request="r1",
        choice=1,
        finish_reason="stop",
        stop="end",
        text="a time",
        usage=Usage(prompt_tokens=4, completion_tokens=3, cached_tokens=2),
        seed=-7,
    ),
    Failed(request="r1", problem=PROBLEM),
    Stats(waiting=1, running=2, free_blocks=3, num_blocks=4, steps=5, healthy=True),
    Pong(nonce=9),
)
