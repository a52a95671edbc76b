"""`optimist serve --zmq-keys`: the client protocol encrypted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zmq
from cli_scene import toy_config

from optimist.cli.parser import parse
from optimist.client import Client
from optimist.messages.errors import ConfigError
from optimist.messages.params import SamplingParams
from optimist.served_gateway import curve_keys
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.transport.endpoints import CurveKeys
from optimist.troupe import bring_up

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _pair() -> CurveKeys:
    public, secret = zmq.curve_keypair()
    return CurveKeys(public=public.decode(), secret=secret.decode())


def _file(path: Path, keys: CurveKeys, mode: int = 0o600) -> str:
    path.write_bytes(msgspec.json.encode(keys))
    path.chmod(mode)
    return str(path)


async def test_who_has_the_public_key_is_served(tmp_path: Path) -> None:
    server, client = _pair(), _pair()
    keys = _file(tmp_path / "keys.json", server)
    arguments = ["serve", "--placement", "inline", "--port", "0", "--zmq", "tcp://0.0.0.0:*"]
    config = toy_config(parse([*arguments, "--zmq-keys", keys]))
    async with bring_up(config, ByteTokenizer()) as troupe:
        port = troupe.details["gateway"].rpartition(":")[2]
        known = msgspec.structs.replace(client, server=server.public)
        async with Client(f"tcp://127.0.0.1:{port}", curve=known) as talks:
            answer = await talks.complete("abc", SamplingParams(max_tokens=3, ignore_eos=True))
            assert len(answer.token_ids) == 3


async def test_without_keys_nobody_else_may_be_listened_to() -> None:
    arguments = ["serve", "--placement", "inline", "--port", "0", "--zmq", "tcp://0.0.0.0:*"]
    with pytest.raises(ConfigError, match=r"tcp://0\.0\.0\.0"):
        async with bring_up(toy_config(parse(arguments)), ByteTokenizer()):
            pass


def test_keys_that_others_can_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"zmq_keys: expected .* to be its owner's alone"):
        curve_keys(_file(tmp_path / "keys.json", _pair(), 0o644))


@pytest.mark.parametrize("text", ["", "{}", '{"public": "x", "secret": "y"}', "nonsense"])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        curve_keys(str(path))
    with pytest.raises(ConfigError, match="zmq_keys: cannot read"):
        curve_keys(str(tmp_path / "none.json"))
