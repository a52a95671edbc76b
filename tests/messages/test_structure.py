"""What is true of every message class, present and future."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from optimist import messages
from optimist.messages.base import EMPTY, ActorMessage, Column, Floats, Message, Part, column
from optimist.messages.client import ClientMessage, ServerMessage
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import MessageError
from optimist.messages.schema.directions import every_message, members
from optimist.messages.schema.examples import examples

ROLES = "gateway|scheduler|builder|worker|proposer|supervisor|client|actor|child process"
SENTENCE = re.compile(rf"({ROLES}) to ({ROLES})\b|from an actor .* to the one", re.IGNORECASE)


def modules() -> list[Any]:
    """Every module of the room."""
    return [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(messages.__path__, "optimist.messages.")
        if not found.name.endswith("__main__")
    ]


def descendants(kind: type[Any]) -> Iterator[type[Any]]:
    """Every class below a class, at any depth."""
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def public(kind: type[Any]) -> list[type[Any]]:
    """The classes of the room below a class that are meant to be used."""
    modules()
    found = dict.fromkeys(descendants(kind))
    return [k for k in found if k.__module__.startswith("optimist.") and k.__name__[0] != "_"]


MESSAGES = [kind for kind in public(Message) if kind is not ActorMessage]
STRUCTS = [k for k in public(msgspec.Struct) if k.__module__.startswith("optimist.messages")]


def test_every_message_class_has_a_direction_and_one_example() -> None:
    assert set(MESSAGES) == set(every_message())
    assert sorted(type(m).__name__ for m in examples()) == sorted(k.__name__ for k in MESSAGES)


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_struct_is_frozen_strict_and_built_by_name(kind: type[Any]) -> None:
    config = kind.__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
    assert not config.array_like
    parameters = inspect.signature(kind).parameters.values()
    opaque = kind.__module__ == "optimist.messages.lengths"
    assert opaque or all(p.kind is p.KEYWORD_ONLY for p in parameters)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_is_tagged_with_its_own_name(kind: type[Any]) -> None:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    assert kind.__struct_config__.tag_field == "type"
    assert kind.__struct_config__.tag == snake


@pytest.mark.parametrize("kind", public(Part), ids=lambda kind: kind.__name__)
def test_no_part_has_a_tag(kind: type[Any]) -> None:
    assert kind.__struct_config__.tag is None


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_docstring_begins_with_sender_and_receiver(kind: type[Any]) -> None:
    first = " ".join((kind.__doc__ or "").split(".")[0].split())
    assert SENTENCE.search(first), f"{kind.__name__}: {first}"


def test_actors_say_which_life_they_speak_from_and_clients_do_not() -> None:
    protocol = {*members(ClientMessage), *members(ServerMessage)}
    for kind in MESSAGES:
        assert issubclass(kind, ActorMessage) is (kind not in protocol), kind
        assert ("incarnation" in kind.__struct_fields__) is (kind not in protocol), kind


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_the_example_fills_every_field(message: Message) -> None:
    defaults = [f for f in msgspec.structs.fields(message) if not f.required]
    for field in defaults:
        value = getattr(message, field.name)
        default = field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()
        assert encode_any(value) != encode_any(default), field.name


def encode_any(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def columns_of(struct: Any) -> Iterator[tuple[str, bool]]:
    """The names of a Struct's columns, and whether each holds integers."""
    hints = typing.get_type_hints(type(struct), include_extras=True)
    for name in struct.__struct_fields__:
        if hints[name] in (Column, Floats):
            yield name, hints[name] == Column


def parts_of(value: Any) -> Iterator[Any]:
    """A Struct and every Struct in it."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from parts_of(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)


PARTS = {type(part): part for message in examples() for part in parts_of(message)}
COLUMNS = [
    pytest.param(part, name, whole, id=f"{kind.__name__}.{name}")
    for kind, part in PARTS.items()
    if kind.__module__ != "optimist.messages.lengths"
    for name, whole in columns_of(part)
]


@pytest.mark.parametrize(("part", "name", "whole"), COLUMNS)
def test_no_column_is_cut_or_negative(part: Any, name: str, whole: bool) -> None:
    good = getattr(part, name)
    assert good != EMPTY
    for cut in (good[:-1], good + b"\0"):
        with pytest.raises(ValueError, match=r"int32|multiple of"):
            msgspec.structs.replace(part, **{name: cut})
    if whole:
        negative = column([-1] * (len(good) // 4))
        with pytest.raises(MessageError, match=r"expected .*, got"):
            msgspec.structs.replace(part, **{name: negative})


@pytest.mark.parametrize(("part", "name", "whole"), COLUMNS)
def test_columns_are_read_only_and_are_the_bytes_that_came(
    part: Any, name: str, whole: bool
) -> None:
    assert type(getattr(part, name)) is bytes


def test_a_frame_may_be_reused_once_it_is_decoded() -> None:
    for message in examples():
        buffer = bytearray(encode(message))
        decoded = Codec((type(message),)).decode(memoryview(buffer))
        before = encode(decoded)
        buffer[:] = bytes(len(buffer))
        assert encode(decoded) == before
