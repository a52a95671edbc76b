"""Answers a generating request: all at once, or as server-sent events while tokens come.

A client that leaves ends its requests at once. A request that fails before its first token is
answered with its own status; later, with an `error` event in place of `[DONE]`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.types import Message, Receive, Scope, Send

from optimist.actors.gateway.chunks import Chunk
from optimist.http.choices import Choices
from optimist.http.requests import Job
from optimist.http.service import Chunks, Service
from optimist.http.shapes import Head, error_body, error_headers, to_json
from optimist.messages.client import Generate
from optimist.messages.errors import InvalidRequest, ProblemError, TooLarge

Take = Callable[[int, Chunk], Awaitable[None]]
FIRST_TOKEN, CLIENT_LEFT = 0, 499

Observe = Callable[[int], None]
"""Told FIRST_TOKEN, and the status when an answer ends."""


class Answer:
    """An ASGI response to one Job. Raises InvalidRequest when its prompt cannot be echoed."""

    def __init__(self, service: Service, job: Job, head: Head, observe: Observe) -> None:
        self._service = service
        self._job = job
        self._choices = Choices(service, job, head)
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client leaves before: then nothing more is computed for it."""
        status = CLIENT_LEFT
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                status = await self._answer(send)
                tasks.cancel_scope.cancel()
        except Exception:
            status = 500
            raise
        finally:
            self._observe(status)

    async def _answer(self, send: Send) -> int:
        kind = _Stream if self._job.stream else _Whole
        sink = kind(self._choices, send)
        first = True

        async def take(prompt: int, chunk: Chunk) -> None:
            nonlocal first
            if first:
                first = False
                self._observe(FIRST_TOKEN)
            await sink.take(prompt, chunk)

        try:
            await _run(self._service, self._job.generates, take)
        except ProblemError as error:
            await sink.fail(error)
            return error.status
        await sink.end()
        return 200


class _Whole:
    """Gathers everything and sends it once."""

    def __init__(self, choices: Choices, send: Send) -> None:
        self._choices = choices
        self._send = send

    async def take(self, prompt: int, chunk: Chunk) -> None:
        self._choices.gather(prompt, chunk)

    async def fail(self, error: ProblemError) -> None:
        await _send_json(self._send, error.status, error_body(error.problem), error_headers(error))

    async def end(self) -> None:
        await _send_json(self._send, 200, self._choices.whole(), {})


class _Stream:
    """Sends an event for every chunk that has something to show."""

    def __init__(self, choices: Choices, send: Send) -> None:
        self._choices = choices
        self._send = send
        self._started = False
        self._turn = anyio.Lock(fast_acquire=True)

    async def take(self, prompt: int, chunk: Chunk) -> None:
        if self._choices.prompts == 1:
            # Nobody else sends: a lock would only cost its time, for every token.
            await self._show(prompt, chunk)
            return
        async with self._turn:
            await self._show(prompt, chunk)

    async def fail(self, error: ProblemError) -> None:
        if not self._started:
            await _send_json(
                self._send, error.status, error_body(error.problem), error_headers(error)
            )
            return
        await self._event(to_json(error_body(error.problem)), more=False)

    async def end(self) -> None:
        await self._start()
        usage = self._choices.usage_chunk()
        if usage is not None:
            await self._event(to_json(usage))
        await self._event(b"[DONE]", more=False)

    async def _show(self, prompt: int, chunk: Chunk) -> None:
        shown = self._choices.chunk(prompt, chunk)
        if not self._started:
            await self._start()
        if shown is not None:
            await self._event(shown)

    async def _start(self) -> None:
        if self._started:
            return
        self._started = True
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _event(self, data: bytes, *, more: bool = True) -> None:
        body = b"data: " + data + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


async def _run(service: Service, generates: tuple[Generate, ...], take: Take) -> None:
    """Run all requests side by side; the first that fails ends the others."""
    streams: list[Chunks] = []
    failures: list[ProblemError] = []

    async def pump(at: int, scope: anyio.CancelScope) -> None:
        try:
            async for chunk in streams[at]:
                await take(at, chunk)
        except ProblemError as error:
            failures.append(error)
            scope.cancel()

    try:
        for generate in generates:
            streams.append(await _submit(service, generate))
        async with anyio.create_task_group() as tasks:
            for at in range(len(streams)):
                tasks.start_soon(pump, at, tasks.cancel_scope)
    finally:
        for stream in streams:
            stream.close()
    if failures:
        raise failures[0]


async def _submit(service: Service, generate: Generate) -> Chunks:
    """Begin a request. A refusal names the prompt as the route does."""
    try:
        return await service.submit(generate)
    except (InvalidRequest, TooLarge) as error:
        field = error.problem.field or ""
        inside = "messages" if generate.messages is not None else "prompt"
        for name in ("prompt_ids", "prompt"):
            if re.match(rf"{name}\b", field):
                text = re.sub(rf"^{name}\b", inside, str(error))
                raise type(error)(text, field=inside + field.removeprefix(name)) from None
        raise


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            scope.cancel()
            return


async def _send_json(send: Send, status: int, value: Any, headers: dict[str, str]) -> None:
    body = to_json(value)
    pairs = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), text.encode()) for name, text in headers.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
