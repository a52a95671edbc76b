"""docs/protocol.md against the code: every example is a message, every message has an example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import anyio
import msgspec
import pytest

from optimist import zmq_peer
from optimist.messages import codec
from optimist.messages.client import ClientHello, ClientMessage, Generate, ServerMessage
from optimist.messages.codec import encode
from optimist.messages.errors import Code
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.transport.dealer import Dealer
from optimist.transport.links import Links

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]
MESSAGES = {
    kind.__struct_config__.tag: kind
    for kind in (*get_args(ClientMessage), *get_args(ServerMessage))
}


def section(title: str) -> str:
    return PAGE.split(f"### {title}\n")[1].split("\n### ")[0].split("\n## ")[0]


def plain(message: Any) -> dict[str, Any]:
    """As the page writes it."""
    values: dict[str, Any] = json.loads(msgspec.json.encode(message))
    return values


def fields(kind: type) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["type"]))
def test_an_example_is_a_message_with_these_values(example: dict[str, Any]) -> None:
    message = msgspec.convert(example, ClientMessage | ServerMessage)
    values = plain(message)
    params = example.get("params", {})
    assert {key: values["params"][key] for key in params} == params
    assert {key: values[key] for key in example if key != "params"} == {
        key: value for key, value in example.items() if key != "params"
    }
    if type(message) in get_args(ServerMessage):
        assert values.keys() == example.keys()


def test_every_message_has_an_example_and_a_section() -> None:
    assert {example["type"] for example in EXAMPLES} == set(MESSAGES)
    for tag in MESSAGES:
        assert f'"type": "{tag}"' in section(str(tag))


@pytest.mark.parametrize("kind", MESSAGES.values(), ids=lambda kind: kind.__name__)
def test_every_field_is_explained_in_its_section(kind: type) -> None:
    text = section(str(kind.__struct_config__.tag))  # type: ignore[attr-defined]
    assert {name for name in fields(kind) if name not in text} == set()


def test_every_parameter_is_explained_with_its_default() -> None:
    text = section("generate")
    for name, default in {
        **plain(SamplingParams()),
        **plain(Generate(request="", params=SamplingParams())),
    }.items():
        if name in ("request", "params", "type"):
            continue
        (row,) = (
            line for line in text.splitlines() if re.match(rf"\|.*`{name}`.*\|.*\|.*\|", line)
        )
        assert json.loads(row.split("|")[2].strip().strip("`")) == default


def test_every_code_is_explained() -> None:
    assert {code for code in get_args(Code) if f"`{code}`" not in section("failed")} == set()


def test_the_bytes_of_the_hello_are_right() -> None:
    (block,) = re.findall(r"```hex\n(\w+)\n```", PAGE)
    hello = msgspec.msgpack.decode(bytes.fromhex(block), type=ClientHello)
    assert hello == ClientHello(version=1)
    without_defaults = {"type": "client_hello", "version": 1}
    assert bytes.fromhex(block) == msgspec.msgpack.encode(without_defaults)


def test_the_figures_are_those_of_the_code() -> None:
    for figure in (
        f"reads\nnothing for {zmq_peer.STUCK_AFTER:g} s",
        f"{zmq_peer.RATE:g} messages a second",
        f"{zmq_peer.BURST:g} at once",
        f"no news for {zmq_peer.PROBE_BUSY:g} s, or else after {zmq_peer.PROBE_IDLE:g} s",
        f"cancelled {zmq_peer.GRACE:g} s after",
        f"at most {codec.MAX_CLIENT_BYTES >> 20} MiB and nests at most {codec.MAX_CLIENT_DEPTH} deep",
    ):
        assert figure in PAGE


def hello(_: Admit) -> list[int]:
    return [*b"hello", EOS]


@pytest.mark.anyio
async def test_the_examples_of_a_client_get_answers_of_the_shape_shown(serve: Any) -> None:
    shapes = {example["type"]: example.keys() for example in EXAMPLES}
    seen: set[str] = set()
    asked = [
        encode(msgspec.convert(example, ClientMessage))
        for example in EXAMPLES
        if MESSAGES[example["type"]] in get_args(ClientMessage)
        and example["type"] != "cancel_request"
    ]
    async with serve(hello) as served:
        with Links() as links, anyio.fail_after(20):
            dealer = Dealer(links, served.endpoint)
            await dealer.connected()
            assert all(map(dealer.send, asked))
            while not {"server_hello", "delta", "finished", "failed", "stats", "pong"} <= seen:
                answer = msgspec.msgpack.decode(await dealer.receive())
                assert answer.keys() == shapes[answer["type"]]
                seen.add(answer["type"])
