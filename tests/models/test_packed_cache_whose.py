"""Whose weights a file of packed ones holds: told by every byte of the model, read as seldom as possible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packed_models import huggingface, logits, only_file, write_model

from optimist.kernels.native.device import NativeDevice
from optimist.models import packed_header
from optimist.models.quantisation import Quant
from optimist.models.stored_file import StoredFile


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as unchanged from their first moment on: as if they had lain there for long."""
    monkeypatch.setattr(packed_header, "SETTLED_NS", -(10**12))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever a model's bytes are read for their hash."""
    found: list[int] = []
    content = packed_header.content

    def counted(opened: Sequence[StoredFile]) -> bytes:
        found.append(len(opened))
        return content(opened)

    monkeypatch.setattr(packed_header, "content", counted)
    return found


def test_a_models_own_folder_holds_the_files_of_all_its_formats(
    tmp_path: Path, packed: list[int]
) -> None:
    model = huggingface(tmp_path / "m")
    formats: list[Quant] = ["none", "int8"]
    for quant in formats:
        logits(model, model, quant)
    packed.clear()
    for quant in formats:
        logits(model, model, quant)
    assert not packed
    assert len(list(model.glob("*.packed"))) == 2


def test_other_weights_are_packed_anew_whatever_their_times_say(
    model: Path, folder: Path, settled: None, packed: list[int]
) -> None:
    logits(model, folder)
    before = model.stat()
    whole = bytearray(model.read_bytes())
    whole[len(whole) // 2 + 1] ^= 0x40
    model.write_bytes(whole)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    packed.clear()
    found = logits(model, folder)
    assert packed
    assert np.array_equal(found, logits(model))


def test_a_model_that_lies_still_is_hashed_once(
    model: Path, folder: Path, settled: None, hashed: list[int]
) -> None:
    logits(model, folder)
    assert len(hashed) == 1
    logits(model, folder)
    assert len(hashed) == 1


def test_the_same_weights_written_again_are_hashed_once_more_and_not_packed(
    model: Path, folder: Path, settled: None, hashed: list[int], packed: list[int]
) -> None:
    logits(model, folder)
    model.write_bytes(model.read_bytes())
    packed.clear()
    for _ in range(2):
        logits(model, folder)
    assert not packed
    assert len(hashed) == 2


def test_a_model_that_was_changed_a_moment_ago_is_hashed_again(
    model: Path, folder: Path, hashed: list[int]
) -> None:
    os.utime(model)
    logits(model, folder)
    logits(model, folder)
    assert len(hashed) == 2


def test_weights_that_change_while_they_are_packed_are_not_kept(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pack = NativeDevice.pack

    def changing(self: NativeDevice, *arguments: Any) -> None:
        pack(self, *arguments)
        os.utime(model, ns=(1, 1))

    monkeypatch.setattr(NativeDevice, "pack", changing)
    logits(model, folder)
    assert f"{model} was changed while it was read" in caplog.text
    assert not folder.exists()


def test_another_model_in_the_same_place_is_packed_anew(
    model: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logits(model, folder)
    write_model(model, seed=1)
    assert np.array_equal(logits(model, folder), logits(model))
    assert "another version of the model" in caplog.text
    only_file(folder)
