"""Requests to an OpenAI-like completions server, all at once, streamed: when each token came."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from duel.child import PeerFailed


class Answer(NamedTuple):
    """Of one request: seconds from its start to each event with text, and tokens as the server counts."""

    stamps: list[float]
    tokens: int


def body(prompt: Sequence[int], tokens: int) -> dict[str, Any]:
    """A request for so many tokens, greedy and past every end."""
    return {
        "model": "m",
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def run(port: int, bodies: Sequence[dict[str, Any]]) -> tuple[float, list[Answer]]:
    """Seconds until all were answered, and the answers. Raises PeerFailed for any that was refused."""

    async def everyone() -> list[Answer]:
        return await asyncio.gather(*(_one(port, each) for each in bodies))

    begun = time.perf_counter()
    answers = asyncio.run(everyone())
    return time.perf_counter() - begun, answers


def figures(seconds: float, answers: Sequence[Answer]) -> dict[str, float]:
    """Tokens a second, and milliseconds to the first token and between two: medians and worst."""
    firsts = [answer.stamps[0] for answer in answers]
    gaps = [b - a for each in answers for a, b in zip(each.stamps, each.stamps[1:], strict=False)]
    return {
        "tok_per_s": round(sum(answer.tokens for answer in answers) / seconds, 1),
        "ttft_ms": round(1000 * median(firsts), 1),
        "ttft_ms_worst": round(1000 * max(firsts), 1),
        "gap_ms": round(1000 * median(gaps), 2) if gaps else 0.0,
    }


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of an event stream, up to its end mark."""
    for line in lines:
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        if data and data != line.strip():
            yield json.loads(data)


async def _one(port: int, asked: dict[str, Any]) -> Answer:
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(asked).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    try:
        status = await reader.readline()
        if b" 200" not in status:
            raise PeerFailed(f"expected 200, got {status + await reader.read(800)!r}")
        return await _answer(reader, begun)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, begun: float) -> Answer:
    """Chunk sizes stand on lines of their own between the events and are no events."""
    stamps: list[float] = []
    tokens = 0
    while line := await reader.readline():
        now = time.perf_counter() - begun
        for event in events([line]):
            if any(choice.get("text") for choice in event.get("choices") or ()):
                stamps.append(now)
            tokens = (event.get("usage") or {}).get("completion_tokens") or tokens
        if line.strip() == b"data: [DONE]":
            break
    if not stamps:
        raise PeerFailed("expected text, got none")
    return Answer(stamps, tokens or len(stamps))
