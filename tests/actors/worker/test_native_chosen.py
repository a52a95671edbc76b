"""Which executor a worker runs when it is told to choose."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from optimist.actors.config import WorkerConfig
from optimist.actors.worker import chosen
from optimist.actors.worker.chosen import NATIVE, TORCH, executor_path
from optimist.messages.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"proposer": "self-draft"}, NATIVE),
        ({"proposer": "self-draft", "verify": "block"}, TORCH),
        ({"proposer": "draft-model"}, TORCH),
        ({"proposer": "ngram-device"}, TORCH),
        ({"verify": "rejection"}, NATIVE),
        ({"verify": "block"}, NATIVE),
        ({}, NATIVE),
        ({"quant": "int4"}, NATIVE),
        ({"executor": "native"}, NATIVE),
        ({"executor": "native", "dtype": "float32"}, NATIVE),
        ({"executor": "torch"}, TORCH),
        ({"dtype": "float32"}, TORCH),
        ({"dtype": "float64"}, TORCH),
        ({"block_size": 8}, TORCH),
        ({"block_size": 48}, NATIVE),
        ({"kv_dtype": "int8"}, NATIVE),
        ({"kv_dtype": "bfloat16", "quant": "int8"}, NATIVE),
        ({"kv_dtype": "bfloat16", "executor": "torch"}, TORCH),
        ({"executor": "mine:Own", "quant": "int8"}, "mine:Own"),
    ],
    ids=str,
)
def test_the_fastest_that_can_is_chosen(options: dict[str, Any], path: str) -> None:
    assert executor_path(WorkerConfig(**options)) == path


def test_without_a_library_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "missing", lambda: "it was not built")
    assert executor_path(WorkerConfig()) == TORCH
    with pytest.raises(ConfigError, match=r"worker\.executor: it was not built"):
        executor_path(WorkerConfig(executor="native"))
    with pytest.raises(
        ConfigError,
        match=r"worker\.quant: int8 needs the native or the triton executor: it was not built",
    ):
        executor_path(WorkerConfig(quant="int8"))
    with pytest.raises(
        ConfigError, match=r"worker\.kv_dtype: int8 needs the native executor: it was not built"
    ):
        executor_path(WorkerConfig(kv_dtype="int8"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"executor": "torch"},
            r"worker\.quant: int4 needs the native or the triton executor, got 'torch'",
        ),
        ({"executor": "torch", "quant": "auto"}, r"worker\.quant: auto needs the native .*'torch'"),
        ({"dtype": "float32"}, r"worker\.quant: int4 .*: native and dtype 'float32' do not"),
        ({"block_size": 8}, r"worker\.quant: int4 .*: native and block_size 8 do not"),
        ({"proposer": "draft-model"}, r"worker\.quant: int4 .*: native and proposer 'draft-model'"),
        ({"reserve_mb": 1024}, r"worker\.reserve_mb: 1024 is for a GPU, and the device is cpu"),
        ({"graphs": False}, r"worker\.graphs: False is for a GPU, and the device is cpu"),
        ({"executor": "torch", "quant": "none", "kv_dtype": "fp8"}, r"kv_dtype: fp8 .*got 'torch'"),
        ({"quant": "none", "kv_dtype": "fp8"}, r"kv_dtype: fp8 needs the triton executor"),
        (
            {"executor": "torch", "quant": "none", "packed_cache": "here"},
            r"packed_cache: here needs the native executor, got 'torch'",
        ),
        (
            {"executor": "torch", "quant": "none", "kv_dtype": "int8"},
            r"kv_dtype: int8 needs the native executor, got 'torch'",
        ),
        (
            {"dtype": "float32", "quant": "none", "kv_dtype": "bfloat16"},
            r"kv_dtype: the torch executor expects that of dtype, float32, got bfloat16",
        ),
    ],
    ids=str,
)
def test_an_option_that_nobody_would_honour_is_refused(
    options: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"quant": "int4"} | options
    with pytest.raises(ConfigError, match=message):
        executor_path(WorkerConfig(**given))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float32"}, "native and dtype 'float32'"),
        ({"proposer": "ngram-device"}, "native and proposer 'ngram-device'"),
        ({"proposer": "self-draft", "verify": "block"}, "native and verify 'block'"),
        ({"dtype": "float32", "executor": "torch"}, ""),
        ({"proposer": "self-draft"}, ""),
    ],
    ids=str,
)
def test_torch_instead_of_native_is_told_with_its_reason(
    options: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    executor_path(WorkerConfig(**options))
    assert bool(caplog.text) == bool(said)
    assert said in caplog.text


def test_a_draft_model_that_is_not_there_is_all_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = r"worker\.draft_model: expected a \.gguf file or .*, found nothing at /nope"
    with pytest.raises(ConfigError, match=message):
        executor_path(WorkerConfig(proposer="draft-model", draft_model="/nope"))
    assert not caplog.records


def test_choosing_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from optimist.actors.config import WorkerConfig\n"
        "from optimist.actors.worker.chosen import executor_path\n"
        "executor_path(WorkerConfig())\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
