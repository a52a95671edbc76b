"""How many threads can compute at once, on machines of several kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from optimist.actors.worker.processors import processors, threads_of
from optimist.kernels.native.library import MOST_THREADS
from optimist.messages.errors import ConfigError


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processors to be used."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def topology(root: Path, siblings: dict[int, str]) -> None:
    for number, text in siblings.items():
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")


def quota(root: Path, text: str) -> None:
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text(text + "\n")


@pytest.mark.usefixtures("eight")
def test_every_processor_counts_where_nothing_else_is_known(tmp_path: Path) -> None:
    assert processors(tmp_path) == 8


@pytest.mark.usefixtures("eight")
def test_two_threads_of_a_core_count_once(tmp_path: Path) -> None:
    topology(tmp_path, {number: f"{number % 4},{number % 4 + 4}" for number in range(8)})
    assert processors(tmp_path) == 4


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("1000 100000", 1),
        ("garbage", 8),
    ],
)
def test_a_limit_of_processor_time_counts(tmp_path: Path, text: str, count: int) -> None:
    quota(tmp_path, text)
    assert processors(tmp_path) == count


def test_here_there_is_at_least_one() -> None:
    assert 1 <= processors() <= len(os.sched_getaffinity(0))


def test_what_is_given_computes_and_no_more_than_the_library_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert threads_of(3) == 3
    assert threads_of(MOST_THREADS) == MOST_THREADS
    with pytest.raises(
        ConfigError, match=rf"threads: native expects at most {MOST_THREADS}, got 513"
    ):
        threads_of(MOST_THREADS + 1)
    monkeypatch.setattr("optimist.actors.worker.processors.processors", lambda: MOST_THREADS + 88)
    assert threads_of(None) == MOST_THREADS
