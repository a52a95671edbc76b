"""Sampling parameters: each out-of-range value is refused with the name of its field."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from optimist.messages.client import ClientMessage, Generate
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import InvalidRequest, MessageError
from optimist.messages.params import MAX_LOGPROBS, MAX_N, MAX_STOPS, SamplingParams
from optimist.messages.schema.directions import members

LIMITS: dict[str, tuple[list[Any], list[Any]]] = {
    "max_tokens": ([None, 1, 2**31], [0, -1]),
    "prompt_logprobs": ([None, 0, 20], [-1, 21]),
    "temperature": ([0.0, 100.0], [-0.01, 100.1, math.nan, math.inf]),
    "top_k": ([0, 2**31 - 1], [-1, 2**31]),
    "top_p": ([1e-9, 1.0], [0.0, -0.1, 1.01, math.nan]),
    "min_p": ([0.0, 1.0], [-0.1, 1.1, math.nan]),
    "seed": ([None, -(2**63), 2**63 - 1], [2**63, -(2**63) - 1]),
    "stop": ([(), ("a",) * MAX_STOPS], [("a",) * (MAX_STOPS + 1), ("",), ("\ud800",)]),
    "stop_token_ids": ([(), (0, 2**31 - 1)], [(-1,), (2**31,), (1,) * 129]),
    "min_tokens": ([0, 256], [-1, 257]),
    "presence_penalty": ([-2.0, 2.0], [-2.1, 2.1, math.nan]),
    "frequency_penalty": ([-2.0, 2.0], [-2.1, 2.1, math.inf]),
    "repetition_penalty": ([0.01, 100.0], [0.0, -1.0, 101.0, math.nan]),
    "logprobs": ([None, 0, MAX_LOGPROBS], [-1, MAX_LOGPROBS + 1]),
    "n": ([1, MAX_N], [0, MAX_N + 1]),
}
CASES = [(name, value) for name, (_, bad) in LIMITS.items() for value in bad]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_value_out_of_range_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as error:
        SamplingParams(**{name: value})
    assert error.value.problem.field == name
    assert str(error.value).startswith(f"{name}: expected ")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_tokens", "8", "a whole number or None, got '8'"),
        ("max_tokens", 1.5, "a whole number or None, got 1.5"),
        ("top_k", None, "a whole number, got None"),
        ("n", True, "a whole number, got True"),
        ("temperature", "1", "a number, got '1'"),
        ("top_p", None, "a number, got None"),
        ("ignore_eos", 1, "True or False, got 1"),
        ("stop", "END", "a tuple of strings, got 'END'"),
        ("stop", (3,), "a tuple of strings, got (3,)"),
        ("stop_token_ids", 7, "a tuple of token ids, got 7"),
        ("stop_token_ids", ("7",), "a tuple of token ids, got ('7',)"),
        ("logit_bias", [(5, 1.0)], "a dict of token ids to numbers, got [(5, 1.0)]"),
        ("logit_bias", {"5": 1}, "token ids as keys, got '5'"),
    ],
)
def test_a_value_of_another_type_names_its_field(name: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        SamplingParams(**{name: value})
    assert error.value.problem.field == name
    assert str(error.value) == f"{name}: expected {expected}"


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_themselves_are_allowed(name: str) -> None:
    for value in LIMITS[name][0]:
        assert getattr(SamplingParams(**{name: value}), name) == value


def test_every_field_with_a_range_is_tested() -> None:
    without = {"ignore_eos", "logit_bias"}
    assert LIMITS.keys() | without == set(SamplingParams.__struct_fields__)


@pytest.mark.parametrize(
    ("bias", "field"),
    [
        ({-1: 0.0}, "logit_bias.-1"),
        ({2**31: 0.0}, f"logit_bias.{2**31}"),
        ({5: 100.5}, "logit_bias.5"),
        ({5: math.nan}, "logit_bias.5"),
        ({5: "1"}, "logit_bias.5"),
        (dict.fromkeys(range(1025), 0.0), "logit_bias"),
    ],
)
def test_a_wrong_bias_names_its_token(bias: dict[int, float], field: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        SamplingParams(logit_bias=bias)
    assert error.value.problem.field == field


def test_min_tokens_may_not_exceed_max_tokens() -> None:
    with pytest.raises(InvalidRequest, match=r"min_tokens: expected <= max_tokens \(3\), got 4"):
        SamplingParams(max_tokens=3, min_tokens=4)
    assert SamplingParams(max_tokens=None, min_tokens=400).min_tokens == 400


def test_no_token_at_all_may_be_asked_for_where_the_prompt_is_the_question() -> None:
    assert SamplingParams(max_tokens=0, prompt_logprobs=0).max_tokens == 0
    with pytest.raises(InvalidRequest, match="max_tokens: expected >= 1, got 0"):
        SamplingParams(max_tokens=0)


def test_a_wrong_value_on_the_wire_is_refused_with_its_field_and_others_are_decoded() -> None:
    codec = Codec(members(ClientMessage))
    good = Generate(request="r", prompt="p", params=SamplingParams(temperature=0.5))
    assert codec.decode(encode(good)) == good
    fields = msgspec.msgpack.decode(encode(good))
    fields["params"]["temperature"] = -1.0
    with pytest.raises(InvalidRequest) as error:
        codec.decode(msgspec.msgpack.encode(fields))
    assert error.value.problem.field == "temperature"
    fields["params"] = {"temprature": 1.0}
    with pytest.raises(MessageError, match=r"unknown field `temprature` - at `\$.params`"):
        codec.decode(msgspec.msgpack.encode(fields))
