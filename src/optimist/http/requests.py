"""From the bodies of the two generating routes to what the gateway is asked."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from optimist.http.bodies import ChatBody, CompletionBody, Sampled, Turn
from optimist.messages.client import ChatMessage, Generate
from optimist.messages.errors import InvalidRequest
from optimist.messages.params import SamplingParams

COMPLETION_TOKENS = 16
"""max_tokens of a completion that does not say, as in the OpenAI API"""
MAX_CHOICES = 128
"""prompts times n of one HTTP request"""

_PARAMS = (
    "temperature",
    "top_p",
    "n",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "repetition_penalty",
    "min_tokens",
    "ignore_eos",
)


class Job(NamedTuple):
    """One HTTP request as the engine sees it: a Generate for each prompt, with `n` choices each."""

    generates: tuple[Generate, ...]
    n: int
    stream: bool
    include_usage: bool
    chat: bool
    echo: bool = False


def completion_job(body: CompletionBody, request: str) -> Job:
    """Raises InvalidRequest naming the field that asks for too much or contradicts another."""
    max_tokens = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    if max_tokens == 0 and not body.echo:
        raise InvalidRequest("max_tokens: expected >= 1, or 0 with echo, got 0", field="max_tokens")
    scored = None
    if body.echo and (body.logprobs is not None or max_tokens == 0):
        scored = body.logprobs or 0
    params = _params(body, max_tokens=max_tokens, logprobs=body.logprobs, prompt_logprobs=scored)
    prompts = _prompts(body.prompt)
    if len(prompts) * params.n > MAX_CHOICES:
        raise InvalidRequest(
            f"prompt: expected at most {MAX_CHOICES} choices in all,"
            f" got {len(prompts)} prompts with n={params.n}",
            field="prompt",
        )
    generates = tuple(
        _generate(body, f"{request}-{at}", params, **prompt) for at, prompt in enumerate(prompts)
    )
    return Job(generates, params.n, *_streaming(body), chat=False, echo=bool(body.echo))


def chat_job(body: ChatBody, request: str) -> Job:
    """Raises InvalidRequest naming the field that asks for too much or contradicts another."""
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidRequest(
            "max_tokens: not together with max_completion_tokens", field="max_tokens"
        )
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest("top_logprobs: expected logprobs to be true", field="top_logprobs")
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    max_tokens = (
        body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    )
    try:
        params = _params(body, max_tokens=max_tokens, logprobs=logprobs)
    except InvalidRequest as error:
        raise _renamed(error, body) from None
    generate = _generate(body, f"{request}-0", params, messages=turns(body.messages))
    return Job((generate,), params.n, *_streaming(body), chat=True)


def turns(messages: list[Turn]) -> tuple[ChatMessage, ...]:
    """The conversation as the gateway takes it. Raises InvalidRequest for an empty one."""
    if not messages:
        raise InvalidRequest("messages: expected at least one message, got none", field="messages")
    return tuple(_turn(turn, at) for at, turn in enumerate(messages))


def _turn(turn: Turn, at: int) -> ChatMessage:
    if turn.content is None:
        where = f"messages[{at}].content"
        raise InvalidRequest(f"{where}: expected a text, got nothing", field=where)
    role = "system" if turn.role == "developer" else turn.role
    parts = turn.content
    text = parts if isinstance(parts, str) else "".join(part.text for part in parts)
    return ChatMessage(role=role, content=text)


def _prompts(prompt: str | list[str | int | list[int]]) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"prompt": prompt}]
    if not prompt:
        raise InvalidRequest("prompt: expected at least one, got an empty list", field="prompt")
    kind = type(prompt[0])
    for at, item in enumerate(prompt):
        if type(item) is not kind:
            where = f"prompt[{at}]"
            raise InvalidRequest(
                f"{where}: expected {kind.__name__} like the first item, got {type(item).__name__}",
                field=where,
            )
    if kind is int:
        return [{"prompt_ids": tuple(prompt)}]
    if kind is str:
        return [{"prompt": text} for text in prompt]
    return [{"prompt_ids": tuple(ids)} for ids in prompt if isinstance(ids, list)]


def _params(
    body: Sampled,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    prompt_logprobs: int | None = None,
) -> SamplingParams:
    given = {name: getattr(body, name) for name in _PARAMS if getattr(body, name) is not None}
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    stop_ids = tuple(body.stop_token_ids or ())
    return SamplingParams(
        max_tokens=max_tokens,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        stop=stop,
        stop_token_ids=stop_ids,
        logit_bias={_token(token): value for token, value in (body.logit_bias or {}).items()},
        **given,
    )


def _token(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,20}", text, re.ASCII):
        where = f"logit_bias.{text}"
        raise InvalidRequest(f"{where}: expected a token id, got {text!r}", field=where)
    return int(text)


def _renamed(error: InvalidRequest, body: ChatBody) -> InvalidRequest:
    """The same refusal under the name that the client used."""
    old = error.problem.field
    names = {"logprobs": "top_logprobs"}
    if body.max_completion_tokens is not None:
        names["max_tokens"] = "max_completion_tokens"
    if old is None or old not in names:
        return error
    text = str(error).replace(f"{old}: ", f"{names[old]}: ", 1)
    return InvalidRequest(text, field=names[old])


def _streaming(body: Sampled) -> tuple[bool, bool]:
    """Whether to stream, and whether to end with usage."""
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options: expected stream to be true", field="stream_options")
    usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    return bool(body.stream), usage


def _generate(body: Sampled, request: str, params: SamplingParams, **prompt: Any) -> Generate:
    return Generate(
        request=request,
        params=params,
        priority=body.priority or 0,
        deadline_ms=body.deadline_ms,
        cache_salt=body.cache_salt or "",
        trace=body.user or "",
        **prompt,
    )
