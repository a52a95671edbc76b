"""Every Python example runs, with a scripted engine in place of a real one."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import httpx
import pytest

import optimist
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(_: Admit) -> list[int]:
    return [*b" a story.", EOS]


class Toy(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__(script)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimist, "Engine", Toy, raising=False)


def load(name: str, run_name: str = "example") -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name), run_name=run_name)


def test_there_is_a_test_for_every_example() -> None:
    of_the_contract = {"exact_consumer.py"}  # tests/docs/test_length_contract.py
    assert {path.name for path in EXAMPLES.glob("*.py")} - of_the_contract == {
        "embed_asyncio.py",
        "embed_trio.py",
        "fastapi_app.py",
    }


@pytest.mark.parametrize("name", ["embed_asyncio.py", "embed_trio.py"])
def test_a_program_prints_the_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name, "__main__")
    assert " a story." in capsys.readouterr().out


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_web_application_streams_and_says_how_it_is() -> None:
    app = load("fastapi_app.py")["app"]
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        answer = await client.get("/story", params={"about": "cats"})
        assert (answer.status_code, answer.text) == (200, " a story.")
        assert (await client.get("/health")).json()["healthy"] is True
