"""What is known of a live request: enough to admit it to a scheduler that has never heard of it."""

from __future__ import annotations

import msgspec

from optimist.messages.base import column, ints, size
from optimist.messages.requests import Admit, Placed, Scored, Tokens


class Entry:
    """One request as the scheduler knows it: a prompt, one seed, the tokens delivered so far.

    Counts of tokens, each at most the next: taken (by the consumer), len(delivered), allowed (that
    the scheduler may have sent). scored: prompt tokens whose log-probabilities have come, the first,
    which has none, included. admissions: how often it has been admitted. placed: it is in steps of the
    present scheduler. strikes: worker deaths that it was in.
    """

    def __init__(self, like: Admit, request: int, seed: int) -> None:
        replace = msgspec.structs.replace
        self._first = replace(like, request=request, sampling=replace(like.sampling, seed=seed))
        self._window = like.credit
        self.delivered: list[int] = []
        self.taken = 0
        self.scored = 1
        self.cached_len = 0
        self.allowed = 0
        self.admissions = 0
        self.placed = False
        self.strikes = 0

    @property
    def request(self) -> int:
        """Its number, unique over all incarnations of the gateway."""
        return self._first.request

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt."""
        return size(self._first.prompt_ids)

    @property
    def prompt_ids(self) -> list[int]:
        """The prompt."""
        ids: list[int] = ints(self._first.prompt_ids).tolist()
        return ids

    @property
    def unscored(self) -> bool:
        """Whether log-probabilities of the prompt are wanted and have not all come."""
        return self._first.sampling.prompt_logprobs >= 0 and self.scored < self.prompt_len

    @property
    def busy(self) -> bool:
        """Whether the scheduler has something to do for it."""
        return self.unscored or self.allowed > len(self.delivered)

    @property
    def seed(self) -> int:
        """The seed that keys its noise."""
        return self._first.sampling.seed

    def admit(self, incarnation: int) -> Admit:
        """The message that admits it, behind what has been delivered, with the credit that is left."""
        self.admissions += 1
        self.placed = False
        self.allowed = max(self._wanted(), len(self.delivered))
        sampling = self._first.sampling
        if not self.unscored:
            sampling = msgspec.structs.replace(sampling, prompt_logprobs=-1)
        return msgspec.structs.replace(
            self._first,
            incarnation=incarnation,
            sampling=sampling,
            emitted_ids=column(self.delivered),
            credit=self.allowed - len(self.delivered),
            strikes=self.strikes,
        )

    def place(self, placed: Placed) -> None:
        """The scheduler has put it into a step, or lets it wait."""
        self.placed = not placed.waits
        self.strikes = max(self.strikes, placed.strikes)

    def repeated(self, tokens: Tokens) -> int | None:
        """How many leading tokens of the message are known already; None when some are missing."""
        known = len(self.delivered) - tokens.index
        return None if known < 0 else min(known, size(tokens.token_ids))

    def scored_before(self, scored: Scored) -> int | None:
        """The same for tokens of the prompt."""
        known = self.scored - scored.first
        return None if known < 0 else min(known, size(scored.logprobs.tokens))

    def due(self) -> int:
        """Credit that is worth a Grant now: half a window, or all that is left to allow."""
        wanted = self._wanted()
        due = wanted - self.allowed
        return due if 2 * due >= self._window or wanted == self._first.max_tokens else 0

    def _wanted(self) -> int:
        return min(self.taken + self._window, self._first.max_tokens)
