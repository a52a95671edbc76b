from __future__ import annotations

from typing import Any

import pytest

from optimist.messages.client import ChatMessage, Generate
from optimist.messages.errors import InvalidRequest, TooLarge
from optimist.messages.params import SamplingParams

USER = ChatMessage(role="user", content="hi")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "prompt_ids": (1,)}, "prompt_ids"),
        ({"prompt": "a", "messages": (USER,)}, "messages"),
        ({"prompt": ""}, "prompt"),
        ({"prompt_ids": ()}, "prompt_ids"),
        ({"messages": ()}, "messages"),
        ({"prompt_ids": (1, -1)}, "prompt_ids[1]"),
        ({"prompt_ids": (272,)}, "prompt_ids[0]"),
        ({"prompt_ids": (2**31,)}, "prompt_ids[0]"),
        ({"prompt_ids": (2**63,)}, "prompt_ids[0]"),
        ({"prompt_ids": (1.5,)}, "prompt_ids[0]"),
        ({"prompt_ids": (True,)}, "prompt_ids[0]"),
        ({"prompt": "half \ud83e of it"}, "prompt"),
        ({"messages": (ChatMessage(role="user", content="\ud83e"),)}, "messages[0].content"),
        ({"messages": (USER, ChatMessage(role="\ud83e", content=""))}, "messages[1].role"),
        ({"messages": (ChatMessage(role="wizard", content="hi"),)}, "messages"),
        ({"prompt": "a", "cache_salt": "\ud83e"}, "cache_salt"),
        ({"prompt": "a", "trace": "\ud83e"}, "trace"),
        ({"prompt": "a", "cache_salt": "s" * 257}, "cache_salt"),
        ({"prompt": "a", "priority": 2**31}, "priority"),
        ({"prompt": "a", "deadline_ms": 0}, "deadline_ms"),
        ({"prompt": "a" * (4 * 2**20 + 1)}, "prompt"),
        ({"messages": (USER,) * 5000}, "messages"),
    ],
)
def test_a_bad_request_is_refused_naming_the_field(
    bench: Any, fields: dict[str, Any], field: str
) -> None:
    made = bench()
    with pytest.raises(InvalidRequest) as refused:
        made.gateway.open(Generate(request="r", **fields))
    assert refused.value.problem.field == field
    assert made.scheduler.sent == []
    assert made.gateway.live == 0


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"logit_bias": {999999: 5.0}}, "logit_bias.999999"),
        ({"stop_token_ids": (272,)}, "stop_token_ids"),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(
    bench: Any, params: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bench().open(params=params)
    assert refused.value.problem.field == field


def test_stop_strings_without_text_are_refused(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="use stop_token_ids"):
        bench().open(want_text=False, params={"stop": ("END",)})


@pytest.mark.parametrize(("length", "room"), [(31, 1), (30, 2), (1, 31)])
def test_max_tokens_is_cut_down_to_the_room_that_the_prompt_leaves(
    bench: Any, length: int, room: int
) -> None:
    made = bench(max_model_len=32)
    made.open("a" * length, params={"max_tokens": 100})
    made.open("a" * length, params={"max_tokens": None})
    made.open("a" * length, params={"max_tokens": 1})
    assert [admit.max_tokens for admit in made.scheduler.admits] == [room, room, 1]


@pytest.mark.parametrize("length", [32, 33])
def test_a_prompt_that_leaves_no_room_is_refused_with_both_figures(bench: Any, length: int) -> None:
    with pytest.raises(TooLarge, match=rf"at most 31 tokens.* has 32, got {length}"):
        bench(max_model_len=32).open("a" * length)


def test_min_tokens_beyond_the_room_are_refused(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="min_tokens: expected at most 2"):
        bench(max_model_len=32).open("a" * 30, params={"min_tokens": 3})


def test_the_admission_says_what_was_asked(bench: Any) -> None:
    made = bench()
    params = SamplingParams(
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        min_p=0.1,
        seed=5,
        stop_token_ids=(10,),
        min_tokens=2,
        presence_penalty=0.25,
        frequency_penalty=0.5,
        repetition_penalty=1.5,
        logit_bias={3: -1.0, 1: 2.0},
        logprobs=4,
        max_tokens=9,
    )
    made.gateway.open(
        Generate(
            request="r",
            prompt_ids=(1, 2),
            params=params,
            priority=-3,
            deadline_ms=1500,
            cache_salt="s",
            trace="t",
        )
    )
    (admit,) = made.scheduler.admits
    sampling = admit.sampling
    assert (admit.priority, admit.cache_salt, admit.trace) == (-3, "s", "t")
    assert admit.deadline == made.now + 1.5
    assert admit.max_tokens == 9
    assert admit.stop_ids == sampling.stop_ids == b"\x0a\0\0\0\x01\x01\0\0"
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 3, 0.9)
    assert (sampling.min_p, sampling.seed, sampling.min_tokens) == (0.1, 5, 2)
    assert sampling.presence_penalty == 0.25
    assert (sampling.frequency_penalty, sampling.repetition_penalty) == (0.5, 1.5)
    assert sampling.bias_ids == b"\x01\0\0\0\x03\0\0\0"
    assert sampling.bias_values == b"\0\0\0\x40\0\0\x80\xbf"
    assert sampling.logprobs == 4


def test_ignore_eos_leaves_only_the_requests_own_stop_ids(bench: Any) -> None:
    made = bench()
    made.open(params={"ignore_eos": True, "stop_token_ids": (10,)})
    assert made.scheduler.admits[0].stop_ids == b"\x0a\0\0\0"
