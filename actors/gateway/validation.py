"""What a request must keep to before the scheduler hears of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optimist.actors.gateway.prompts import check_encodable, check_prompt
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.base import Column, column
from optimist.messages.client import Generate
from optimist.messages.errors import InvalidRequest, TooLarge
from optimist.messages.params import SamplingParams
from optimist.messages.slots import Sampling

MAX_NAME = 256
"""characters of a name, key, salt or trace id"""
NO_LIMIT = 2**31 - 1


def check_request(generate: Generate, vocab_size: int) -> None:
    """Raise InvalidRequest, naming the field, for whatever is wrong before the prompt is encoded."""
    for field in ("request", "cache_salt", "resume_key", "trace"):
        _check_name(field, getattr(generate, field))
    check_prompt(generate)
    params = generate.params
    if params.stop and not generate.want_text:
        raise InvalidRequest(
            "stop: expected none, because want_text is false and stop strings are looked for in text;"
            " use stop_token_ids",
            field="stop",
        )
    _check_known("stop_token_ids", params.stop_token_ids, vocab_size)
    _check_known("logit_bias", params.logit_bias, vocab_size)
    if not -(2**31) <= generate.priority < 2**31:
        raise InvalidRequest(
            f"priority: expected an int32, got {generate.priority}", field="priority"
        )
    if generate.deadline_ms is not None and generate.deadline_ms < 1:
        raise InvalidRequest(
            f"deadline_ms: expected at least 1, got {generate.deadline_ms}", field="deadline_ms"
        )


def output_limit(params: SamplingParams, prompt_len: int, max_model_len: int | None) -> int:
    """How many tokens a continuation may have.

    The prompt must leave room for one. `max_tokens` is cut down to the room that is left, and
    `min_tokens` beyond that room is refused, because it could not be kept. Raises TooLarge or
    InvalidRequest. max_model_len: None while the worker has not said it; then nothing is cut.
    """
    if max_model_len is None:
        return NO_LIMIT if params.max_tokens is None else min(params.max_tokens, NO_LIMIT)
    room = max_model_len - prompt_len
    if room < 1:
        raise TooLarge(
            f"prompt: expected at most {max_model_len - 1} tokens, because the context has"
            f" {max_model_len}, got {prompt_len}",
            field="prompt",
        )
    if params.min_tokens > room:
        raise InvalidRequest(
            f"min_tokens: expected at most {room}, the room that a prompt of {prompt_len} tokens"
            f" leaves in a context of {max_model_len}, got {params.min_tokens}",
            field="min_tokens",
        )
    return room if params.max_tokens is None else min(params.max_tokens, room)


def stop_ids(params: SamplingParams, tokenizer: Tokenizer) -> Column:
    """The ids that end a continuation: the model's own, unless ignored, and the request's."""
    own = () if params.ignore_eos else tokenizer.eos_ids
    return column(sorted({*own, *params.stop_token_ids}))


def sampling(params: SamplingParams, seed: int, stops: Column) -> Sampling:
    """What the worker is told, for one continuation."""
    biases = sorted(params.logit_bias.items())
    return Sampling(
        temperature=params.temperature,
        seed=seed,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
        bias_ids=column([token for token, _ in biases]),
        bias_values=np.array([value for _, value in biases], "<f4").tobytes(),
        min_tokens=params.min_tokens,
        stop_ids=stops,
        logprobs=-1 if params.logprobs is None else params.logprobs,
        prompt_logprobs=-1 if params.prompt_logprobs is None else params.prompt_logprobs,
    )


def _check_name(field: str, text: str) -> None:
    if len(text) > MAX_NAME:
        raise InvalidRequest(
            f"{field}: expected at most {MAX_NAME} characters, got {len(text)}", field=field
        )
    check_encodable(field, text)


def _check_known(field: str, tokens: Iterable[int], vocab_size: int) -> None:
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise InvalidRequest(
                f"{field}: expected token ids in [0, {vocab_size}), got {token}",
                field=f"{field}.{token}" if field == "logit_bias" else field,
            )
