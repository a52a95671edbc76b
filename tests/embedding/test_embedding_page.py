"""The programs in docs/embedding.md run, with a scripted engine in place of a real one."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import optimist
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS, ByteTokenizer
from optimist.testing.scripted_engine import ScriptedEngine
from optimist.zmq_front import serve_zmq

PAGE = (Path(__file__).parents[2] / "docs/embedding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def script(_: Admit) -> list[int]:
    return [*b" Paris.", EOS]


class Toy(ScriptedEngine):
    def __init__(self) -> None:
        super().__init__(script, tokenizer=ByteTokenizer(vocab_size=4096))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a block as a program of its own."""
    monkeypatch.setattr(optimist, "Engine", Toy, raising=False)

    def run(block: str) -> dict[str, Any]:
        program = tmp_path / "program.py"
        program.write_text(block, encoding="utf-8")
        return runpy.run_path(str(program), run_name="__main__")

    return run


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs_as_it_stands(
    run: Any, block: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(block)
    assert ("print(" not in block) or "Paris" in capsys.readouterr().out


def test_the_client_of_the_page_asks_a_served_engine(run: Any, tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if "Client(" in block)
    tmp_path.chmod(0o700)

    async def main() -> str:
        endpoint = f"ipc://{tmp_path}/gateway.sock"
        async with Toy() as engine, serve_zmq(engine.gateway, endpoint):
            text: str = await run(block)["ask"](endpoint)
            return text

    assert asyncio.run(main()) == " Paris."


def test_every_named_error_and_option_exists() -> None:
    from optimist.engine_options import option_names

    errors = re.findall(r"`([A-Z]\w+(?:Error|Request|Failed|Exceeded|Owner))`", PAGE)
    assert errors and set(errors) <= set(optimist.__all__)
    for option in ("depth", "dtype", "max_model_len", "kv_memory_mb", "threads", "credit"):
        assert f"`{option}`" in PAGE and option in option_names()
