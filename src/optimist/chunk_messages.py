"""Chunks as messages of the client protocol, and back."""

from __future__ import annotations

from collections.abc import Sequence

from optimist.actors.gateway.chunks import Chunk, Ending, joined
from optimist.messages.client import Delta, Finished, PromptLogprobs

News = PromptLogprobs | Delta | Finished
"""what a client is told of a continuation"""


def to_messages(request: str, chunk: Chunk) -> list[News]:
    """What a client is sent for one chunk, at least one message."""
    messages: list[News] = []
    if chunk.prompt_logprobs:
        tokens = chunk.prompt_logprobs
        messages.append(PromptLogprobs(request=request, choice=chunk.choice, tokens=tokens))
    told = bool(chunk.token_ids)
    if told or (chunk.end is None and (chunk.text or not messages)):
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
                text="" if told else chunk.text,
                usage=chunk.end.usage,
                seed=chunk.end.seed,
            )
        )
    return messages


def to_chunk(message: News) -> Chunk:
    """What a consumer gets for one message."""
    if isinstance(message, PromptLogprobs):
        return Chunk(choice=message.choice, index=0, prompt_logprobs=message.tokens)
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
    return Chunk(
        choice=parts[0].choice,
        index=parts[0].index,
        token_ids=tuple(token for part in parts for token in part.token_ids),
        text="".join(part.text for part in parts),
        logprobs=joined(part.logprobs for part in parts),
        prompt_logprobs=joined(part.prompt_logprobs for part in parts),
        end=parts[-1].end,
    )
