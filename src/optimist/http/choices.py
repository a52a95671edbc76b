"""Turns what comes of requests into the choices of one answer."""

from __future__ import annotations

from typing import Any

from optimist.actors.gateway.chunks import Chunk, Ending
from optimist.http.requests import Job
from optimist.http.service import Service
from optimist.http.shapes import (
    Head,
    Token,
    chat_logprobs,
    completion_logprobs,
    to_json,
    usage_body,
)
from optimist.messages.client import TokenLogprob


class _Choice:
    """One continuation so far. begun: something was sent. offset: characters of text before the next token.

    scored: the prompt's tokens are among those with log-probabilities. around: what stands before and
    behind the text in a chunk that says nothing else, None until one was sent.
    """

    def __init__(self, prefix: str, *, scored: bool) -> None:
        self.prefix = prefix
        self.texts: list[str] = []
        self.logprobs: list[Token] = []
        self.begun = False
        self.offset = 0 if scored else len(prefix)
        self.end: Ending | None = None
        self.around: tuple[bytes, bytes] | None = None


class Choices:
    """The choices of one answer: prompt p and choice c of the engine are index p * n + c."""

    def __init__(self, service: Service, job: Job, head: Head) -> None:
        self._job = job
        self._head = head
        params = job.generates[0].params
        self._wants_logprobs = params.logprobs is not None
        scored = params.prompt_logprobs is not None
        prefixes = [_prefix(service, job, at) for at in range(len(job.generates))]
        self._choices = [
            _Choice(prefix, scored=scored) for prefix in prefixes for _ in range(job.n)
        ]

    def gather(self, prompt: int, chunk: Chunk) -> None:
        """Keep what an answer sent at once will say."""
        choice = self._choices[prompt * self._job.n + chunk.choice]
        choice.texts.append(chunk.text)
        choice.logprobs += self._tokens(chunk)
        choice.end = chunk.end

    def whole(self) -> dict[str, Any]:
        """The answer sent at once."""
        choices = [self._whole(index, choice) for index, choice in enumerate(self._choices)]
        return self._head.object(choices) | {"usage": self._usage()}

    @property
    def prompts(self) -> int:
        """How many prompts the answer is to."""
        return len(self._job.generates)

    def chunk(self, prompt: int, chunk: Chunk) -> bytes | None:
        """One chunk of a streamed answer, as JSON, or None when there is nothing to show yet."""
        index = prompt * self._job.n + chunk.choice
        choice = self._choices[index]
        if choice.begun and chunk.end is None and not self._wants_logprobs:
            return self._more(index, choice, chunk.text) if chunk.text else None
        choice.end = chunk.end
        logprobs = self._tokens(chunk)
        text = chunk.text if choice.begun else choice.prefix + chunk.text
        if not text and not logprobs and chunk.end is None:
            return None
        shown = to_json(self._shown(index, choice, text, logprobs))
        choice.begun = True
        choice.offset += sum(len(one.token) for one in logprobs)
        return shown

    def _more(self, index: int, choice: _Choice, text: str) -> bytes:
        """A chunk of text and nothing else: most are, and all that changes is the text."""
        if choice.around is None:
            mark = f"the text of {self._head.id}"
            before, after = to_json(self._shown(index, choice, mark, [])).split(to_json(mark))
            choice.around = before, after
        before, after = choice.around
        return before + to_json(text) + after

    def _shown(
        self, index: int, choice: _Choice, text: str, logprobs: list[Token]
    ) -> dict[str, Any]:
        part = self._delta(choice, text) | {
            "index": index,
            "logprobs": self._logprobs(logprobs, choice.offset) if logprobs else None,
            **_ending(choice.end),
        }
        shown = self._head.object([part], chunk=True)
        return shown | {"usage": None} if self._job.include_usage else shown

    def usage_chunk(self) -> dict[str, Any] | None:
        """The last chunk, with usage and no choices, where it was asked for."""
        if not self._job.include_usage:
            return None
        return self._head.object([], chunk=True) | {"usage": self._usage()}

    def _whole(self, index: int, choice: _Choice) -> dict[str, Any]:
        text = choice.prefix + "".join(choice.texts)
        logprobs = None
        if self._wants_logprobs:
            logprobs = self._logprobs(choice.logprobs, choice.offset)
        said: dict[str, Any] = {"text": text}
        if self._job.chat:
            said = {"message": {"role": "assistant", "content": text, "refusal": None}}
        return said | {"index": index, "logprobs": logprobs, **_ending(choice.end)}

    def _delta(self, choice: _Choice, text: str) -> dict[str, Any]:
        if not self._job.chat:
            return {"text": text}
        role = {} if choice.begun else {"role": "assistant"}
        return {"delta": role | ({"content": text} if text or role else {})}

    def _tokens(self, chunk: Chunk) -> list[Token]:
        """The tokens of a chunk with log-probabilities, those of the prompt first."""
        if not self._wants_logprobs:
            return []
        return [*(chunk.prompt_logprobs or ()), *(chunk.logprobs or ())]

    def _logprobs(self, tokens: list[Token], offset: int) -> dict[str, Any]:
        if self._job.chat:
            return chat_logprobs([token for token in tokens if isinstance(token, TokenLogprob)])
        return completion_logprobs(tokens, offset)

    def _usage(self) -> dict[str, Any]:
        n = self._job.n
        return usage_body(
            (index // n, choice.end.usage)
            for index, choice in enumerate(self._choices)
            if choice.end is not None
        )


def _prefix(service: Service, job: Job, at: int) -> str:
    """The prompt's text, where the answer is to begin with it."""
    generate = job.generates[at]
    if not job.echo:
        return ""
    if generate.prompt is not None:
        return generate.prompt
    return service.decode(generate.prompt_ids or (), field="prompt")


def _ending(end: Ending | None) -> dict[str, Any]:
    if end is None:
        return {"finish_reason": None}
    return {"finish_reason": end.finish_reason, "seed": end.seed}
