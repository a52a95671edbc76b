"""Chunks as messages of the client protocol, and back."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.actors.gateway.chunks import Chunk, Ending
from optimist.messages.client import Delta, Finished


def to_messages(request: str, chunk: Chunk) -> list[Delta | Finished]:
    """What a client is sent for one chunk: Delta, Finished or both."""
    messages: list[Delta | Finished] = []
    if chunk.token_ids or chunk.end is None:
        messages.append(
            Delta(
                request=request,
                choice=chunk.choice,
                index=chunk.index,
                token_ids=chunk.token_ids,
                text=chunk.text,
                logprobs=chunk.logprobs,
            )
        )
    if chunk.end is not None:
        messages.append(
            Finished(
                request=request,
                choice=chunk.choice,
                finish_reason=chunk.end.finish_reason,
                stop=chunk.end.stop,
                text="" if messages else chunk.text,
                usage=chunk.end.usage,
                seed=chunk.end.seed,
            )
        )
    return messages


def to_chunk(message: Delta | Finished) -> Chunk:
    """What a consumer gets for one message."""
    if isinstance(message, Delta):
        return Chunk(
            choice=message.choice,
            index=message.index,
            token_ids=message.token_ids,
            text=message.text,
            logprobs=message.logprobs,
        )
    return Chunk(
        choice=message.choice,
        index=message.usage.completion_tokens,
        text=message.text,
        end=Ending(
            finish_reason=message.finish_reason,
            stop=message.stop,
            usage=message.usage,
            seed=message.seed,
        ),
    )


def join(parts: Sequence[Chunk]) -> Chunk:
    """Chunks of one continuation, in order and at least one, as one."""
    if len(parts) == 1:
        return parts[0]
    logprobs = [part.logprobs for part in parts if part.logprobs is not None]
    return Chunk(
        choice=parts[0].choice,
        index=parts[0].index,
        token_ids=tuple(token for part in parts for token in part.token_ids),
        text="".join(part.text for part in parts),
        logprobs=tuple(entry for some in logprobs for entry in some) if logprobs else None,
        end=parts[-1].end,
    )
