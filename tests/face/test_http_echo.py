"""echo with logprobs, as those who evaluate models ask for it, in front of real actors on a real network."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest

from optimist import Engine
from optimist.http.app import create_app
from optimist.http.gateway_service import GatewayService
from optimist.http.shapes import LEAST_LOGPROB, completion_logprobs, to_json
from optimist.messages.client import Alternative, TokenLogprob
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.torch_oracle import ToyOracle
from optimist.testing.torch_toy import TOY, toy_weights

pytestmark = pytest.mark.anyio
PROMPT = [72, 101, 108, 108, 111, 44, 32, 72, 101, 108, 108, 111]
VOCAB = 272


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def engine(**options: Any) -> Engine:
    sizes: dict[str, Any] = {"block_size": 4, "kv_blocks": 16, "max_slots": 4, "max_model_len": 48}
    return Engine(
        placement="inline",
        executor="optimist.testing.torch_toy:ToyExecutor",
        executor_options={"vocab_size": VOCAB},
        tokenizer=ByteTokenizer(),
        **(sizes | options),
    )


CONFIG = replace(TOY, vocab_size=VOCAB)
ORACLE = ToyOracle(CONFIG, toy_weights(CONFIG))


def client(of: Engine) -> httpx.AsyncClient:
    app = create_app(GatewayService(lambda: of.gateway))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test/v1")


def likely(tokens: list[int]) -> list[float]:
    """Of each token but the first, behind those before it, by definition."""
    said = []
    for at in range(1, len(tokens)):
        logits = ORACLE.logits(tokens[:at])
        said.append(float(logits[tokens[at]] - np.log(np.exp(logits).sum())))
    return said


def strict(answer: httpx.Response) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert answer.status_code == 200, answer.text
    return json.loads(answer.content, parse_constant=refuse)


@pytest.mark.parametrize("chunk", [3, 512])
async def test_a_harness_gets_every_token_of_prompt_and_text(chunk: int) -> None:
    body = {
        "prompt": [PROMPT, PROMPT[:5]],
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "seed": 1234,
        "echo": True,
        "ignore_eos": True,
    }
    async with engine(max_chunk=chunk) as running, client(running) as http:
        answers = [strict(await http.post("/completions", json=body)) for _ in range(2)]
        assert [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers] == [0, 0]
        for answer in answers:
            for choice, prompt in zip(answer["choices"], (PROMPT, PROMPT[:5]), strict=True):
                said = choice["logprobs"]
                logits = ORACLE.logits(prompt)
                right = likely([*prompt, int(logits.argmax())])
                assert said["token_logprobs"][0] is said["top_logprobs"][0] is None
                np.testing.assert_allclose(said["token_logprobs"][1:], right, atol=1e-5)
                assert said["text_offset"] == list(range(len(prompt) + 1))
                assert "".join(said["tokens"]) == choice["text"]
                for value, top in zip(
                    said["token_logprobs"][1:], said["top_logprobs"][1:], strict=True
                ):
                    assert 1 <= len(top) <= 2 and value in top.values()


@pytest.mark.parametrize("top_k", [0, 1])
async def test_streamed_events_add_up_to_the_whole(top_k: int) -> None:
    body = {"prompt": "Hello, Hello", "max_tokens": 4, "logprobs": 5, "echo": True, "seed": 3}
    body |= {"top_k": top_k, "temperature": 1, "ignore_eos": True, "n": 2}
    async with engine(max_chunk=5) as running, client(running) as http:
        whole = strict(await http.post("/completions", json=body))
        streamed = await http.post("/completions", json=body | {"stream": True})
    events = [
        json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")
    ]
    for index, right in enumerate(whole["choices"]):
        parts = [c for e in events for c in e["choices"] if c["index"] == index]
        assert "".join(part["text"] for part in parts) == right["text"]
        for column, values in right["logprobs"].items():
            told = [part["logprobs"][column] for part in parts if part["logprobs"]]
            joined = [entry for some in told for entry in some]
            assert joined == values if column != "token_logprobs" else len(joined) == len(values)


async def test_a_prompt_alone_is_told_without_a_token_behind_it() -> None:
    body = {"prompt": "Hello", "max_tokens": 0, "echo": True}
    async with engine() as running, client(running) as http:
        scored = strict(await http.post("/completions", json=body | {"logprobs": 0}))
        plain = strict(await http.post("/completions", json=body))
        nothing = await http.post("/completions", json=body | {"echo": False})
    (choice,) = scored["choices"]
    np.testing.assert_allclose(
        choice["logprobs"]["token_logprobs"][1:], likely(PROMPT[:5]), atol=1e-5
    )
    assert (choice["text"], choice["finish_reason"]) == ("Hello", "length")
    assert scored["usage"]["completion_tokens"] == 0
    assert (plain["choices"][0]["text"], plain["choices"][0]["logprobs"]) == ("Hello", None)
    assert nothing.status_code == 400
    assert nothing.json()["error"]["param"] == "max_tokens"


def test_what_json_cannot_say_and_names_that_two_tokens_share() -> None:
    lost = "\N{REPLACEMENT CHARACTER}"
    top = (
        Alternative(id=1, token=lost, logprob=-0.5),
        Alternative(id=2, token="b", logprob=-math.inf),
    )
    token = TokenLogprob(id=3, token=lost, logprob=-math.inf, top=top)
    said = completion_logprobs([token], 0)
    assert b"null" not in to_json(said)
    assert said["token_logprobs"] == [LEAST_LOGPROB]
    assert said["top_logprobs"] == [{lost: -0.5, "b": LEAST_LOGPROB}]
