"""Prompts that take long are encoded off the loop."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from optimist.actors.gateway import intake
from optimist.actors.gateway.prompts import QUICK_CHARACTERS
from optimist.messages.client import ChatMessage, Generate
from optimist.messages.control import Drain
from optimist.messages.errors import EngineEnded, InvalidRequest, Overloaded
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio

CHAT = Generate(request="r", messages=(ChatMessage(role="user", content="hi"),))
SHORT = Generate(request="r", prompt="hi")


class Watched(ByteTokenizer):
    """Notes the thread it encodes in, and waits there until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def encode(self, text: str) -> list[int]:
        self.threads.append(threading.get_ident())
        return super().encode(text)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        self.threads.append(threading.get_ident())
        self.go_on.wait(20)
        return super().encode_chat(messages)


async def test_short_texts_are_encoded_here_and_chats_and_long_texts_elsewhere(bench: Any) -> None:
    tokenizer = Watched()
    made = bench("hello", tokenizer=tokenizer)
    long = Generate(request="r", prompt="x" * (QUICK_CHARACTERS + 1))
    streams = [await made.gateway.submit(request) for request in (SHORT, CHAT, long)]
    here = threading.get_ident()
    assert [thread == here for thread in tokenizer.threads] == [True, False, False]
    for stream in streams:
        stream.close()


async def test_a_prompt_that_is_being_encoded_counts_as_live(bench: Any) -> None:
    tokenizer = Watched()
    tokenizer.go_on.clear()
    made = bench("hello", tokenizer=tokenizer, max_requests=2)
    async with anyio.create_task_group() as group:
        group.start_soon(made.gateway.submit, CHAT)
        await anyio.wait_all_tasks_blocked()
        assert made.gateway.live == 1
        with pytest.raises(Overloaded):
            made.open(params={"n": 2})
        tokenizer.go_on.set()
    assert made.gateway.live == 1


async def test_cancelling_while_it_is_encoded_leaves_nothing(bench: Any) -> None:
    tokenizer = Watched()
    tokenizer.go_on.clear()
    made = bench("hello", tokenizer=tokenizer)
    with anyio.move_on_after(0.01):
        await made.gateway.submit(CHAT)
    tokenizer.go_on.set()
    assert made.gateway.live == 0
    assert made.scheduler.sent == []


async def test_the_deadline_counts_from_receipt(bench: Any) -> None:
    tokenizer = Watched()
    tokenizer.go_on.clear()
    made = bench("hello", tokenizer=tokenizer)
    chat = Generate(request="r", messages=CHAT.messages, deadline_ms=2000)
    async with anyio.create_task_group() as group:
        group.start_soon(made.gateway.submit, chat)
        await anyio.wait_all_tasks_blocked()
        made.now += 1.5
        tokenizer.go_on.set()
    assert made.scheduler.admits[0].deadline == made.now + 0.5


async def test_draining_while_it_is_encoded_refuses_it(bench: Any) -> None:
    tokenizer = Watched()
    tokenizer.go_on.clear()
    made = bench("hello", tokenizer=tokenizer)
    refused: list[EngineEnded] = []

    async def submit() -> None:
        try:
            await made.gateway.submit(CHAT)
        except EngineEnded as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(submit)
        await anyio.wait_all_tasks_blocked()
        made.gateway.receive(Drain(incarnation=9))
        tokenizer.go_on.set()
    assert len(refused) == 1
    assert made.scheduler.sent == []


async def test_a_template_that_takes_too_long_is_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ENCODE_TIMEOUT", 0.01)
    tokenizer = Watched()
    tokenizer.go_on.clear()
    with pytest.raises(InvalidRequest, match="tokenised within"):
        await bench("hello", tokenizer=tokenizer).gateway.submit(CHAT)
    tokenizer.go_on.set()


async def test_what_can_be_seen_before_encoding_is_refused_before(bench: Any) -> None:
    tokenizer = Watched()
    made = bench("hello", tokenizer=tokenizer)
    bad = Generate(
        request="r", messages=CHAT.messages, params=SamplingParams(stop_token_ids=(272,))
    )
    with pytest.raises(InvalidRequest):
        await made.gateway.submit(bad)
    assert tokenizer.threads == []


async def test_when_its_inbox_ends_no_stream_is_left_waiting(bench: Any) -> None:
    made = bench("hello")
    stream = made.open()
    inbox: Mailbox[Any] = Mailbox(made.gateway.accepts)
    inbox.close()
    await made.gateway.run(inbox)
    with pytest.raises(EngineEnded, match="has ended"):
        await stream.__anext__()


async def test_a_second_consumer_of_a_stream_is_refused(bench: Any) -> None:
    stream = bench("hello").open()
    async with anyio.create_task_group() as group:
        group.start_soon(stream.wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="second task"):
            await stream.wait()
        stream.close()
