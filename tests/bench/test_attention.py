"""Batches by name, attention side by side, and what a machine without a GPU is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from model_files import huggingface_config, huggingface_tensors, shapes, weights, write_huggingface

from optimist.bench import attention, attention_backends
from optimist.bench.attention_backends import BACKENDS, alike
from optimist.bench.batches import Span, batch_of, metadata_of, spans
from optimist.bench.timing import REPEATS, copies, timed
from optimist.cli.main import main
from optimist.kernels.device import Device, Tensors
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.errors import ConfigError


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
    figures = said["backends"]["torch"]
    assert min(figures["ms"], figures["gb_per_s"], figures["gflop_per_s"]) > 0


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"--backends: expected triton, cpu, torch, flash, got 'gpu'"
    ):
        attention.measure("q1", "cpu,gpu")


def test_what_is_not_installed_attends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "has_flash", lambda: False)
    with pytest.raises(ConfigError, match="flash needs the package flash_attn"):
        attention.measure("q1", "flash")


def test_bounds_may_be_looser_than_lengths() -> None:
    rows = spans("2q1s20_q6s33")
    batch = batch_of(rows, loose=16)
    assert isinstance(batch, OptimisticBatch)
    metadata = metadata_of(batch, rows, torch.device("cpu"))
    assert metadata.seq_lens.tolist() == [20, 20, 33]
    assert metadata.max_seq_len == 36
    assert metadata.block_table.shape == (3, 3)


def test_rows_alike_are_one_call() -> None:
    found = alike([1, 1, 4, 4], [9, 9, 9, 4])
    assert [(one.first, one.rows, one.q) for one in found] == [
        (0, 2, slice(0, 2)),
        (2, 1, slice(2, 6)),
        (3, 1, slice(6, 10)),
    ]


def test_every_kernel_attends_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Decode rows, a chunk and a whole prompt; torch's gathers stand in for Triton, which needs a process."""
    model = write_huggingface(
        tmp_path / "m", huggingface_config(), huggingface_tensors(weights(shapes()))
    )
    gathered = BACKENDS["cpu"]._replace(prepare=attention_backends._gathered)  # noqa: SLF001
    monkeypatch.setitem(BACKENDS, "triton", gathered)
    said = attention.measure("2q1s20_q6s33_q7", "torch,cpu,triton", str(model), "cpu")
    assert said["largest_difference"] < 0.05
    assert said["backends"]["triton"]["ms_loose_bound"] > 0
    assert said["backends"]["torch"]["ms_before"] > 0


def test_a_time_below_the_noise_says_nothing() -> None:
    assert attention.figures_of(2_000_000, 1_000_000, 0.001, noise=0.0009) == {
        "ms": 1.0,
        "gb_per_s": 2.0,
        "gflop_per_s": 1.0,
    }
    assert set(attention.figures_of(1, 1, 0.001, noise=0.001).values()) == {None}


class Clock:
    """Stands in for torch.cuda: every pass takes 10 ms."""

    def __init__(self) -> None:
        self.passes = 0

    def Event(self, *, enable_timing: bool) -> Moment:
        assert enable_timing
        return Moment(self)

    def get_device_properties(self, device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(L2_cache_size=50 << 20)


class Moment:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at = 0

    def record(self) -> None:
        self.at = self._clock.passes

    def synchronize(self) -> None: ...

    def elapsed_time(self, later: Moment) -> float:
        return 10.0 * (later.at - self.at)


class Far(Device):
    """Counts passes of what was captured."""

    asynchronous = True

    def __init__(self, clock: Clock) -> None:
        super().__init__(torch.device("cpu"))
        self._clock = clock

    def capture(self, run: Callable[[], Tensors]) -> tuple[Callable[[], None], Tensors]:
        def replay() -> None:
            self._clock.passes += 1

        return replay, run()


def test_a_gpu_is_timed_by_its_own_events_over_memory_that_no_cache_holds() -> None:
    clock = Clock()
    made = copies(40 << 20, torch.device("cuda:0"), clock)
    assert made == 4
    assert copies(40 << 20, torch.device("cpu"), clock) == 1
    runs = [lambda at=at: torch.tensor(at) for at in range(made)]
    out, seconds = timed(runs, Far(clock), clock)
    assert int(out) == 0
    assert seconds == pytest.approx(0.01 / made)
    assert clock.passes == 1 + 1 + REPEATS
