"""What the prefix cache is told, and what it gives, over the lives of requests. Blocks hold 4 tokens."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_rig import Rig, make_rig

PROMPT = list(range(100, 200))


def cached(rig: Rig, prompt: list[int], **fields: Any) -> int:
    """How many tokens of this prompt are found in the cache; leaves nothing new in it."""
    request = rig.admit(prompt, 1, **fields)
    rig.turn()
    rig.cancel(request)
    rig.drain()
    (opened,) = [slot for plan in rig.plans for slot in plan.opened if slot.request == request]
    return opened.cached_len


def test_a_later_equal_prompt_computes_only_its_last_block(depth: int) -> None:
    rig = make_rig(depth=depth, max_batch_tokens=256)
    first = rig.admit(PROMPT, 2)
    rig.drain()
    second = rig.admit(PROMPT, 2)
    rig.drain()
    assert rig.streams[first].cached_len == 0 and rig.streams[second].cached_len == 96
    assert rig.core.counters.prompt_tokens == 200 and rig.core.counters.cached_tokens == 96
    rig.assert_clean()


def test_equal_prompts_in_one_step_are_computed_twice(depth: int) -> None:
    rig = make_rig(depth=depth, max_batch_tokens=256)
    requests = [rig.admit(PROMPT, 2) for _ in range(2)]
    rig.drain()
    assert [rig.streams[r].cached_len for r in requests] == [0, 0]
    assert cached(rig, PROMPT) == 96


def test_the_next_turn_of_a_conversation_reuses_prompt_and_answer(depth: int) -> None:
    rig = make_rig(depth=depth)
    request = rig.admit(PROMPT[:10], 20)
    rig.drain()
    conversation = PROMPT[:10] + rig.delivered(request)
    assert cached(rig, [*conversation, 1, 2, 3]) == 28


@pytest.mark.parametrize(("length", "found"), [(3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8)])
def test_the_last_token_is_always_computed(depth: int, length: int, found: int) -> None:
    rig = make_rig(depth=depth)
    rig.admit(PROMPT[:length], 3)
    rig.drain()
    assert cached(rig, PROMPT[:length]) == found


def test_a_prompt_whose_step_is_in_flight_is_not_shared() -> None:
    rig = make_rig(depth=2)
    rig.admit(3, 50)
    rig.turn()
    found = []
    for _ in range(3):
        probe = rig.admit(PROMPT[:9], 1)
        rig.settle()
        (plan,) = rig.turn()
        assert plan.opened[0].request == probe and len(rig.results) == 2
        found.append(plan.opened[0].cached_len)
    assert found == [0, 0, 8]
    rig.drain()


def test_a_decoded_block_is_shared_only_when_the_step_that_filled_it_has_settled() -> None:
    rig = make_rig(depth=2, max_slots=2)
    rig.device.scripted.update({(1, 6 + i): PROMPT[6 + i] for i in range(20)})
    rig.admit(PROMPT[:6], 20, request=1)
    rig.turn()
    rig.settle()
    rig.turn()
    assert len(rig.results) == 2
    probe = rig.admit(PROMPT[:9], 1)
    rig.settle()
    rig.turn()
    opened = [slot for plan in rig.plans for slot in plan.opened if slot.request == probe]
    assert opened[0].cached_len == 4
    rig.drain()


@pytest.mark.parametrize("ending", ["length", "stop"])
def test_what_is_cached_at_the_end_does_not_depend_on_depth(depth: int, ending: str) -> None:
    rig = make_rig(depth=depth)
    rig.device.scripted.update({(1, 4 + i): PROMPT[4 + i] for i in range(20)})
    stop = (PROMPT[12],) if ending == "stop" else ()
    rig.admit(PROMPT[:4], 9, request=1, stop_ids=stop)
    rig.drain()
    assert rig.streams[1].finish == ending and len(rig.delivered(1)) == 9
    assert cached(rig, PROMPT[:30]) == 12


def test_a_last_token_that_would_fill_a_block_is_not_cached(depth: int) -> None:
    rig = make_rig(depth=depth)
    rig.device.scripted.update({(1, 4 + i): PROMPT[4 + i] for i in range(20)})
    rig.admit(PROMPT[:4], 20, request=1, stop_ids=(PROMPT[11],))
    rig.drain()
    assert len(rig.delivered(1)) == 8
    assert cached(rig, PROMPT[:30]) == 8


def test_salts_and_requests_that_opt_out_share_nothing(depth: int) -> None:
    rig = make_rig(depth=depth)
    rig.admit(PROMPT[:9], 2, use_cache=False)
    rig.drain()
    assert cached(rig, PROMPT[:9]) == 0
    rig.admit(PROMPT[:9], 2, cache_salt="alice")
    rig.drain()
    assert cached(rig, PROMPT[:9], cache_salt="alice") == 8
    assert cached(rig, PROMPT[:9], cache_salt="bob") == 0
    assert cached(rig, PROMPT[:9], cache_salt="alice", use_cache=False) == 0


def test_with_the_cache_off_nothing_is_found(depth: int) -> None:
    rig = make_rig(depth=depth, prefix_cache=False)
    rig.admit(PROMPT[:9], 2)
    rig.drain()
    assert cached(rig, PROMPT[:9]) == 0


def test_shared_blocks_outlive_the_request_that_filled_them(depth: int) -> None:
    rig = make_rig(depth=depth)
    first = rig.admit(PROMPT[:9], 30)
    for _ in range(4):
        rig.step()
    second = rig.admit(PROMPT[:9], 30)
    for _ in range(4):
        rig.step()
    rig.cancel(first)
    rig.drain()
    assert rig.streams[second].cached_len == 8 and len(rig.delivered(second)) == 30
    rig.assert_clean()


def test_cached_blocks_are_given_up_when_others_need_them(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=8)
    rig.admit(PROMPT[:12], 1)
    rig.drain()
    rig.admit(30, 1)
    rig.drain()
    assert cached(rig, PROMPT[:12]) == 0
    rig.assert_clean()


def run_scripted(rig: Rig, settled: int) -> None:
    """Request 1: a prompt of 6 whose answer goes on like PROMPT, with so many tokens delivered."""
    rig.device.scripted.update({(1, 6 + i): PROMPT[6 + i] for i in range(40)})
    rig.admit(PROMPT[:6], 40, request=1)
    while len(rig.streams[1].tokens) < settled:
        rig.step()


@pytest.mark.parametrize(("keep", "found"), [(None, 16), (0, 4), (5, 8), (6, 12), (99, 16)])
def test_a_cut_takes_what_is_behind_it_out_of_cache_and_bill(
    depth: int, keep: int | None, found: int
) -> None:
    rig = make_rig(depth=depth)
    run_scripted(rig, settled=12)
    rig.cancel(1, keep)
    kept = 12 if keep is None else min(keep, 12)
    assert rig.core.counters.emitted_tokens == kept
    rig.drain()
    assert rig.core.counters.emitted_tokens == kept
    assert rig.core.counters.wasted_tokens == 12 - kept + (depth - 1)
    assert cached(rig, PROMPT[:40]) == found
    rig.assert_clean()


def test_a_cut_reaches_the_cache_when_the_request_has_just_ended(depth: int) -> None:
    rig = make_rig(depth=depth)
    rig.device.scripted.update({(1, 6 + i): PROMPT[6 + i] for i in range(40)})
    rig.admit(PROMPT[:6], 12, request=1)
    rig.drain()
    rig.cancel(1, 5)
    assert rig.core.counters.emitted_tokens == 5
    assert cached(rig, PROMPT[:40]) == 8
    rig.cancel(1, 0)
    assert rig.core.counters.ignored["unknown_cancel"] == 1


def test_a_cut_reaches_blocks_of_a_request_that_was_preempted() -> None:
    rig = make_rig(depth=1, num_blocks=8, max_slots=2)
    rig.admit(3, 40, request=2, priority=-1)
    rig.step()
    run_scripted(rig, settled=7)
    while rig.core.counters.preemptions == 0:
        rig.step()
    assert rig.core.live[1].slot < 0
    rig.cancel(1, 3)
    rig.cancel(2)
    rig.drain()
    assert cached(rig, PROMPT[:30]) == 8


def test_a_cut_keeps_the_blocks_of_a_request_that_shares_them() -> None:
    rig = make_rig(depth=1)
    run_scripted(rig, settled=12)
    sharer = rig.admit(PROMPT[:17], 10)
    rig.step()
    rig.step()
    assert rig.streams[sharer].cached_len == 16
    rig.cancel(1, 0)
    rig.drain()
    assert len(rig.delivered(sharer)) == 10
    rig.assert_clean()


def test_a_cut_takes_back_no_more_than_was_billed_here() -> None:
    rig = make_rig(depth=1)
    request = rig.admit(6, 20, emitted=[901, 902, 903])
    rig.step()
    rig.step()
    rig.cancel(request, 1)
    assert rig.core.counters.emitted_tokens == 0 and rig.core.counters.wasted_tokens == 2


def test_blocks_behind_a_twin_that_was_given_up_are_found() -> None:
    rig = make_rig(depth=1, num_blocks=20, max_slots=3)
    rig.device.scripted.update({(2, 17 + i): PROMPT[17 + i] for i in range(40)})
    twin = rig.admit(PROMPT[:17], 40, request=1)
    rig.admit(PROMPT[:17], 40, request=2)
    rig.step()
    rig.cancel(twin)
    filler = rig.admit(52, 1)
    rig.step()
    rig.step()
    assert rig.streams[filler].ended
    while len(rig.streams[2].tokens) < 12:
        rig.step()
    rig.cancel(2)
    rig.drain()
    assert cached(rig, PROMPT[:40]) == 28


def test_a_cut_elsewhere_does_not_hide_the_blocks_of_an_equal_request() -> None:
    rig = make_rig(depth=1)
    rig.device.scripted.update({(2, 17 + i): PROMPT[17 + i] for i in range(40)})
    run_scripted(rig, settled=12)
    rig.admit(PROMPT[:17], 20, request=2)
    rig.step()
    rig.cancel(1, 0)
    while len(rig.streams[2].tokens) < 12:
        rig.step()
    rig.cancel(2)
    rig.drain()
    assert cached(rig, PROMPT[:40]) == 28


def test_a_preempted_request_finds_its_own_blocks_again(depth: int) -> None:
    rig = make_rig(depth=depth, num_blocks=9, max_slots=2)
    requests = [rig.admit(5, 20) for _ in range(2)]
    rig.drain()
    again = [s for plan in rig.plans for s in plan.opened if s.generation > 0]
    assert again and again[0].cached_len > 0
    assert [rig.streams[request].cached_len for request in requests] == [0, 0]
