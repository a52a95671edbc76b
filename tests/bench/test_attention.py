"""Batches by name, attention side by side, and what a machine without a GPU is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import numpy as np
import pytest
import torch
from model_files import huggingface_config, huggingface_tensors, shapes, weights, write_huggingface
from toy_device import executor, greedy_from

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Executor
from optimist.bench import attention, gpu
from optimist.bench.batches import Span, batch_of, metadata_of, spans
from optimist.cli.main import main
from optimist.kernels import gpus
from optimist.kernels.sync_check import VARIABLE
from optimist.messages.batches import ExactBatch
from optimist.messages.errors import ConfigError
from optimist.testing.torch_toy import TOY


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("q5", [Span(5, 5)]),
        ("2q1s1k", [Span(1, 1024)] * 2),
        ("q1ks3k_2q1s7", [Span(1, 7)] * 2 + [Span(1024, 3072)]),
        ("q1", [Span(1, 1)]),
    ],
)
def test_a_text_names_rows_that_decode_first(text: str, rows: list[Span]) -> None:
    assert spans(text) == rows
    assert [row.decodes for row in rows] == sorted((row.decodes for row in rows), reverse=True)


@pytest.mark.parametrize("text", ["", "8", "0q1", "q0", "q5s4", "q1_", "q1s2m"])
def test_what_names_no_rows_is_refused(text: str) -> None:
    part = text.rstrip("_").rpartition("_")[2] if text != "q1_" else ""
    with pytest.raises(ConfigError, match=rf"--batch: expected .* got '{part}'"):
        spans(text)


def test_the_builder_and_the_worker_make_the_metadata() -> None:
    rows = spans("2q1s20_q6s33")
    batch = batch_of(rows)
    assert isinstance(batch, ExactBatch)
    assert (batch.num_decodes, batch.max_query_len, batch.max_blocks) == (2, 6, 3)
    metadata = metadata_of(batch, rows, torch.device("cpu"))
    assert metadata.seq_lens.tolist() == [20, 20, 33]
    assert metadata.query_start_loc.tolist() == [0, 1, 2, 8]
    assert metadata.is_prefilling.tolist() == [False, False, True]
    named = metadata.block_table[:, :3].flatten().tolist()
    assert sorted(block for block in named if block < 7) == list(range(7))


def test_backends_agree_and_say_what_they_moved(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = huggingface_tensors(weights(shapes()))
    model = write_huggingface(tmp_path_factory.mktemp("m") / "model", huggingface_config(), tensors)
    given = ["--model", str(model), "--batch", "2q1s20_q6s33", "--backends", "cpu,torch", "--json"]
    assert main(["bench", "attention", *given]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["decode_rows"], said["query_tokens"]) == (3, 2, 8)
    assert list(said["backends"]) == ["cpu", "torch"]
    assert 0 < said["largest_difference"] < 0.05
    for figures in said["backends"].values():
        assert min(figures["ms"], figures["gb_per_s"], figures["gflop_per_s"]) > 0


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--backends: expected triton, cpu, torch, got 'gpu'"):
        attention.measure("q1", "cpu,gpu")


def test_without_a_gpu_the_bench_of_one_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpus, "DRIVERS", ())
    assert main(["bench", "gpu"]) != 0
    assert "no GPU is visible here" in capsys.readouterr().err


def test_requests_are_decoded_while_the_step_before_is_read() -> None:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, TOY.vocab_size, 5).tolist() for _ in range(2)]
    assert gpu.decoded(executor(), 2, 4, prompt=5) == [greedy_from(one, 4) for one in prompts]


class Profile:
    """What a profiler might have seen: two kernels with a gap between them."""

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def events(self) -> list[Any]:
        cuda, host = SimpleNamespace(name="CUDA"), SimpleNamespace(name="CPU")
        return [
            SimpleNamespace(device_type=kind, time_range=SimpleNamespace(start=start, end=end))
            for kind, start, end in ((cuda, 0, 4), (host, 0, 99), (cuda, 5, 10))
        ]


def test_the_bench_of_a_gpu_compares_checks_profiles_and_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []
    checked: list[str] = []
    sizes, plain, decode = (
        {"REQUESTS": 2, "CHECKED": 2, "PROMPT": 5, "STEPS": 4},
        gpu.config_of,
        gpu.decoded,
    )

    def decoded(executor: Executor, requests: int, steps: int) -> list[list[int]]:
        checked.append(os.environ.get(VARIABLE, "off"))
        return decode(executor, requests, steps, prompt=5)

    def on_cpu(model: str, device: str, dtype: str, requests: int) -> WorkerConfig:
        config = plain(model, device, dtype, requests)
        return msgspec.structs.replace(config, device="cpu", executor="torch")

    def attended(batch: str, backends: str, model: str, device: str) -> dict[str, Any]:
        figures = {"ms": 2.0, "gb_per_s": 50.0}
        return {
            "backends": {name: figures for name in backends.split(",")},
            "largest_difference": 0.1,
        }

    for name, value in (sizes | {"config_of": on_cpu, "decoded": decoded}).items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(gpu, "copy_speed", lambda device: 100.0)
    monkeypatch.setattr(gpus, "chosen_device", lambda option: "cuda:0")
    monkeypatch.setattr(attention, "measure", attended)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Large")
    monkeypatch.setattr(torch.profiler, "profile", Profile)
    model = write_huggingface(
        tmp_path / "m", huggingface_config(), huggingface_tensors(weights(shapes()))
    )
    said = gpu.measure(str(model))
    assert said["ids"] == {"requests": 2, "tokens": 4, "agree": [4, 4]}
    assert (said["device"], said["steps"]["idle_share"]) == ("Large", 0.1)
    assert said["holds"] == {"ids": True, "idle": False}
    assert {one["of_copy_speed"] for one in said["attention"].values()} == {0.5}
    assert modes == ["error", "default"]
    assert checked == ["off", "off", "off", "error", "off", "off"]


def test_ids_are_compared_up_to_the_first_that_differs() -> None:
    assert gpu.agreement([[1, 2, 3], [1, 2, 3], [9, 2, 3]], [[1, 2, 3], [1, 5, 3], [1, 2, 3]]) == [
        3,
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("busy", "share"),
    [
        ([(0, 4), (4, 10)], 0.0),
        ([(5, 10), (0, 4)], 0.1),
        ([(0, 10), (2, 3), (9, 20), (30, 40)], 0.25),
        ([], 1.0),
    ],
)
def test_idle_is_what_no_kernel_covers(busy: list[tuple[float, float]], share: float) -> None:
    assert gpu.idle_share(busy) == pytest.approx(share)
