"""What a child writes: passed on line by line, and the last of it remembered."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from optimist.actors.runtime.process import exit_text
from optimist.actors.runtime.words import Words

pytestmark = pytest.mark.anyio


def words() -> tuple[Words, int]:
    ours, theirs = os.pipe()
    return Words(os.fdopen(ours, "rb", buffering=0)), theirs


async def test_lines_are_passed_on_whole_and_the_rest_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard, pipe = words()
    os.write(pipe, b"one\ntw")
    heard.read_nowait()
    assert capsys.readouterr().err == "one\n"
    assert heard.last() == "one\ntw"
    os.write(pipe, b"o\nthree")
    heard.read_nowait()
    os.close(pipe)
    heard.read_nowait()
    assert capsys.readouterr().err == "two\nthree\n"
    assert heard.last() == "one\ntwo\nthree"
    heard.close()


async def test_reading_goes_on_until_the_other_end_lets_go() -> None:
    heard, pipe = words()
    async with anyio.create_task_group() as group:
        group.start_soon(heard.read)
        await anyio.wait_all_tasks_blocked()
        os.write(pipe, b"late\n")
        os.close(pipe)
    assert heard.last() == "late"
    heard.close()


async def test_only_the_last_lines_are_remembered_and_long_ones_are_cut() -> None:
    heard, pipe = words()
    os.write(pipe, b"".join(b"line %d\n" % i for i in range(500)))
    os.write(pipe, b"x" * 5000)
    heard.read_nowait()
    last = heard.last().splitlines()
    assert last[-2] == "line 499" and len(last) == 40
    assert last[-1] == "x" * 400
    os.close(pipe)
    heard.close()


async def test_a_line_without_end_costs_bounded_memory(capsys: pytest.CaptureFixture[str]) -> None:
    heard, pipe = words()
    os.set_blocking(pipe, False)
    for _ in range(10):
        os.write(pipe, b"y" * 60_000)
        heard.read_nowait()
    assert 400_000 < len(capsys.readouterr().err.replace("\n", "")) <= 600_000
    os.close(pipe)
    heard.close()


async def test_what_is_not_utf_8_is_kept_readable() -> None:
    heard, pipe = words()
    os.write(pipe, b"caf\xe9\n")
    heard.read_nowait()
    assert heard.last() == "caf\ufffd"
    os.close(pipe)
    heard.close()


async def test_without_a_stderr_of_our_own_it_is_remembered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    heard, pipe = words()
    os.write(pipe, b"quiet\n")
    heard.read_nowait()
    assert heard.last() == "quiet"
    os.close(pipe)
    heard.close()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exited with status 0"),
        (3, "exited with status 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-63, "was killed by signal 63"),
    ],
)
async def test_exit_status_in_words(status: int, text: str) -> None:
    assert exit_text(status) == text


async def test_a_pause_comes_behind_what_is_said_or_when_nothing_is_for_too_long() -> None:
    heard, pipe = words()
    await heard.pause(60.0, within=0.01)
    passed = anyio.Event()

    async def wait() -> None:
        await heard.pause(0.01, within=60.0)
        passed.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.1)
            assert not passed.is_set()
            os.write(pipe, b"where it was\n")
            heard.read_nowait()
    os.close(pipe)
    heard.close()
