"""`bench gpu` where there is none: the engines are toys on the CPU, and the device's clock is made up."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import anyio
import pytest
import torch

from optimist.bench import attention, gpu, gpu_ids, gpu_roofline, gpu_steps
from optimist.bench.gpu_steps import Window
from optimist.cli.main import main
from optimist.engine import Engine
from optimist.kernels import gpus
from optimist.kernels.sync_check import VARIABLE
from optimist.models.default import default_model
from optimist.testing.byte_tokenizer import ByteTokenizer

TOY_EXECUTOR = "optimist.testing.torch_toy:ToyExecutor"


def toy(model: str, placement: str, **options: Any) -> Engine:
    options.pop("dtype", None)
    modes.append(os.environ.get(VARIABLE, "off"))
    given = {
        "executor": TOY_EXECUTOR,
        "executor_options": {"vocab_size": 272},
        "device": "cpu",
        "max_model_len": 64,
        "max_slots": 4,
        "draft_layers": 1 if options.get("proposer") == "self-draft" else None,
    }
    return Engine(None, "inline", tokenizer=ByteTokenizer(272), **options | given)


modes: list[str] = []
"""of the sync check, when an engine was made"""


class Profile:
    """What a profiler might have seen: kernels without a gap for a long time, a copy, and the host."""

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def events(self) -> list[Any]:
        kernels = [event("gemm", 1e6 * at, 1e6 * (at + 1)) for at in range(100)]
        return [*kernels, event("Memcpy HtoD", 0, 1), event("", 0, 9e9, kind="CPU")]


def event(name: str, start: float, end: float, kind: str = "CUDA") -> Any:
    return SimpleNamespace(
        name=name,
        device_type=SimpleNamespace(name=kind),
        time_range=SimpleNamespace(start=start, end=end),
    )


def attended(batch: str, backends: str, model: str, device: str) -> dict[str, Any]:
    figures = {"ms": 2.0, "gb_per_s": 50.0, "ms_loose_bound": 2.5}
    return {
        "backends": {name: figures for name in backends.split(",")},
        "largest_difference": 0.01,
    }


@pytest.fixture(autouse=True)
def a_gpu_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    modes.clear()
    for module in (gpu_ids, gpu_steps):
        monkeypatch.setattr(module, "Engine", toy)
    monkeypatch.setattr("optimist.testing.golden.Engine", toy)
    monkeypatch.setattr(gpu_ids, "TEXTS", ("Why is the sky blue?", "Write a poem"))
    monkeypatch.setattr(gpu_ids, "PROPOSERS", ("self-draft",))
    monkeypatch.setattr(gpu_ids, "TOKENS", 6)
    sizes = {"REQUESTS": 4, "PROMPT": 6, "STEPS": 6, "SETTLED": 2, "CHECKED": 8}
    for name, value in sizes.items():
        monkeypatch.setattr(gpu_steps, name, value)
    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(attention, "measure", attended)
    monkeypatch.setattr(gpu_roofline, "copy_speed", lambda device: 1e12)
    monkeypatch.setattr(gpu_roofline, "matrix_speed", lambda device: 1e14)
    monkeypatch.setattr(gpu_roofline, "device_of", lambda name: None)
    monkeypatch.setattr(gpu_roofline, "has_flash", lambda: False)
    monkeypatch.setattr(gpus, "chosen_device", lambda option: "cuda:0")
    monkeypatch.setattr(gpus, "found", lambda: gpus.Gpus(("Large",), ((9, 0),)))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Large")


def test_without_a_gpu_the_bench_of_one_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpus, "chosen_device", lambda option: "cpu")
    assert main(["bench", "gpu"]) != 0
    assert "no GPU is visible here" in capsys.readouterr().err


def test_every_part_is_measured_and_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gpu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["device"], said["verdict"]) == ("Large", "right")
    assert len(said["ids"]["runs"]) == 2 * len(gpu_ids.PROPOSERS)
    assert said["ids"]["wrong"] == []
    assert (said["gaps"]["gaps_over_5_percent"], said["gaps"]["depth"]) == (0, 2)
    checked = said["waits"]["checked"]
    assert {one["tokens"] for one in checked.values()} == {4 * 8}
    assert checked["self-draft"]["drafted"] > 0
    assert modes.count("error") == len(gpu_steps.PROPOSERS)
    assert VARIABLE not in os.environ
    bounds = {batch: one["bound"] for batch, one in said["attention"]["batches"].items()}
    assert bounds["64q1s1k"] == "memory"
    assert bounds["8q2k"] == "matrices"


def test_the_command_line_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, ...]] = []

    def measured(*given: str) -> dict[str, Any]:
        asked.append(given[1:])
        return {"verdict": "right"}

    monkeypatch.setattr(gpu, "measure", measured)
    assert main(["bench", "gpu", "--golden", "cases.json"]) == 0
    assert asked == [("auto", "cases.json")]
    assert "verdict  right" in capsys.readouterr().out


def test_a_part_that_fails_loses_no_other_and_decides_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no such kernel")

    async def silent(*_: Any) -> dict[str, Any]:
        return {"right": False}

    monkeypatch.setattr(attention, "measure", broken)
    monkeypatch.setattr(gpu_steps, "waits", silent)
    monkeypatch.setattr(gpu_ids, "compare", silent)
    assert main(["bench", "gpu", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["attention"] == {"verdict": "failed", "why": "RuntimeError: no such kernel"}
    assert [said[part]["verdict"] for part in ("ids", "gaps", "waits")] == [
        "wrong",
        "right",
        "wrong",
    ]


def test_ids_are_held_against_a_file(tmp_path: Path) -> None:
    told = anyio.run(gpu_ids.on_host, "")
    assert all(len(one.margins) == len(one.tokens) == 6 for one in told)
    cases: list[dict[str, Any]] = [
        {"prompt_ids": one.prompt, "greedy_ids": one.tokens, "top2_margins": one.margins}
        for one in told
    ]
    cases[0]["greedy_ids"][0] ^= 1
    cases[0]["top2_margins"] = [9.0] * 6
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"cases": cases}))
    said = anyio.run(gpu_ids.compare, "", str(file), {})
    assert said["beside"] == str(file)
    assert not said["right"]
    assert len(said["wrong"]) == 2 * len(gpu_ids.PROPOSERS)


@pytest.mark.parametrize(
    ("busy", "found"),
    [
        ([(0, 4), (4, 10)], []),
        ([(5, 10), (0, 4)], [1]),
        ([(0, 10), (2, 3), (9, 20), (30, 40)], [10]),
        ([], []),
    ],
)
def test_a_gap_is_what_no_kernel_covers(
    busy: list[tuple[float, float]], found: list[float]
) -> None:
    assert gpu_steps.between(busy) == found


def window(step_us: float, gap: float, steps: int = 100) -> Window:
    """Two kernels a step, and once, in the middle, a gap."""
    half, spans, now = step_us / 2, list[tuple[float, float]](), 0.0
    for at in range(2 * steps):
        now += gap if at == steps else 0.0
        spans.append((now, now + half))
        now += half
    return Window(step_us, spans)


def test_one_gap_over_a_twentieth_of_a_step_is_a_fault_and_one_below_is_none() -> None:
    assert gpu_steps.judged(window(1000, 49))["right"]
    said = gpu_steps.judged(window(1000, 51))
    assert (said["right"], said["gaps_over_5_percent"]) == (False, 1)
    assert said["largest_gap_of_a_step"] == pytest.approx(0.051)


def test_a_profiler_that_saw_next_to_nothing_proves_nothing() -> None:
    assert not gpu_steps.judged(Window(1000, []))["right"]
    assert not gpu_steps.judged(window(1000, 0, steps=8))["right"]


def test_what_the_profiler_did_at_both_ends_does_not_count() -> None:
    seen = window(1000, 0)
    late = [(start + 5000, end + 5000) for start, end in seen.busy]
    assert gpu_steps.judged(Window(1000, [(0.0, 1.0), *late, (110_000.0, 110_001.0)]))["right"]


def test_copies_fills_and_marks_are_no_work() -> None:
    mark = event("step", 0, 9)
    mark.is_user_annotation = True
    events = [event("gemm", 1, 2), event("Memset (Device)", 3, 4), event("Memcpy DtoH", 3, 4), mark]
    assert gpu_steps.kernels(events) == [(1, 2)]


def test_a_gpu_without_triton_is_measured_with_what_it_has() -> None:
    said = gpu_roofline.measure(str(default_model()), "cuda:0", "torch")
    assert said["right"]
    assert all("triton_ms" not in one for one in said["batches"].values())


def test_sampling_of_the_checked_steps_covers_every_kind() -> None:
    kinds = [gpu_steps.sampling(number) for number in range(4)]
    assert [one.temperature > 0 for one in kinds] == [False, False, True, True]
    assert kinds[3].logprobs == 2
    assert all(one.seed is not None for one in kinds)
