"""The bodies of requests. What each field does stands beside its type: docs/http.md is made from it.

Every optional field may be null, which is the same as leaving it out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


def _only(*values: object, why: str) -> Meta:
    """A field of the OpenAI API that we know but do not support: any other value is refused."""
    return Meta(description=why, extra={"only": values})


def _field(effect: str) -> Meta:
    return Meta(description=effect)


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Anything a client sends."""


class StreamOptions(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stream_options`"""

    include_usage: Annotated[
        bool | None, _field("one last chunk with usage and no choices; null in all others")
    ] = None
    include_obfuscation: Annotated[Any, _only(False, why="chunks are never padded")] = None


class TextPart(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a message. Only text is understood."""

    type: Literal["text"]
    text: str


class Turn(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item of `messages`"""

    role: Annotated[Literal["system", "developer", "user", "assistant"], _field("who speaks")]
    content: Annotated[
        str | list[TextPart] | None, _field("a text, or parts of type `text`; required")
    ] = None
    name: Annotated[Any, _only(why="templates do not show names")] = None
    refusal: Annotated[Any, _only(why="the model does not know refusals")] = None
    audio: Annotated[Any, _only(why="text only")] = None
    tool_calls: Annotated[Any, _only([], why="no tools")] = None
    function_call: Annotated[Any, _only(why="no tools")] = None


class Sampled(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both generating routes"""

    model: Annotated[str | None, _field("must be the served model; 404 otherwise")] = None
    stream: Annotated[bool | None, _field("server-sent events, ended by `[DONE]`")] = None
    stream_options: Annotated[StreamOptions | None, _field("only with `stream`")] = None
    temperature: Annotated[float | None, _field("0 is greedy")] = None
    top_p: Annotated[float | None, _field("nucleus; in (0, 1]")] = None
    n: Annotated[int | None, _field("choices for each prompt; the prompt is counted once")] = None
    seed: Annotated[int | None, _field("drawn and reported in each choice when absent")] = None
    stop: Annotated[str | list[str] | None, _field("ends the text and is not part of it")] = None
    presence_penalty: Annotated[float | None, _field("in [-2, 2]")] = None
    frequency_penalty: Annotated[float | None, _field("in [-2, 2]")] = None
    logit_bias: Annotated[dict[str, float] | None, _field("token id to [-100, 100]")] = None
    user: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        _field("the trace id of the request inside the engine"),
    ] = None

    top_k: Annotated[int | None, _field("extension: only so many likeliest tokens")] = None
    min_p: Annotated[float | None, _field("extension: a share of the likeliest token")] = None
    repetition_penalty: Annotated[float | None, _field("extension: in (0, 100]")] = None
    min_tokens: Annotated[int | None, _field("extension: no end before so many tokens")] = None
    ignore_eos: Annotated[bool | None, _field("extension: goes on after the end token")] = None
    stop_token_ids: Annotated[list[int] | None, _field("extension: more end tokens")] = None
    priority: Annotated[
        Annotated[int, Meta(ge=-1000, le=1000)] | None,
        _field("extension: smaller runs earlier; in [-1000, 1000]"),
    ] = None
    deadline_ms: Annotated[
        Annotated[int, Meta(ge=1, le=86_400_000)] | None,
        _field("extension: 504 when it is not done by then; at most a day"),
    ] = None
    cache_salt: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        _field("extension: shares cached prefixes only within the same salt"),
    ] = None


class CompletionBody(Sampled, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/completions"""

    prompt: Annotated[
        str | list[str | int | list[int]], _field("a text, token ids, or a list of either")
    ]
    max_tokens: Annotated[int | None, _field("16 when absent; 0 only with `echo`")] = None
    logprobs: Annotated[int | None, _field("alternatives beside each token, 0 to 20")] = None
    echo: Annotated[
        bool | None,
        _field("the prompt before the text; with `logprobs`, its tokens before the others"),
    ] = None
    best_of: Annotated[Any, _only(1, why="choices are not ranked: use `n`")] = None
    suffix: Annotated[Any, _only("", why="no infilling")] = None


class ChatBody(Sampled, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /v1/chat/completions"""

    messages: Annotated[
        list[Turn], _field("texts of system, developer (as system), user and assistant")
    ]
    max_completion_tokens: Annotated[
        int | None, _field("as many as the context allows when absent")
    ] = None
    max_tokens: Annotated[int | None, _field("the old name of `max_completion_tokens`")] = None
    logprobs: Annotated[bool | None, _field("reports the probability of each token")] = None
    top_logprobs: Annotated[int | None, _field("0 to 20; only with `logprobs`")] = None
    response_format: Annotated[Any, _only({"type": "text"}, why="no grammars yet")] = None
    tools: Annotated[Any, _only([], why="no tools")] = None
    tool_choice: Annotated[Any, _only("none", "auto", why="no tools")] = None
    parallel_tool_calls: Annotated[Any, _only(True, False, why="no tools")] = None
    functions: Annotated[Any, _only([], why="no tools")] = None
    function_call: Annotated[Any, _only("none", "auto", why="no tools")] = None
    modalities: Annotated[Any, _only(["text"], why="text only")] = None
    audio: Annotated[Any, _only(why="text only")] = None
    prediction: Annotated[Any, _only(why="no predicted outputs")] = None
    reasoning_effort: Annotated[Any, _only("none", why="the model does not reason apart")] = None
    verbosity: Annotated[Any, _only("medium", why="the model has no such control")] = None
    service_tier: Annotated[Any, _only("auto", "default", why="there is one tier")] = None
    store: Annotated[Any, _only(False, why="nothing is stored")] = None
    metadata: Annotated[Any, _only({}, why="nothing is stored")] = None
    moderation: Annotated[Any, _only(why="no moderation")] = None
    web_search_options: Annotated[Any, _only(why="nothing is searched")] = None
    safety_identifier: Annotated[Any, _only(why="nobody is tracked: use `user`")] = None
    prompt_cache_key: Annotated[Any, _only(why="use `cache_salt` to keep prefixes apart")] = None
    prompt_cache_retention: Annotated[Any, _only(why="prefixes stay while there is room")] = None
    prompt_cache_options: Annotated[Any, _only(why="prefixes stay while there is room")] = None
    chat_template: Annotated[Any, _only(why="only the model's own template runs")] = None
    chat_template_kwargs: Annotated[Any, _only({}, why="the template takes nothing else")] = None


class TokenizeBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /tokenize"""

    model: Annotated[str | None, _field("must be the served model; 404 otherwise")] = None
    prompt: Annotated[str | None, _field("a text; exactly one of prompt and messages")] = None
    messages: Annotated[list[Turn] | None, _field("a conversation, through the template")] = None


class DetokenizeBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """POST /detokenize"""

    model: Annotated[str | None, _field("must be the served model; 404 otherwise")] = None
    tokens: Annotated[list[int], _field("token ids")]
