"""Requests whose answer is known, and readers that notice a lost, doubled or retracted token."""

from __future__ import annotations

from typing import NamedTuple

from optimist.actors.gateway.actor import Gateway
from optimist.messages.client import Generate
from optimist.messages.params import SamplingParams
from optimist.messages.requests import FinishReason
from optimist.messages.slots import Sampling
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.oracle import IntegerOracle, oracle


class Asked(NamedTuple):
    """One request. It is not ended by an end token."""

    prompt_ids: tuple[int, ...]
    max_tokens: int = 32
    temperature: float = 0.0
    seed: int = 0

    def generate(self) -> Generate:
        """The request as a message."""
        params = SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            ignore_eos=True,
        )
        return Generate(request="", prompt_ids=self.prompt_ids, params=params, want_text=False)


def answer_to(asked: Asked, model: IntegerModel, max_model_len: int) -> list[int]:
    """The tokens that the integer model gives, by the oracle."""
    sampling = Sampling(temperature=asked.temperature, seed=asked.seed)
    return oracle(
        IntegerOracle(model),
        asked.prompt_ids,
        sampling,
        max_tokens=asked.max_tokens,
        max_model_len=max_model_len,
    ).token_ids


class Follower:
    """Reads one request. token_ids: delivered so far. finish: set when it is complete."""

    def __init__(self, gateway: Gateway, asked: Asked) -> None:
        self.asked = asked
        self.token_ids: list[int] = []
        self.finish: FinishReason | None = None
        self._gateway = gateway

    async def follow(self) -> None:
        """Read to the end. Raises AssertionError when a chunk does not continue the one before."""
        stream = await self._gateway.submit(self.asked.generate())
        async for chunk in stream:
            assert chunk.index == len(self.token_ids), (chunk, self.token_ids)
            self.token_ids += chunk.token_ids
            self.finish = chunk.finish_reason
