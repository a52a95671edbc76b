"""`optimist serve` as a program: the real model in real processes, its line, its doors, its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import openai
import pytest
from house import ROOT

LINE = re.compile(r"optimist: (\S+) is ready at (http://\S+) and (ipc://\S+)\n")


class Served(NamedTuple):
    """A server that is ready."""

    process: subprocess.Popen[str]
    model: str
    url: str
    zmq: Path

    def stop(self, how: signal.Signals) -> int:
        """Tell it to stop, and wait. Returns its exit status; nothing of it may be left."""
        children = _children(self.process.pid)
        assert len(children) == 2
        self.process.send_signal(how)
        return self.wait(children)

    def wait(self, children: list[int]) -> int:
        """Wait for the end of it and of these children."""
        status = self.process.wait(60)
        assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
        assert not self.zmq.exists()
        return status


def _engine_room(pid: int) -> int:
    """The child of a server that computes."""
    return next(
        child
        for child in _children(pid)
        if b"worker+builder+scheduler" in Path(f"/proc/{child}/cmdline").read_bytes()
    )


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is kept for one who, as we do, may take it while nobody listens there."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]


@pytest.fixture
def served(tmp_path: Path, port: int, request: pytest.FixtureRequest) -> Iterator[Served]:
    tmp_path.chmod(0o700)
    zmq = tmp_path / "clients.sock"
    options = ["--port", str(port), "--zmq", f"ipc://{zmq}", "--threads", "1"]
    options += getattr(request, "param", ())
    environ = os.environ | {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "optimist", "serve", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
    ) as process:
        try:
            assert process.stdout is not None
            line = LINE.fullmatch(process.stdout.readline())
            assert line is not None
            assert line[2] == f"http://127.0.0.1:{port}"
            yield Served(process, line[1], line[2], zmq)
        finally:
            process.kill()
        assert process.stdout.read() == ""
    assert [path.name for path in tmp_path.iterdir()] == []


def test_clients_are_served_until_sigterm(served: Served) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="-", max_retries=0) as client:
        answer = client.completions.create(
            model=served.model, prompt="The capital of France is", max_tokens=4, temperature=0
        )
        assert answer.choices[0].text.startswith(" Paris")
        streamed = "".join(
            chunk.choices[0].text
            for chunk in client.completions.create(
                model=served.model,
                prompt="The capital of France is",
                max_tokens=4,
                temperature=0,
                stream=True,
            )
        )
        assert streamed == answer.choices[0].text
        both = client.chat.completions.create(
            model=served.model,
            messages=[{"role": "user", "content": "Name a colour."}],
            max_completion_tokens=5,
            n=2,
            seed=4,
            logprobs=True,
            top_logprobs=2,
        )
        assert [choice.index for choice in both.choices] == [0, 1]
        for choice in both.choices:
            assert choice.logprobs is not None and choice.logprobs.content is not None
            assert all(token.logprob <= 0 for token in choice.logprobs.content)
            assert len(choice.logprobs.content[0].top_logprobs) == 2
    assert served.stop(signal.SIGTERM) == 0


def _stream(max_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {"prompt": "Once upon a time", "max_tokens": max_tokens}
    return body | {"stream": True, "ignore_eos": True, "temperature": 0}


def _drains(client: httpx.Client) -> bool:
    return client.get("/ready").status_code == 503


def test_what_runs_is_finished_and_nothing_more_is_taken(served: Served) -> None:
    children = _children(served.process.pid)
    with (
        httpx.Client(timeout=60, base_url=served.url) as client,
        client.stream("POST", "/v1/completions", json=_stream(120)) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        # It must not be finished before it has been seen that nothing more is taken.
        os.kill(room := _engine_room(served.process.pid), signal.SIGSTOP)
        served.process.send_signal(signal.SIGTERM)
        while not _drains(client):
            pass
        refused = client.post("/v1/completions", json={"prompt": "x"})
        os.kill(room, signal.SIGCONT)
        said = [line for line in lines if line]
    assert refused.status_code == 503
    assert "draining" in refused.json()["error"]["message"]
    assert said[-1] == "data: [DONE]"
    assert served.wait(children) == 0


def test_an_open_stream_ends_with_an_error_when_the_server_is_told_twice(served: Served) -> None:
    with (
        httpx.Client(timeout=60, base_url=served.url) as client,
        client.stream("POST", "/v1/completions", json=_stream(2000)) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        served.process.send_signal(signal.SIGTERM)
        while not _drains(client):
            pass
        assert served.stop(signal.SIGINT) == 0
        said = [line for line in lines if line]
    assert '"error"' in said[-1]
    assert "[DONE]" not in said[-1]


@pytest.mark.parametrize("served", [("--drain-timeout", "0")], indirect=True)
def test_an_open_stream_ends_with_an_error_when_its_time_is_over(served: Served) -> None:
    with (
        httpx.Client(timeout=60, base_url=served.url) as client,
        client.stream("POST", "/v1/completions", json=_stream(2000)) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        assert served.stop(signal.SIGTERM) == 0
        said = [line for line in lines if line]
    assert '"error"' in said[-1]
    assert "[DONE]" not in said[-1]


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "optimist", "serve", "--port", str(port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"optimist: --host 127.0.0.1 --port {port}: ")
