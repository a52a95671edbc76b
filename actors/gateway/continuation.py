"""One continuation of a request: from token ids that have settled to chunks that can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from optimist.actors.gateway.chunks import Chunk, Ending
from optimist.actors.gateway.detokenize import Detokenizer
from optimist.actors.gateway.journal import Entry
from optimist.actors.gateway.logprobs import first_token, read_logprobs, read_scores
from optimist.actors.gateway.stop_strings import StopStrings
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.base import ints, size
from optimist.messages.client import TokenLogprob, Usage
from optimist.messages.params import SamplingParams
from optimist.messages.requests import FinishReason, Scored, Tokens


class Cut(NamedTuple):
    """A stop string was found. keep: tokens that stand, the one that completes it included."""

    keep: int


class Continuation:
    """Takes Tokens, keeps what the consumer has not taken yet as one growing chunk.

    It grows no larger than the credit, because the scheduler sends no more than that.
    """

    def __init__(
        self,
        choice: int,
        entry: Entry,
        params: SamplingParams,
        tokenizer: Tokenizer,
        *,
        want_text: bool,
    ) -> None:
        self.choice = choice
        self.entry = entry
        self.end: Ending | None = None
        self._tokenizer = tokenizer
        self._text = Detokenizer(tokenizer) if want_text else None
        self._stops = StopStrings(params.stop)
        self._stop_ids = frozenset(params.stop_token_ids)
        self._min_tokens = params.min_tokens
        self._logprobs: list[TokenLogprob] | None = None if params.logprobs is None else []
        self._scores = None if params.prompt_logprobs is None else [first_token(tokenizer, entry)]
        self._scores_taken = 1
        self._shown: list[str] = []
        self._end_taken = False

    @property
    def pending(self) -> bool:
        """Whether there is something to take."""
        return (
            len(self.entry.delivered) > self.entry.taken
            or self.entry.scored > self._scores_taken
            or bool(self._shown or (self.end and not self._end_taken))
        )

    def push(self, tokens: Tokens, skip: int) -> Cut | None:
        """Take the tokens behind the first `skip`. Returns the cut when a stop string is complete."""
        ids = ints(tokens.token_ids).tolist()
        logprobs = read_logprobs(self._tokenizer, ids, tokens.logprobs)
        if not self.entry.delivered:
            self.entry.cached_len = tokens.cached_len
        for at in range(skip, len(ids)):
            self._record(ids[at], logprobs.get(at))
            is_stop = tokens.finish == "stop" and at == len(ids) - 1
            if not is_stop and (stop := self._show(ids[at])) is not None:
                self._finish("stop", stop)
                return Cut(len(self.entry.delivered))
        if tokens.finish is not None:
            self.finish(tokens.finish)
        return None

    def score(self, scored: Scored, skip: int) -> None:
        """Take log-probabilities of the prompt behind the first `skip`."""
        ids = self.entry.prompt_ids[scored.first : scored.first + size(scored.logprobs.tokens)]
        if self._scores is not None:
            self._scores += read_scores(self._tokenizer, ids, scored.logprobs)[skip:]
        self.entry.scored += len(ids) - skip

    def finish(self, reason: FinishReason) -> None:
        """End it with what is there. Text that was held back is shown now."""
        if self._text is not None:
            self._shown.append(self._stops.push(self._text.finish(), may_stop=False)[0])
            self._shown.append(self._stops.finish())
        self._finish(reason, self._stop_id() if reason == "stop" else None)

    def take(self) -> Chunk:
        """Everything pending, as one chunk."""
        ids, start = self.entry.delivered, self.entry.taken
        chunk = Chunk(
            choice=self.choice,
            index=start,
            token_ids=tuple(ids[start:]),
            text="".join(self._shown),
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
            prompt_logprobs=tuple(self._scores) if self._scores else None,
            end=self.end,
        )
        self.entry.taken = len(ids)
        self._shown.clear()
        self._logprobs = None if self._logprobs is None else []
        self._scores = None if self._scores is None else []
        self._scores_taken = self.entry.scored
        self._end_taken = self.end is not None
        return chunk

    def _record(self, token: int, logprob: TokenLogprob | None) -> None:
        self.entry.delivered.append(token)
        if self._logprobs is not None and logprob is not None:
            self._logprobs.append(logprob)

    def _show(self, token: int) -> str | None:
        """Show what this token completes. Returns the stop string that it completes."""
        if self._text is None:
            return None
        may_stop = len(self.entry.delivered) >= self._min_tokens
        text, found = self._stops.push(self._text.push(token), may_stop=may_stop)
        if text:
            self._shown.append(text)
        return found.stop if found else None

    def _stop_id(self) -> int | None:
        ids: Sequence[int] = self.entry.delivered
        return ids[-1] if ids and ids[-1] in self._stop_ids else None

    def _finish(self, reason: FinishReason, stop: str | int | None) -> None:
        self.end = Ending(
            finish_reason=reason,
            stop=stop,
            usage=Usage(
                prompt_tokens=self.entry.prompt_len,
                completion_tokens=len(self.entry.delivered),
                cached_tokens=self.entry.cached_len,
            ),
            seed=self.entry.seed,
        )
