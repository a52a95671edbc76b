"""What the scheduler keeps about one live request, whether it holds a slot or not."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import ints
from optimist.messages.requests import Admit, FinishReason
from optimist.messages.slots import Sampling

FAR = 2**31 - 1
"""a limit that no request reaches, and that fits a column"""


@dataclass(slots=True, eq=False)
class Request:
    """A live request.

    tokens: prompt, then emitted tokens, [N] int32; kept in the slot's columns while it holds one.
    token_limit, credit_limit: totals, prompt included, that the request may not pass.
    deadline: on the scheduler's clock, infinite without one. arrival: counts Admits.
    generation: of its latest admission, -1 before the first. slot: -1 while it holds none.
    cached_len: prompt tokens found in the prefix cache at the first admission.
    scored: prompt tokens whose log-probabilities the gateway has, the first, which has none, included.
    given: emitted tokens that another life of the scheduler had sent. strikes: worker deaths it was in.
    tried: since its last strike it was in a step alone.
    drafted, accepted: drafts verified for it, and those that were right.
    overtaken: requests that arrived later and were admitted earlier.
    use_cache: whether its prefixes are shared. share_drafts: and its text, by a proposer that remembers
    texts: what its Admit says, whatever the engine caches.
    digests: of its full blocks, as far as they have been computed.
    """

    id: int
    tokens: NDArray[np.int32]
    prompt_len: int
    token_limit: int
    credit_limit: int
    stop_ids: NDArray[np.int32]
    sampling: Sampling
    priority: int
    deadline: float
    salt: str
    use_cache: bool
    share_drafts: bool
    trace: str
    arrival: int
    given: int
    generation: int = -1
    slot: int = -1
    cached_len: int = 0
    scored: int = 1
    strikes: int = 0
    tried: bool = False
    drafted: int = 0
    accepted: int = 0
    overtaken: int = 0
    digests: list[bytes] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        """Order of service: priority, then arrival; smaller is earlier."""
        return self.priority, self.arrival

    @property
    def suspect(self) -> bool:
        """Whether its next step must be its own, so that nobody else is struck if that dies too."""
        return self.strikes > 0 and not self.tried

    @property
    def has_credit(self) -> bool:
        """Whether there is something that could be sent. Of a request that holds no slot."""
        return self.unscored or len(self.tokens) < self.credit_limit

    @property
    def unscored(self) -> bool:
        """Whether log-probabilities of its prompt are still wanted."""
        return self.sampling.prompt_logprobs >= 0 and self.scored < self.prompt_len

    @property
    def choice(self) -> Sampling:
        """How the worker is to choose and what it is to report, of what has not been reported."""
        if self.sampling.prompt_logprobs < 0 or self.unscored:
            return self.sampling
        return msgspec.structs.replace(self.sampling, prompt_logprobs=-1)


def request_of(admit: Admit, arrival: int) -> Request:
    """The request that an Admit speaks of."""
    prompt, emitted = ints(admit.prompt_ids), ints(admit.emitted_ids)
    tokens = np.concatenate([prompt, emitted])
    return Request(
        id=admit.request,
        tokens=tokens,
        prompt_len=len(prompt),
        token_limit=min(len(prompt) + admit.max_tokens, FAR),
        credit_limit=min(len(tokens) + max(admit.credit, 0), FAR),
        stop_ids=ints(admit.stop_ids),
        sampling=admit.sampling,
        priority=admit.priority,
        deadline=float("inf") if admit.deadline is None else admit.deadline,
        salt=admit.cache_salt,
        use_cache=admit.use_cache,
        share_drafts=admit.use_cache,
        trace=admit.trace,
        arrival=arrival,
        given=len(emitted),
        strikes=admit.strikes,
    )


def finish_of(request: Request, context_limit: int) -> FinishReason | None:
    """Why a request that holds no slot is complete already, or None while it is not."""
    if request.unscored:
        return None
    emitted = len(request.tokens) - request.prompt_len
    if emitted and request.tokens[-1] in request.stop_ids:
        return "stop"
    if len(request.tokens) >= request.token_limit:
        return "length"
    return "length" if emitted and len(request.tokens) >= context_limit else None
