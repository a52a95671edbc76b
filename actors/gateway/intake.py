"""From a Generate to the continuations and the Admits that serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import anyio
import anyio.to_thread

from optimist.actors.gateway.continuation import Continuation
from optimist.actors.gateway.journal import Entry
from optimist.actors.gateway.prompts import encode_prompt, is_quick
from optimist.actors.gateway.seeds import derive
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.actors.gateway.validation import check_request, output_limit, sampling, stop_ids
from optimist.messages.base import column
from optimist.messages.client import Generate
from optimist.messages.errors import InvalidRequest
from optimist.messages.requests import Admit

ENCODERS = 2
"""threads that tokenise long prompts at once"""
ENCODE_TIMEOUT = 30.0
"""seconds for one prompt to be rendered and tokenised"""


class Intake:
    """Checks requests, encodes their prompts and draws up their Admits. Sends nothing.

    max_model_len: tokens of one request, None until it is known.
    """

    def __init__(
        self,
        incarnation: int,
        tokenizer: Tokenizer,
        *,
        credit: int,
        max_model_len: int | None,
        draw: Callable[[], int],
    ) -> None:
        self.tokenizer = tokenizer
        self.max_model_len = max_model_len
        self._incarnation = incarnation
        self._credit = credit
        self._draw = draw
        self._numbers: Iterator[int] = count(incarnation << 32)
        self._threads: anyio.CapacityLimiter | None = None

    def check(self, generate: Generate) -> None:
        """Raise InvalidRequest for what can be seen before the prompt is encoded."""
        check_request(generate, self.tokenizer.vocab_size)

    def encode(self, generate: Generate) -> list[int]:
        """The prompt's token ids, here and now."""
        return encode_prompt(generate, self.tokenizer)

    async def encode_aside(self, generate: Generate) -> list[int]:
        """The prompt's token ids; templates and long texts in a thread, within a time limit."""
        if is_quick(generate):
            return self.encode(generate)
        self._threads = self._threads or anyio.CapacityLimiter(ENCODERS)
        work = partial(self.encode, generate)
        with anyio.move_on_after(ENCODE_TIMEOUT):
            return await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=self._threads
            )
        raise InvalidRequest(
            f"prompt: expected to be rendered and tokenised within {ENCODE_TIMEOUT:g} s, it was not"
        )

    def continuations(
        self, generate: Generate, prompt_ids: list[int], received: float
    ) -> tuple[Continuation, ...]:
        """One for each of the n. Raises TooLarge or InvalidRequest when the prompt does not fit.

        received: when the request came, from which its deadline counts.
        """
        params = generate.params
        seed = params.seed if params.seed is not None else self._draw()
        stops = stop_ids(params, self.tokenizer)
        deadline = generate.deadline_ms
        first = Admit(
            incarnation=self._incarnation,
            request=0,
            prompt_ids=column(prompt_ids),
            max_tokens=output_limit(params, len(prompt_ids), self.max_model_len),
            sampling=sampling(params, seed, stops),
            stop_ids=stops,
            priority=generate.priority,
            deadline=None if deadline is None else received + deadline / 1000,
            cache_salt=generate.cache_salt,
            credit=self._credit,
            trace=generate.trace,
        )
        return tuple(
            Continuation(
                choice,
                Entry(first, next(self._numbers), derive(seed, choice)),
                params,
                self.tokenizer,
                want_text=generate.want_text,
            )
            for choice in range(params.n)
        )
