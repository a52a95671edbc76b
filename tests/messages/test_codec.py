"""The codec against hostile bytes: refused at once, in constant memory, and never with another error."""

from __future__ import annotations

import random
import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.messages.base import Message
from optimist.messages.client import ClientMessage, Generate, Ping
from optimist.messages.codec import (
    MAX_CLIENT_BYTES,
    MAX_CLIENT_DEPTH,
    Codec,
    check_depth,
    encode,
)
from optimist.messages.control import Beat
from optimist.messages.errors import MessageError, OptimistError
from optimist.messages.schema.directions import DIRECTIONS, members
from optimist.messages.schema.examples import examples

CLIENT: Codec[Message] = Codec(
    members(ClientMessage), max_bytes=MAX_CLIENT_BYTES, max_depth=MAX_CLIENT_DEPTH
)
CODECS: list[Codec[Message]] = [CLIENT, *(Codec(members(union)) for union in DIRECTIONS.values())]
HUGE = {
    "array32": b"\xdd\xff\xff\xff\xff",
    "map32": b"\xdf\xff\xff\xff\xff",
    "bin32": b"\xc6\xff\xff\xff\xff",
    "str32": b"\xdb\xff\xff\xff\xff",
    "ext32": b"\xc9\xff\xff\xff\xff\x01",
    "array16": b"\xdc\xff\xff",
    "map16": b"\xde\xff\xff",
    "ext8": b"\xc7\xff\x01",
    "fixext": b"\xd8\x01" + bytes(16),
    "timestamp": b"\xd6\xff" + bytes(4),
    "never used": b"\xc1",
    "nothing": b"",
}


def generate(**fields: bytes) -> bytes:
    """A Generate whose fields are raw msgpack."""
    encoded = {"type": msgspec.msgpack.encode("generate"), "request": b"\xa1r", **fields}
    body = b"".join(msgspec.msgpack.encode(key) + value for key, value in encoded.items())
    return bytes([0x80 + len(encoded)]) + body


@pytest.mark.parametrize("claim", HUGE)
def test_a_short_message_with_a_huge_claim_costs_nothing(claim: str) -> None:
    frames = [
        HUGE[claim],
        generate(prompt=HUGE[claim]),
        generate(prompt_ids=HUGE[claim]),
        generate(messages=HUGE[claim]),
        generate(params=HUGE[claim]),
    ]
    tracemalloc.start()
    for codec in CODECS:
        for frame in frames:
            with pytest.raises(MessageError):
                codec.decode(frame)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdd\0\0\0\1", b"\x81\x81"])
def test_deep_nesting_is_refused_without_recursion(opening: bytes) -> None:
    for codec in CODECS:
        for depth in (9, 100, 100_000):
            with pytest.raises(MessageError):
                codec.decode(opening * depth + b"\xc0")


def test_the_depth_that_is_allowed_is_allowed() -> None:
    check_depth(b"\x91" * 8 + b"\xc0", 8)
    with pytest.raises(MessageError, match="nested deeper than 8"):
        check_depth(b"\x91" * 9 + b"\xc0", 8)
    for example in examples():
        check_depth(encode(example), MAX_CLIENT_DEPTH)


def test_a_frame_over_the_limit_is_not_read() -> None:
    small: Codec[Ping] = Codec((Ping,), max_bytes=30)
    assert small.decode(encode(Ping(nonce=1))) == Ping(nonce=1)
    with pytest.raises(MessageError, match="frame: expected at most 30 bytes, got 31"):
        small.decode(bytes(31))


@given(frame=st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_a_message_error(frame: bytes) -> None:
    for codec in CODECS:
        with pytest.raises(MessageError):
            codec.decode(frame)


def test_flipped_bytes_are_decoded_or_refused_and_nothing_else() -> None:
    noise = random.Random(7)
    for example in examples():
        frame = encode(example)
        codec = Codec((type(example),), max_depth=16)
        for _ in range(300):
            hurt = bytearray(frame)
            hurt[noise.randrange(len(hurt))] = noise.randrange(256)
            try:
                again = codec.decode(hurt)
            except OptimistError:
                continue
            assert type(again) is type(example)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (generate(prompt=b"\xa1\xff"), "Invalid UTF-8"),
        (generate(prompt=b"\xc4\x01a"), "Expected `str | null`, got `bytes` - at `$.prompt`"),
        (generate(priority=b"\xcb" + struct.pack(">d", 1.5)), "Expected `int`, got `float`"),
        (generate(priority=b"\xcf" + b"\xff" * 8 + b"\xc0"), "bytes after"),
        (generate(want_text=b"\x01"), "Expected `bool`, got `int` - at `$.want_text`"),
        (generate(prompt_ids=b"\x91\xa11"), "Expected `int`, got `str` - at `$.prompt_ids[0]`"),
        (b"\x81\xa4type\xa4ping\xc0", "bytes after"),
        (b"\x81\x01\x02", "Expected `str`"),
        (b"\x90", "Expected `object`, got `array`"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(frame: bytes, reason: str) -> None:
    with pytest.raises(MessageError) as error:
        CLIENT.decode(frame)
    assert reason in str(error.value)


def test_a_key_given_twice_decides_nothing_that_is_not_checked() -> None:
    key = msgspec.msgpack.encode("type")
    two = b"\x82" + key + msgspec.msgpack.encode("ping") + key + msgspec.msgpack.encode("resume")
    with pytest.raises(MessageError, match="Invalid value 'resume'"):
        CLIENT.decode(two)
    twice = b"\x83" + key + msgspec.msgpack.encode("ping") + b"\xa5nonce\x01\xa5nonce\x02"
    assert CLIENT.decode(twice) == Ping(nonce=2)


def test_any_buffer_can_be_decoded() -> None:
    frame = encode(Generate(request="r", prompt="p"))
    buffers: list[bytes | bytearray | memoryview] = [frame, bytearray(frame), memoryview(frame)]
    for buffer in buffers:
        assert CLIENT.decode(buffer) == Generate(request="r", prompt="p")


def test_what_cannot_be_encoded_is_named() -> None:
    with pytest.raises(MessageError, match="Beat: can't serialize ints"):
        encode(Beat(incarnation=2**70, cell="a"))
    with pytest.raises(MessageError, match=r"Beat: .*surrogates not allowed"):
        encode(Beat(incarnation=1, cell="\ud800"))
    with pytest.raises(MessageError, match="at least one message class, got none"):
        Codec(())
