"""What else lies at the place of a file of packed weights, or beside it: nothing of it stops a start."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from packed_models import logits, only_file

from optimist.models.packed_header import ALIGNMENT


def _pipe(path: Path) -> Callable[[], None]:
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR)  # so that even who waits for its bytes goes on
    os.write(handle, bytes(ALIGNMENT))
    return lambda: os.close(handle)


def _socket(path: Path) -> Callable[[], None]:
    opened = socket.socket(socket.AF_UNIX)
    opened.bind(str(path))
    return opened.close


def _folder(path: Path) -> Callable[[], None]:
    path.mkdir()
    return path.rmdir


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_pipe, "expected a regular file"),
        (_socket, "cannot be read"),
        (_folder, "packed weights cannot be kept"),
    ],
    ids=["pipe", "socket", "folder"],
)
def test_what_is_no_file_costs_a_warning(
    make: Callable[[Path], Callable[[], None]],
    said: str,
    model: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with tempfile.TemporaryDirectory() as short:  # a socket's path has 107 bytes at most
        folder = Path(short)
        logits(model, folder)
        path = only_file(folder)
        path.unlink()
        end = make(path)
        found = logits(model, folder)
        end()
    assert np.array_equal(found, logits(model))
    assert said in caplog.text


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(
    model: Path, folder: Path
) -> None:
    logits(model, folder)
    name = only_file(folder).name
    only_file(folder).unlink()
    dead, living = folder / f"{name}.dead.tmp", folder / f"{name}.living.tmp"
    dead.write_bytes(b"half")
    with living.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        logits(model, folder)
    assert {path.name for path in folder.iterdir()} == {name, living.name}


def test_leftovers_that_go_meanwhile_and_pipes_among_them_cost_nothing(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logits(model, folder)
    name = only_file(folder).name
    only_file(folder).unlink()
    end = _pipe(folder / f"{name}.pipe.tmp")
    gone = folder / f"{name}.gone.tmp"
    glob = Path.glob

    def seen_before(self: Path, pattern: str) -> list[Path]:
        return [*glob(self, pattern), gone]

    monkeypatch.setattr(Path, "glob", seen_before)
    logits(model, folder)
    end()
    assert (folder / name).is_file()
    assert "packed weights cannot be kept" not in caplog.text


def test_a_writer_whose_file_is_swept_before_it_is_locked_begins_another(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lock = fcntl.flock
    swept: list[str] = []

    def late(file: BinaryIO, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.extend(path.name for path in folder.glob("*.tmp"))
            logits(model, folder)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    logits(model, folder)
    assert swept
    assert "packed weights cannot be kept" not in caplog.text
    assert only_file(folder).suffix == ".packed"
