"""From what a request says to the token ids of its prompt."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.client import ChatMessage, Generate
from optimist.messages.errors import InvalidRequest

MAX_PROMPT_CHARACTERS = 4 * 2**20
MAX_CHAT_MESSAGES = 4096
QUICK_CHARACTERS = 4096
"""a text no longer than this is tokenised on the loop; anything else elsewhere"""


def check_prompt(generate: Generate) -> None:
    """Raise InvalidRequest unless exactly one kind of prompt is given and it is neither empty nor huge."""
    given = [
        name for name in ("prompt", "prompt_ids", "messages") if getattr(generate, name) is not None
    ]
    if len(given) != 1:
        raise InvalidRequest(
            "expected exactly one of prompt, prompt_ids and messages, got "
            + (" and ".join(given) or "none"),
            field=given[-1] if given else "prompt",
        )
    if len(getattr(generate, given[0])) == 0:
        raise InvalidRequest(f"{given[0]}: expected a prompt, got an empty one", field=given[0])
    if generate.prompt is not None:
        _check_text("prompt", generate.prompt)
    if generate.messages is not None:
        _check_messages(generate.messages)


def is_quick(generate: Generate) -> bool:
    """Whether encoding takes so little time that it may be done on the loop."""
    return generate.prompt_ids is not None or (
        generate.prompt is not None and len(generate.prompt) <= QUICK_CHARACTERS
    )


def encode_prompt(generate: Generate, tokenizer: Tokenizer) -> list[int]:
    """The prompt's token ids, at least one. Raises InvalidRequest, naming the field.

    May run in a thread. Call check_prompt before.
    """
    if generate.prompt_ids is not None:
        return checked_ids(generate.prompt_ids, tokenizer.vocab_size)
    if generate.prompt is not None:
        field, ids = "prompt", tokenizer.encode(generate.prompt)
    else:
        field, ids = "messages", _encode_chat(generate.messages or (), tokenizer)
    if not ids:
        raise InvalidRequest(f"{field}: expected a prompt, got one without any token", field=field)
    return ids


def checked_ids(ids: Sequence[int], vocab_size: int) -> list[int]:
    """The ids as a list. Raises InvalidRequest, naming the first that is not in the vocabulary."""
    values = list(ids)
    for at, value in enumerate(values):
        if type(value) is not int or not 0 <= value < vocab_size:
            raise InvalidRequest(
                f"prompt_ids[{at}]: expected a token id in [0, {vocab_size}), got {value!r}",
                field=f"prompt_ids[{at}]",
            )
    return values


def check_encodable(field: str, text: str) -> None:
    """Raise InvalidRequest when the text holds half of a surrogate pair, which has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{field}: expected valid Unicode, got an unpaired surrogate at character {error.start}",
            field=field,
        ) from None


def _check_text(field: str, text: str) -> None:
    if len(text) > MAX_PROMPT_CHARACTERS:
        raise InvalidRequest(
            f"{field}: expected at most {MAX_PROMPT_CHARACTERS} characters, got {len(text)}",
            field=field,
        )
    check_encodable(field, text)


def _check_messages(messages: tuple[ChatMessage, ...]) -> None:
    if len(messages) > MAX_CHAT_MESSAGES:
        raise InvalidRequest(
            f"messages: expected at most {MAX_CHAT_MESSAGES}, got {len(messages)}",
            field="messages",
        )
    for at, message in enumerate(messages):
        check_encodable(f"messages[{at}].role", message.role)
        check_encodable(f"messages[{at}].content", message.content)
    total = sum(len(message.role) + len(message.content) for message in messages)
    if total > MAX_PROMPT_CHARACTERS:
        raise InvalidRequest(
            f"messages: expected at most {MAX_PROMPT_CHARACTERS} characters in all, got {total}",
            field="messages",
        )


def _encode_chat(messages: tuple[ChatMessage, ...], tokenizer: Tokenizer) -> list[int]:
    try:
        return tokenizer.encode_chat(
            [{"role": message.role, "content": message.content} for message in messages]
        )
    except ValueError as error:
        raise InvalidRequest(f"messages: {error}", field="messages") from error
