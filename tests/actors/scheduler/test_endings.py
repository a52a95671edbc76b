"""How a request ends by itself, and which are refused before they begin."""

from __future__ import annotations

import pytest
from scheduler_rig import make_rig

from optimist.messages.slots import Sampling

STOP = 7


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5])
def test_max_tokens_end_a_request_without_a_wasted_token(depth: int, max_tokens: int) -> None:
    rig = make_rig(depth=depth)
    first = rig.admit(6, max_tokens)
    rig.step()
    second = rig.admit(9, max_tokens)
    rig.drain()
    for request in (first, second):
        assert len(rig.delivered(request)) == max_tokens
        assert rig.streams[request].finish == "length"
    assert rig.core.counters.wasted_tokens == 0
    assert rig.device.rows_of == {first: max_tokens, second: max_tokens}
    rig.assert_clean()


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_stop_token_is_the_last_one_and_wastes_at_most_the_steps_ahead(
    depth: int, place: int
) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 20, request=1, stop_ids=(3, STOP))
    rig.device.scripted[1, 5 + place] = STOP
    rig.drain()
    assert rig.delivered(request)[-1] == STOP and len(rig.delivered(request)) == place + 1
    assert rig.streams[request].finish == "stop"
    assert rig.device.rows_of[request] == place + 1 + (depth - 1)
    assert rig.core.counters.wasted_tokens == depth - 1
    assert rig.core.counters.emitted_tokens == place + 1
    rig.assert_clean()


def test_a_stop_token_as_the_last_allowed_one_says_stop(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 3, request=1, stop_ids=(STOP,))
    rig.device.scripted[1, 7] = STOP
    rig.drain()
    assert rig.streams[request].finish == "stop"
    assert rig.core.counters.wasted_tokens == 0


def test_without_stop_ids_no_token_stops_a_request(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(5, 4, request=1)
    rig.device.scripted[1, 6] = STOP
    rig.drain()
    assert len(rig.delivered(request)) == 4 and rig.streams[request].finish == "length"


def test_stop_ids_of_an_earlier_request_do_not_stay_in_its_slot() -> None:
    rig = make_rig(depth=1, max_slots=1)
    rig.admit(5, 3, request=1, stop_ids=(3, STOP))
    rig.device.scripted[2, 6] = STOP
    rig.admit(5, 4, request=2)
    rig.drain()
    assert len(rig.delivered(2)) == 4


@pytest.mark.parametrize("prompt", [28, 31])
def test_the_context_limit_ends_a_request(depth: int, prompt: int) -> None:
    rig = make_rig(depth=depth, max_model_len=32)
    request = rig.admit(prompt, 100)
    rig.drain()
    assert len(rig.delivered(request)) == 32 - prompt
    assert rig.streams[request].finish == "length"
    assert rig.core.counters.wasted_tokens == 0


def test_all_blocks_together_are_a_context_limit_too(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=4)
    request = rig.admit(10, 100)
    rig.drain()
    assert len(rig.delivered(request)) == 4 * 4 + 1 - 10
    assert rig.streams[request].finish == "length"


@pytest.mark.parametrize(("blocks", "limit"), [(8, 200), (64, 32)])
def test_a_request_that_can_never_fit_is_refused_at_once_and_blocks_nobody(
    depth: int, blocks: int, limit: int
) -> None:
    rig = make_rig(depth=depth, num_blocks=blocks, max_model_len=limit)
    huge = rig.admit(33, 4)
    retired = rig.streams[huge].retired
    assert retired is not None and retired.problem is not None
    assert retired.problem.code == "too_large" and "got 33" in retired.problem.message
    short = rig.admit(5, 3)
    rig.drain()
    assert len(rig.delivered(short)) == 3
    rig.assert_clean()


def test_an_empty_prompt_and_ids_outside_the_vocabulary_are_refused() -> None:
    rig = make_rig(vocab_size=50)
    for prompt, field in (([], "prompt"), ([1, 50], "prompt")):
        retired = rig.streams[rig.admit(prompt)].retired
        assert retired is not None and retired.problem is not None
        assert retired.problem.code == "invalid_request" and retired.problem.field == field
    fine = rig.admit([0, 49], 1)
    rig.drain()
    assert rig.streams[fine].finish == "length"


def test_a_prompt_that_the_worker_does_not_score_fails_its_request_alone(depth: int) -> None:
    rig = make_rig(depth=depth, max_chunk=4)
    asks = Sampling(temperature=0, seed=0, prompt_logprobs=1)
    unscored, other = rig.admit(9, 3, sampling=asks), rig.admit(9, 3)
    alone = rig.admit(9, 0, sampling=asks, credit=0)
    rig.drain()
    for request in (unscored, alone):
        retired = rig.streams[request].retired
        assert retired is not None and retired.problem is not None
        assert retired.problem.code == "request_failed"
        assert "no log-probabilities of the prompt" in retired.problem.message
    assert rig.streams[other].finish == "length"
    rig.assert_clean()
