"""Packed weights in a file: the same numbers, packed once, never trusted without a look, never needed."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from native_toy import sizes
from packed_models import logits, only_file, write_model

from optimist.models.native import load_device
from optimist.models.packed_header import ALIGNMENT
from optimist.models.quantisation import Quant
from optimist.models.source import open_source


@pytest.mark.parametrize("quant", ["none", "int8"])
@pytest.mark.parametrize("head", [False, True], ids=["tied", "untied"])
def test_a_second_start_maps_what_the_first_has_packed(
    quant: Quant, head: bool, tmp_path: Path, folder: Path, packed: list[int]
) -> None:
    model = write_model(tmp_path / "m.gguf", head=head)
    own = logits(model, quant=quant)
    assert np.array_equal(logits(model, folder, quant), own)
    packed.clear()
    assert np.array_equal(logits(model, folder, quant), own)
    assert not packed


def test_the_first_start_maps_its_own_file_too(model: Path, folder: Path) -> None:
    with open_source(model) as source:
        device = load_device(source, sizes(), cache=str(folder))
    assert str(only_file(folder)) in Path("/proc/self/maps").read_text()
    device.close()
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_formats_and_models_lie_beside_each_other(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = write_model(tmp_path / "m.gguf"), write_model(tmp_path / "other/m.gguf", seed=1)
    for model in (one, other):
        for quant in ("none", "int8"):
            logits(model, folder, quant)
    assert len(list(folder.iterdir())) == 4


def _damage(file: Path, at: int) -> None:
    whole = bytearray(file.read_bytes())
    whole[at] ^= 1
    file.write_bytes(whole)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: _damage(file, 2 * ALIGNMENT + 77), "another checksum"),
        (lambda file: _damage(file, file.stat().st_size - 1), "another checksum"),
        (lambda file: _damage(file, 0), "no header"),
        (lambda file: _damage(file, 20), "no header"),
        (lambda file: _damage(file, 1000), "no header"),
        (lambda file: os.truncate(file, file.stat().st_size - 1), "another size"),
        (lambda file: os.truncate(file, 10), "no header"),
    ],
    ids=["a weight", "padding", "the magic", "the key", "the page's rest", "the end", "everything"],
)
def test_a_damaged_file_is_written_anew_and_logged(
    damage: Callable[[Path], None],
    said: str,
    model: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = logits(model, folder)
    whole = only_file(folder).read_bytes()
    damage(only_file(folder))
    assert np.array_equal(logits(model, folder), own)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert said in record.getMessage()
    assert only_file(folder).read_bytes() == whole


def test_a_full_disk_costs_a_warning(
    model: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * ALIGNMENT, before[1]))
    try:
        found = logits(model, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert np.array_equal(found, logits(model))
    assert "packed weights cannot be kept" in caplog.text
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_made_costs_a_warning(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = logits(model, model / "packed")
    assert np.array_equal(found, logits(model))
    assert "packed weights cannot be kept" in caplog.text


def test_starts_at_once_leave_one_whole_file(model: Path, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: logits(model, folder), range(8)))
    assert all(np.array_equal(one, found[0]) for one in found)
    only_file(folder)
