"""What a step has to read, and the time that takes at the bandwidth found."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest

from optimist.bench import floor
from optimist.bench.floor import together
from optimist.cli.main import main
from optimist.kernels.native.library import here
from optimist.kernels.native.probe import Pass, operations, read_passes
from optimist.kernels.native.shapes import Format
from optimist.messages.errors import ConfigError
from optimist.models.default import default_model
from optimist.models.source import open_source


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads no more than it must."""
    monkeypatch.setattr(floor, "BEYOND_CACHES", 1 << 20)
    monkeypatch.setattr(floor, "PASS_BYTES", 1 << 20)


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "floor", *arguments, "--threads", "2", "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_a_step_reads_every_matrix_once() -> None:
    with open_source(default_model()) as source:
        shapes = [source.shape(name) for name in source.names()]
        matrices = sum(prod(shape) for shape in shapes if len(shape) > 1)
        sizes = {quant: floor.step_bytes(source, quant) for quant in floor.possible(source)}
    assert sizes["none"] == 2 * matrices
    assert matrices < sizes["int8"] < 1.02 * matrices
    assert 0.625 * matrices < sizes["int4"] < sizes["int8"]


@pytest.mark.usefixtures("little")
def test_the_floor_is_bytes_over_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(capsys, "--quant", "int8", "--context", "100")
    assert (said["probe"], said["threads"], said["context"]) == ("native", 2, 100)
    assert said["memory_gb_per_s"].keys() == {"1", "2"}
    assert said["peak_gops"]["int8"] > 0 < said["peak_gops"]["none"]
    ranges = {**said["memory_range"], **said["peak_range"]}
    for name, figure in {**said["memory_gb_per_s"], **said["peak_gops"]}.items():
        assert ranges[name][0] <= figure <= ranges[name][1]
    (found,) = said["quant"].values()
    assert found["weights_range"][0] <= found["weights_gb_per_s"] <= found["weights_range"][1]
    for rows, step in found["batches"].items():
        size = found["weight_bytes"] + int(rows) * found["kv_bytes_per_row"]
        seconds = size / (1e9 * found["weights_gb_per_s"])
        assert step["floor_ms"] == pytest.approx(1000 * seconds, rel=0.01)
        assert step["tokens_per_s"] == pytest.approx(int(rows) / seconds, rel=0.01)


@pytest.mark.usefixtures("little")
def test_figures_are_medians_of_rounds_in_which_all_are_taken_in_turn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, int]] = []

    def read(size: int, threads: int, share: int) -> float:
        taken.append((size, threads))
        return 1e9 * len(taken)

    monkeypatch.setattr(floor, "bandwidth", read)
    monkeypatch.setattr(floor, "peak", lambda quant, threads: 1e9)
    monkeypatch.setattr(floor, "ROUNDS", 3)
    said = _said(capsys, "--quant", "int8")
    assert taken == taken[:3] * 3
    assert said["quant"]["int8"]["weights_gb_per_s"] == 4
    assert said["quant"]["int8"]["weights_range"] == [1, 7]
    assert said["memory_gb_per_s"] == {"1": 5, "2": 6}
    assert said["memory_range"] == {"1": [2, 8], "2": [3, 9]}


@pytest.mark.usefixtures("little")
def test_numpy_reads_where_the_library_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floor, "missing", lambda: "not built")
    said = _said(capsys, "--quant", "int4")
    assert (said["probe"], said["peak_gops"]) == ("numpy", {})
    assert said["quant"]["int4"]["weights_gb_per_s"] > 0


@pytest.mark.usefixtures("little")
def test_a_cache_of_eight_bits_is_half_as_large(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        _said(capsys, "--quant", "int4", "--kv-dtype", kv)["quant"]["int4"]["kv_bytes_per_row"]
        for kv in ("auto", "int8", "bfloat16")
    ]
    assert rows[0] == rows[1] == rows[2] * 34 // 64


def test_a_cache_of_gpus_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "floor", "--kv-dtype", "fp8"]) == 2
    assert "--kv-dtype: the native library expects bfloat16 or int8" in capsys.readouterr().err


@pytest.mark.parametrize("context", ["0", "8193"])
def test_a_context_that_the_model_does_not_have_is_refused(
    context: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "floor", "--context", context]) == 2
    said = f"--context: expected 1 to 8192, which the model was made for, got {context}"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("isa", here())
def test_every_instruction_set_reads(isa: str) -> None:
    assert all(each.seconds > 0 for each in read_passes(1 << 16, 3, 2, isa=isa))


@pytest.mark.parametrize("kind", [Format.BF16, Format.INT8])
@pytest.mark.parametrize("isa", here())
def test_every_instruction_set_multiplies(isa: str, kind: Format) -> None:
    assert operations(kind, 2, 64, isa=isa) > 0


def test_a_pass_whose_threads_shared_a_core_does_not_count() -> None:
    apart, shared, between = Pass(1.0, 2.0), Pass(2.0, 2.0), Pass(1.25, 1.9)
    assert together([shared, apart, between, shared], 2) == [1.0, 1.25]
    assert together([shared, shared], 2) == [2.0, 2.0]
    assert together([shared, apart], 1) == [2.0, 1.0]


def test_a_pass_says_what_processors_did(monkeypatch: pytest.MonkeyPatch) -> None:
    native = read_passes(64 << 20, 1, 3)
    monkeypatch.setattr(floor, "missing", lambda: "not built")
    assert floor.bandwidth(1 << 20, 1, share=1 << 12) > 0
    assert all(each.processors > 0 for each in native)


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected memory for"):
        read_passes(1 << 60, 1, 1)
