from __future__ import annotations

import gc
from typing import Any

import anyio
import pytest

from optimist.actors.gateway.chunks import Chunk, complete
from optimist.messages.base import ints
from optimist.messages.client import Usage
from optimist.messages.errors import EngineEnded
from optimist.testing.byte_tokenizer import EOS


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def test_a_request_gives_its_text_its_ids_and_its_usage(bench: Any) -> None:
    made = bench("hello")
    stream = made.open("hi there")
    result = complete(made.drain(stream))
    assert result.text == "hello"
    assert result.token_ids == (*b"hello", EOS)
    assert (result.finish_reason, result.stop, result.seed) == ("stop", None, 12345)
    assert result.usage == Usage(prompt_tokens=8, completion_tokens=6)
    assert stream.exhausted
    assert made.gateway.live == 0


def test_indices_number_the_tokens_without_a_gap(bench: Any) -> None:
    made = bench("abcdefgh")
    chunks = made.drain(made.open(), tokens=3)
    assert [chunk.index for chunk in chunks] == [0, 3, 6]


def test_what_is_not_taken_waits_as_one_chunk(bench: Any) -> None:
    made = bench("abcdef")
    stream = made.open()
    for _ in range(4):
        made.step()
    chunk = stream.take_nowait()
    assert chunk is not None and chunk.text == "abcd"
    assert stream.take_nowait() is None


def test_a_slow_consumer_pauses_its_own_request_only(bench: Any) -> None:
    made = bench("x" * 100, credit=8)
    slow, quick = made.open(), made.open()
    assert len(text(made.drain(quick))) == 100
    assert ints(made.scheduler.admits[0].prompt_ids).tolist() == list(b"hi")
    chunk = slow.take_nowait()
    assert chunk is not None and len(chunk.token_ids) == 8
    assert len(text(made.drain(slow))) == 92


@pytest.mark.parametrize("credit", [1, 2, 3, 8, 256])
def test_credit_comes_back_as_chunks_are_taken_and_no_more_than_is_needed(
    bench: Any, credit: int
) -> None:
    made = bench("x" * 40, credit=credit)
    chunks = made.drain(made.open(params={"max_tokens": 20}), tokens=5)
    assert len(text(chunks)) == 20
    given = made.scheduler.admits[0].credit + sum(g.credit for g in made.scheduler.grants)
    assert given == 20 or credit > 20
    assert not made.scheduler.grants or credit < 20


def test_a_stop_string_cuts_the_text_and_tells_the_scheduler_what_stands(bench: Any) -> None:
    made = bench("one END two")
    chunks = made.drain(made.open(params={"stop": ("END",)}))
    result = complete(chunks)
    assert (result.text, result.stop, result.finish_reason) == ("one ", "END", "stop")
    assert result.token_ids == tuple(b"one END")
    assert result.usage.completion_tokens == 7
    assert [(cancel.keep) for cancel in made.scheduler.cancels] == [7]


def test_tokens_behind_a_stop_string_in_the_same_message_are_neither_shown_nor_billed(
    bench: Any,
) -> None:
    made = bench("one END two")
    result = complete(made.drain(made.open(params={"stop": ("END",)}), tokens=100))
    assert (result.text, result.usage.completion_tokens) == ("one ", 7)


def test_text_held_back_for_a_stop_string_is_shown_when_the_request_ends(bench: Any) -> None:
    made = bench("one EN")
    result = complete(made.drain(made.open(params={"stop": ("END",)})))
    assert (result.text, result.stop) == ("one EN", None)


def test_a_stop_string_before_min_tokens_is_text(bench: Any) -> None:
    made = bench("aENDbEND")
    result = complete(made.drain(made.open(params={"stop": ("END",), "min_tokens": 5})))
    assert result.text == "aENDb"


def test_a_stop_token_of_the_request_is_in_the_ids_and_not_in_the_text(bench: Any) -> None:
    made = bench(lambda _: list(b"ab."))
    result = complete(made.drain(made.open(params={"stop_token_ids": (ord("."),)})))
    assert (result.text, result.token_ids, result.stop) == ("ab", tuple(b"ab."), ord("."))


def test_max_tokens_ends_inside_a_character_with_one_replacement_mark(bench: Any) -> None:
    made = bench("a🦀")
    result = complete(made.drain(made.open(params={"max_tokens": 3})))
    assert (result.text, result.finish_reason) == ("a\ufffd", "length")


def test_without_text_only_ids_are_delivered(bench: Any) -> None:
    made = bench("hello")
    result = complete(made.drain(made.open(want_text=False)))
    assert (result.text, result.token_ids) == ("", (*b"hello", EOS))


def test_logprobs_have_one_entry_a_token_with_its_text(bench: Any) -> None:
    made = bench("hé", logprobs=True)
    result = complete(made.drain(made.open(params={"logprobs": 1})))
    assert result.logprobs is not None
    assert [entry.id for entry in result.logprobs] == list(result.token_ids)
    assert [entry.token for entry in result.logprobs] == ["h", "\ufffd", "\ufffd", "<eos>"]
    assert result.logprobs[0].top[0].token == "h"


def test_logprobs_are_none_when_they_were_not_asked_for(bench: Any) -> None:
    made = bench("hé", logprobs=True)
    assert complete(made.drain(made.open())).logprobs is None


def test_n_continuations_share_the_prompt_and_differ_in_seed(bench: Any) -> None:
    made = bench(lambda admit: [*str(admit.sampling.seed).encode(), EOS])
    result = complete(made.drain(made.open("four", params={"n": 3, "seed": 7})))
    again = complete(made.drain(made.open("four", params={"n": 3, "seed": 7})))
    assert result == again
    texts = [choice.text for choice in result.choices]
    assert texts[0] == "7" and len(set(texts)) == 3
    assert texts == [str(choice.end.seed) for choice in result.choices]
    assert result.usage.prompt_tokens == 4
    assert result.usage.completion_tokens == sum(len(choice.token_ids) for choice in result.choices)


def test_closing_cancels_every_continuation_once(bench: Any) -> None:
    made = bench("hello" * 100)
    stream = made.open(params={"n": 3})
    made.step()
    stream.close()
    stream.close()
    assert len(made.scheduler.cancels) == 3
    assert stream.exhausted and stream.take_nowait() is None
    assert made.scheduler.requests == ()
    assert made.gateway.live == 0


def test_cancelling_leaves_what_is_there_and_an_ending(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    made.step(2)
    stream.cancel()
    chunks = made.drain(stream)
    assert (text(chunks), chunks[-1].finish_reason) == ("he", "cancelled")
    assert chunks[-1].usage == Usage(prompt_tokens=2, completion_tokens=2)


def test_a_stream_that_became_garbage_is_cancelled_at_the_next_turn(bench: Any) -> None:
    made = bench("hello")
    made.open()
    gc.collect()
    assert made.gateway.turn() is None
    assert len(made.scheduler.cancels) == 1
    assert made.gateway.live == 0


def test_a_live_request_is_looked_after_within_a_second(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    assert 0 < made.gateway.turn() < 1
    stream.close()


@pytest.mark.anyio
async def test_woken_by_an_ending_engine_and_cancelled_with_it_a_reader_is_cancelled(
    bench: Any,
) -> None:
    made = bench("hello")
    stream = made.open()
    async with anyio.create_task_group() as group:
        group.start_soon(stream.__anext__)
        await anyio.wait_all_tasks_blocked()
        made.gateway.end(EngineEnded("the engine has ended"))
        group.cancel_scope.cancel()
    with pytest.raises(EngineEnded, match="the engine has ended"):
        await stream.__anext__()
