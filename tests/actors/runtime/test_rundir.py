"""The private directory of an engine, and what a later engine clears away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from optimist.actors.runtime.rundir import clear_dead, run_directory
from optimist.messages.errors import ConfigError
from optimist.transport.endpoints import ipc

DIE = """
import os, sys
from optimist.actors.runtime.rundir import run_directory
with run_directory() as path:
    (path / "worker.sock").touch()
    print(path, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def root(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


def test_it_is_private_and_gone_after_leaving(root: Path) -> None:
    with run_directory() as path:
        assert path.parent == root
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        (path / "worker.sock").touch()
    assert list(root.iterdir()) == []


def test_it_is_gone_after_an_exception(root: Path) -> None:
    with pytest.raises(KeyError), run_directory():
        raise KeyError
    assert list(root.iterdir()) == []


def test_two_engines_have_two_and_the_second_leaves_the_first_alone() -> None:
    with run_directory() as first, run_directory() as second:
        assert first != second
        assert first.is_dir()


def test_the_next_start_clears_the_directory_of_a_killed_engine(root: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", DIE], check=False, capture_output=True, text=True
    )
    assert killed.returncode == -9, killed.stderr
    left = Path(killed.stdout.strip())
    assert (left / "worker.sock").exists()
    with run_directory():
        assert not left.exists()


def test_what_is_not_proven_dead_stays(root: Path, tmp_path: Path) -> None:
    unlocked = root / "optimist-nolock"
    unlocked.mkdir()
    other = root / "other-12345678"
    other.mkdir()
    (tmp_path / "lock").touch()
    link = root / "optimist-link"
    link.symlink_to(tmp_path)
    clear_dead(root)
    assert unlocked.is_dir() and other.is_dir() and link.is_symlink()
    assert (tmp_path / "lock").exists()


def test_clearing_a_place_that_does_not_exist_does_nothing(root: Path) -> None:
    clear_dead(root / "missing")


def test_a_path_too_long_for_a_socket_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = root / ("d" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with run_directory() as path:
        assert deep not in path.parents
        assert ipc(path, "scheduler")


def test_a_place_that_is_just_short_enough_fits_every_actor(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 107 - len("/optimist-12345678/scheduler.sock") - len(os.fsencode(root)) - 1
    edge = root / ("e" * room)
    edge.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(edge))
    with run_directory() as path:
        assert path.parent == edge
        assert len(ipc(path, "scheduler").removeprefix("ipc://")) == 107


def test_no_place_at_all_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimist.actors.runtime.rundir.MAX_PATH", 20)
    refusal = pytest.raises(ConfigError, match="run directory: expected a writable directory")
    with refusal, run_directory():
        pass


def test_a_place_where_nothing_can_be_made_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc")
    monkeypatch.setattr("tempfile.tempdir", str(root))
    with run_directory() as path:
        assert path.parent == root
