"""What simulated clients ask for, and what must come of it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from optimist.messages.base import column
from optimist.messages.requests import Admit
from optimist.messages.slots import Sampling
from optimist.testing.oracle import Answer, NextToken, oracle

GREEDY = Sampling(temperature=0, seed=0)


class Wish(NamedTuple):
    """One request of one client.

    arrival: virtual seconds. deadline: seconds after arrival, None without one.
    window: tokens the client may be behind. cancel_after: tokens after which it leaves, None stays.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = GREEDY
    stop_ids: tuple[int, ...] = ()
    priority: int = 0
    cache_salt: str = ""
    use_cache: bool = True
    window: int = 1024
    arrival: float = 0.0
    deadline: float | None = None
    cancel_after: int | None = None

    def admit(
        self,
        request: int,
        emitted: list[int],
        *,
        scored: int = 1,
        incarnation: int,
        credit: int,
        start: float,
        strikes: int = 0,
    ) -> Admit:
        """The message that asks for it, behind the tokens that are there already.

        scored: tokens of the prompt whose log-probabilities are not wanted again.
        """
        sampling = self.sampling
        if scored >= len(self.prompt_ids):
            sampling = msgspec.structs.replace(sampling, prompt_logprobs=-1)
        return Admit(
            incarnation=incarnation,
            request=request,
            prompt_ids=column(self.prompt_ids),
            emitted_ids=column(emitted),
            max_tokens=self.max_tokens,
            sampling=sampling,
            stop_ids=column(self.stop_ids),
            priority=self.priority,
            deadline=None if self.deadline is None else start + self.deadline,
            cache_salt=self.cache_salt,
            use_cache=self.use_cache,
            credit=credit,
            strikes=strikes,
        )

    def answer(self, next_token: NextToken, max_model_len: int) -> Answer:
        """What ORACLE says."""
        return oracle(
            next_token,
            self.prompt_ids,
            self.sampling,
            max_tokens=self.max_tokens,
            stop_ids=self.stop_ids,
            max_model_len=max_model_len,
        )
