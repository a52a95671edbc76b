"""What answers look like: the OpenAI API's objects as plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from optimist.messages.client import PromptToken, TokenLogprob, Usage
from optimist.messages.errors import Problem, ProblemError

LEAST_LOGPROB = -9999.0
"""stands for minus infinity, which JSON cannot say"""

_TYPES = {
    "invalid_request": "invalid_request_error",
    "too_large": "invalid_request_error",
    "overloaded": "rate_limit_error",
    "deadline_exceeded": "timeout_error",
}


class Head(NamedTuple):
    """What every object of one answer repeats. kind: as in `object`, of the whole answer."""

    id: str
    kind: str
    created: int
    model: str

    def object(self, choices: list[dict[str, Any]], *, chunk: bool = False) -> dict[str, Any]:
        """An answer, or one chunk of it."""
        kind = f"{self.kind}.chunk" if chunk and self.kind == "chat.completion" else self.kind
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def to_json(value: Any) -> bytes:
    """Strict JSON."""
    return msgspec.json.encode(value)


def error_body(problem: Problem) -> dict[str, Any]:
    """The OpenAI API's error object."""
    return {
        "error": {
            "message": problem.message,
            "type": _TYPES.get(problem.code, "server_error"),
            "param": problem.field,
            "code": problem.code,
        }
    }


def error_headers(error: ProblemError) -> dict[str, str]:
    """Retry-After in whole seconds, where another try is worth it."""
    after = error.problem.retry_after
    if after is None and error.status != 429:
        return {}
    return {"retry-after": str(max(1, round(after or 1)))}


def usage_body(usages: Iterable[tuple[int, Usage]]) -> dict[str, Any]:
    """Usage of a whole answer. usages: (prompt, of one choice); each prompt is counted once."""
    firsts: dict[int, Usage] = {}
    completion = 0
    for prompt, usage in usages:
        completion += usage.completion_tokens
        firsts.setdefault(prompt, usage)
    total = sum(usage.prompt_tokens for usage in firsts.values())
    return {
        "prompt_tokens": total,
        "completion_tokens": completion,
        "total_tokens": total + completion,
        "prompt_tokens_details": {
            "cached_tokens": sum(usage.cached_tokens for usage in firsts.values())
        },
    }


Token = TokenLogprob | PromptToken


def completion_logprobs(tokens: Sequence[Token], offset: int) -> dict[str, Any]:
    """The four columns of /v1/completions. offset: characters of text before the first token.

    The first token of a prompt has null where the others have probabilities.
    """
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token.token)
    return {
        "tokens": [token.token for token in tokens],
        "token_logprobs": [_known(token.logprob) for token in tokens],
        "top_logprobs": [_likeliest(token) for token in tokens],
        "text_offset": offsets,
    }


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The list of /v1/chat/completions."""
    content = [
        _entry(token.token, token.logprob)
        | {"top_logprobs": [_entry(one.token, one.logprob) for one in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _likeliest(token: Token) -> dict[str, float] | None:
    """The alternatives and the token itself, by text: of those that share one, the likeliest counts."""
    if token.logprob is None:
        return None
    found = {token.token: _logprob(token.logprob)}
    for one in token.top:
        found[one.token] = max(_logprob(one.logprob), found.get(one.token, LEAST_LOGPROB))
    return found


def _known(value: float | None) -> float | None:
    return None if value is None else _logprob(value)


def _entry(token: str, logprob: float) -> dict[str, Any]:
    """One token. bytes is null where the token alone is not valid UTF-8."""
    exact = "\N{REPLACEMENT CHARACTER}" not in token
    data = list(token.encode()) if exact else None
    return {"token": token, "logprob": _logprob(logprob), "bytes": data}


def _logprob(value: float) -> float:
    return max(value, LEAST_LOGPROB)
