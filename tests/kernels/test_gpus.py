"""Which GPU is used, and whose kernels run on it: told from what is seen, never from what is hoped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.chosen import TORCH, TRITON, executor_path
from optimist.cli.doctor import examine
from optimist.kernels import device, gpus, triton_interpreter
from optimist.kernels.choice import TORCH as TORCH_KERNELS
from optimist.kernels.choice import torch_kernels
from optimist.kernels.gpus import Gpus, chosen_device, device_named, kernels_for, visible_devices
from optimist.kernels.paged_attention import sdpa
from optimist.messages.errors import ConfigError

TWO = Gpus(("Small", "Large"), ((7, 5), (9, 0)))


@pytest.mark.parametrize(
    ("environ", "which"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"HIP_VISIBLE_DEVICES": "1"}, ("HIP_VISIBLE_DEVICES", "1")),
        (
            {"HIP_VISIBLE_DEVICES": "0, 1", "ROCR_VISIBLE_DEVICES": "0, 1"},
            ("HIP_VISIBLE_DEVICES", "0, 1"),
        ),
        ({"ROCR_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": ""}, ("ROCR_VISIBLE_DEVICES", "2")),
        (
            {"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"},
            ("CUDA_VISIBLE_DEVICES", "0,1"),
        ),
    ],
    ids=str,
)
def test_the_first_variable_that_is_set_counts(
    environ: dict[str, str], which: tuple[str, str] | None
) -> None:
    assert visible_devices(environ) == which


def test_variables_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1")
    message = r"ROCR_VISIBLE_DEVICES: expected '0' as in CUDA_VIS.* got '1'"
    with pytest.raises(ConfigError, match=message):
        chosen_device("auto")
    assert chosen_device("cpu") == "cpu"


@pytest.mark.parametrize("value", ["1", "1,0", "0,2", "GPU-3f"])
def test_two_variables_that_filter_one_after_the_other_are_refused(value: str) -> None:
    both = {"HIP_VISIBLE_DEVICES": value, "ROCR_VISIBLE_DEVICES": value}
    with pytest.raises(ConfigError, match=r"ROCR_VIS.* not to be set beside HIP_VIS.*got '"):
        visible_devices(both)


@pytest.mark.parametrize(
    ("option", "seen", "named"),
    [
        ("auto", Gpus(), "cpu"),
        ("auto", TWO, "cuda:0"),
        ("cpu", TWO, "cpu"),
        ("cuda", TWO, "cuda:0"),
        ("cuda:1", TWO, "cuda:1"),
    ],
    ids=str,
)
def test_a_name_means_a_device(option: str, seen: Gpus, named: str) -> None:
    assert device_named(option, seen) == named


@pytest.mark.parametrize(
    ("option", "seen", "message"),
    [
        ("cuda", Gpus(), "expected a GPU that torch sees, got 'cuda': none"),
        ("cuda:2", TWO, "got 'cuda:2': cuda:0 Small, cuda:1 Large"),
        ("gpu", TWO, "worker.device: expected auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("cuda:", TWO, "expected auto, cpu, cuda or cuda:N"),
    ],
)
def test_what_is_not_there_is_refused(option: str, seen: Gpus, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        device_named(option, seen)


@pytest.mark.parametrize(
    ("where", "seen", "missing", "whose", "why"),
    [
        ("cuda:1", TWO, "", "triton", "capability 9.0"),
        ("cuda:0", TWO, "", "torch", "need capability 8.0, it has 7.5"),
        ("cuda:1", TWO, "no triton", "torch", "no triton"),
        ("cuda:0", Gpus(("MI300X",), ((9, 4),), ("gfx942",)), "", "triton", "architecture gfx942"),
        (
            "cuda:0",
            Gpus(("MI210",), ((9, 0),), ("gfx90a",)),
            "",
            "torch",
            "for gfx942, it is gfx90a",
        ),
    ],
)
def test_kernels_are_chosen_by_capability(
    where: str, seen: Gpus, missing: str, whose: str, why: str
) -> None:
    chosen, said = kernels_for(where, seen, missing)
    assert (chosen, why in said) == (whose, True)


def test_without_a_driver_nobody_loads_torch_to_look_for_a_gpu() -> None:
    code = (
        "import sys\nfrom optimist.kernels import gpus\ngpus.DRIVERS = ('/nowhere',)\n"
        "assert gpus.chosen_device('auto') == 'cpu'\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_torch_sees_is_what_is_found() -> None:
    assert len(gpus.found().names) == torch.cuda.device_count()


@pytest.mark.parametrize(
    ("there", "variable", "why"),
    [
        ({"gcc"}, "", ""),
        ({"clang"}, "", ""),
        (set(), "", "triton needs a C compiler .*none of gcc and clang"),
        ({"gcc"}, "/opt/cc", "CC names '/opt/cc', which is not there"),
        ({"/opt/cc"}, "/opt/cc", ""),
    ],
)
def test_triton_compiles_where_there_is_a_compiler(
    there: set[str], variable: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", variable)
    monkeypatch.setattr(
        "optimist.kernels.triton_interpreter.shutil.which",
        lambda name: name if name in there else None,
    )
    said = triton_interpreter.cannot_compile()
    assert re.search(why, said) if why else not said


def test_triton_compiles_where_there_are_pythons_headers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("optimist.kernels.triton_interpreter.shutil.which", lambda name: name)
    monkeypatch.setattr(
        "optimist.kernels.triton_interpreter.sysconfig.get_path", lambda name: str(tmp_path)
    )
    assert f"found no Python.h in {tmp_path}" in triton_interpreter.cannot_compile()
    (tmp_path / "Python.h").touch()
    assert not triton_interpreter.cannot_compile()


def test_a_gpu_without_triton_computes_with_torch_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpus, "found", lambda: TWO)
    assert executor_path(WorkerConfig()) == TORCH
    assert "cuda:0 computes with torch and its attention, more slowly: Triton's need" in caplog.text
    caplog.clear()
    assert executor_path(WorkerConfig(device="cuda:1")) == TRITON
    assert not caplog.text
    monkeypatch.setattr(triton_interpreter, "cannot_compile", str)
    assert executor_path(WorkerConfig(device="cuda:1", dtype="float64")) == TORCH
    with pytest.raises(ConfigError, match=r"worker\.executor: .*not for float64, or use torch"):
        executor_path(WorkerConfig(device="cuda:1", dtype="float64", executor="triton"))
    monkeypatch.setattr(triton_interpreter, "cannot_compile", lambda: "no compiler")
    assert executor_path(WorkerConfig(device="cuda:1")) == TORCH
    with pytest.raises(ConfigError, match=r"worker\.executor: no compiler, or use torch"):
        executor_path(WorkerConfig(device="cuda:1", executor="triton"))


def test_loading_touches_the_gpu_that_it_is_for_alone() -> None:
    where = device.current("cuda:1")
    assert isinstance(where, torch.cuda.device) and where.idx == 1
    assert not isinstance(device.current("cpu"), torch.cuda.device)


def test_torch_attends_on_a_gpu_by_its_own_operator() -> None:
    assert torch_kernels("cpu") is TORCH_KERNELS
    assert torch_kernels("cuda:1").paged_attention is sdpa.paged_attention


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("", "cuda:1 Large; triton's kernels: capability 9.0"),
        ("no triton", "cuda:1 Large; torch's kernels, attention by its SDPA: no triton"),
    ],
)
def test_doctor_says_which_device_and_whose_kernels(
    missing: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "chosen_device", lambda option: "cuda:1")
    monkeypatch.setattr(gpus, "found", lambda: TWO)
    monkeypatch.setattr(triton_interpreter, "cannot_compile", lambda: missing)
    assert says in [finding.says for finding in examine() if finding.what == "device"]
