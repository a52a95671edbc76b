"""Every message survives the wire, byte for byte, and is refused when a byte of it is missing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_strategies import messages

from optimist.messages.base import Message
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import MessageError
from optimist.messages.schema.directions import DIRECTIONS, every_message, members
from optimist.messages.schema.examples import examples

CODECS = {name: Codec(members(union)) for name, union in DIRECTIONS.items()}


def codec_for(kind: type[Message]) -> Codec[Message]:
    """The decoder of a direction that the message travels in."""
    return next(codec for codec in CODECS.values() if kind in codec.accepts)


@pytest.mark.parametrize("kind", every_message(), ids=lambda kind: kind.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_any_message_comes_back_as_it_was_sent(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    frame = encode(message)
    again = codec_for(kind).decode(frame)
    assert type(again) is kind
    assert encode(again) == frame


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_a_cut_message_is_refused_at_every_byte(message: Message) -> None:
    frame, codec = encode(message), codec_for(type(message))
    for end in range(len(frame)):
        with pytest.raises(MessageError):
            codec.decode(frame[:end])
    with pytest.raises(MessageError):
        codec.decode(frame + b"\x00")


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_an_unknown_or_missing_field_is_refused_by_name(message: Message) -> None:
    codec = codec_for(type(message))
    fields = msgspec.msgpack.decode(encode(message))
    with pytest.raises(MessageError, match="unknown field `smuggled`"):
        codec.decode(msgspec.msgpack.encode({**fields, "smuggled": 1}))
    for field in msgspec.structs.fields(message):
        if field.required:
            rest = {key: value for key, value in fields.items() if key != field.encode_name}
            with pytest.raises(MessageError, match=f"missing required field `{field.name}`"):
                codec.decode(msgspec.msgpack.encode(rest))


@pytest.mark.parametrize("message", examples(), ids=lambda message: type(message).__name__)
def test_a_field_of_another_type_is_refused_with_its_path(message: Message) -> None:
    codec = codec_for(type(message))
    fields = msgspec.msgpack.decode(encode(message))
    for name in fields:
        wrong = {**fields, name: {"no such": "thing"}}
        with pytest.raises(MessageError, match=r"Expected|unknown field|Invalid value|missing"):
            codec.decode(msgspec.msgpack.encode(wrong))


def test_a_message_of_another_direction_is_refused() -> None:
    for codec in CODECS.values():
        for message in examples():
            if type(message) in codec.accepts:
                assert type(codec.decode(encode(message))) is type(message)
            else:
                with pytest.raises(MessageError, match="Invalid value"):
                    codec.decode(encode(message))
