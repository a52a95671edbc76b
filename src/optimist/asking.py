"""From what Python users write to a Generate."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from optimist.messages.client import ChatMessage, Generate
from optimist.messages.errors import InvalidRequest
from optimist.messages.params import SamplingParams
from optimist.plain_words import plain_words

Prompt = str | Sequence[int] | Sequence[ChatMessage] | Sequence[Mapping[str, str]]
"""A text, token ids, or the messages of a chat."""

T = TypeVar("T")


class Options(TypedDict, total=False):
    """What may be said of a request besides prompt and parameters.

    want_text: False delivers token ids only. priority: smaller runs earlier. deadline_ms: from now.
    cache_salt: requests share cached prefixes, and texts that a proposer
    remembers, only within one salt. trace: an id for logs.
    """

    want_text: bool
    priority: int
    deadline_ms: int | None
    cache_salt: str
    trace: str


def ask(
    prompt: Prompt, params: SamplingParams | None, request: str = "", **options: Unpack[Options]
) -> Generate:
    """The request as a message, every value of its field's type. Raises InvalidRequest by field."""
    _check_names(options)
    kind, value = _prompt(prompt)
    checked = SamplingParams() if params is None else _params(params)
    return _convert({"request": request, kind: value, "params": checked, **options}, Generate)


def _check_names(options: Mapping[str, object]) -> None:
    known = list(Options.__annotations__)
    for name in options:
        if name in SamplingParams.__struct_fields__:
            why = f"give it as SamplingParams({name}=...)"
        elif near := difflib.get_close_matches(name, known, n=1):
            why = f"the nearest is {near[0]}"
        else:
            why = f"expected one of {', '.join(known)}"
        if name not in known:
            raise InvalidRequest(f"{name}: no such option of a request; {why}", field=name)


def _prompt(prompt: Prompt) -> tuple[str, str | tuple[Any, ...]]:
    if isinstance(prompt, str):
        return "prompt", prompt
    if isinstance(prompt, bytes | Mapping) or not hasattr(prompt, "__iter__"):
        raise InvalidRequest(
            f"prompt: expected a text, token ids or chat messages, got {type(prompt).__name__}",
            field="prompt",
        )
    items: list[Any] = list(prompt)
    if items and isinstance(items[0], ChatMessage | Mapping):
        return "messages", tuple(_message(at, item) for at, item in enumerate(items))
    return "prompt_ids", tuple(_token(at, item) for at, item in enumerate(items))


def _message(at: int, item: object) -> ChatMessage:
    if isinstance(item, Mapping):
        return _convert(dict(item), ChatMessage, f"messages[{at}]")
    if isinstance(item, ChatMessage):
        return item
    raise InvalidRequest(
        f"messages[{at}]: expected a message, got {type(item).__name__}", field=f"messages[{at}]"
    )


def _token(at: int, item: object) -> int:
    try:
        if not isinstance(item, bool):
            return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise InvalidRequest(
        f"prompt_ids[{at}]: expected a token id, got {item!r}", field=f"prompt_ids[{at}]"
    )


def _params(params: SamplingParams) -> SamplingParams:
    if not isinstance(params, SamplingParams):
        raise InvalidRequest(
            f"params: expected SamplingParams, got {type(params).__name__}", field="params"
        )
    return _convert(msgspec.structs.asdict(params), SamplingParams, "params")


def _convert(value: dict[str, Any], kind: type[T], where: str = "") -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        field = field_at(str(error))
        named = ".".join(part for part in (where, field) if part)
        reason = plain_words(str(error))
        raise InvalidRequest(
            f"{named}: {reason}" if named else reason, field=named or None
        ) from None


def field_at(error: str) -> str | None:
    """The field that a decoding error speaks of: `prompt_ids`, or `stop` for one inside params."""
    path = re.search(r"at (?:`key` in )?`\$\.?([^`]*)`", error)
    unknown = re.search(r"(?:unknown|missing required) field `([^`]+)`", error)
    found = ".".join(match[1] for match in (path, unknown) if match and match[1])
    return found.replace("[...]", "").removeprefix("params.") or None
