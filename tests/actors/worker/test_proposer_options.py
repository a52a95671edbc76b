"""What a worker that drafts by itself refuses, by the name of the option, before it reads a weight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draft_driver import Driver
from model_files import Array
from tokenizer_files import byte_level_metadata, byte_level_tokens, write_gguf
from toy_device import NETWORK, PROMPT, SIZES, executor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import RowDrafts
from optimist.actors.worker.draft_model import check_draft_model, check_draft_tokens
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.actors.worker.torch_proposer import draft_config
from optimist.messages.errors import ConfigError, MessageError
from optimist.testing.hand import GREEDY
from optimist.testing.torch_toy import TOY, toy_network


def config(**options: Any) -> WorkerConfig:
    return WorkerConfig(**{"dtype": "float64", **SIZES, **options})


@pytest.mark.parametrize("layers", [2, 3, 99])
def test_self_draft_leaves_layers_out(layers: int) -> None:
    wrong = config(proposer="self-draft", draft_layers=layers)
    message = rf"worker\.draft_layers: expected 1 to 1 of the model's 2 layers, got {layers}"
    with pytest.raises(ConfigError, match=message):
        TorchExecutor(NETWORK, wrong)
    with pytest.raises(ConfigError, match=message):
        draft_config(wrong, TOY, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngram_min": 0}, "ngram_min: expected 1 to"),
        ({"ngram_max": 1}, "ngram_max: expected at least"),
        ({"ngram_max": 10**22}, "ngram_max: expected at most 2147483647, got 10"),
    ],
)
def test_a_look_up_needs_tokens_to_match(options: dict[str, int], message: str) -> None:
    wrong = config(proposer="ngram-device", **options)
    with pytest.raises(ConfigError, match=message):
        TorchExecutor(NETWORK, wrong)
    with pytest.raises(ConfigError, match=message):
        draft_config(wrong, TOY, "")


def test_a_draft_model_has_the_vocabulary_of_the_model() -> None:
    other = toy_network(replace(TOY, vocab_size=96))
    message = r"worker\.draft_model: expected a vocabulary of 97 tokens as in worker\.model, got 96"
    with pytest.raises(ConfigError, match=message):
        TorchExecutor(NETWORK, config(proposer="draft-model"), draft=other)


def test_a_draft_model_has_the_tokens_of_the_model(tmp_path: Path) -> None:
    swapped = [*byte_level_tokens()]
    swapped[10], swapped[11] = swapped[11], swapped[10]
    ours = write_gguf(tmp_path / "ours.gguf", byte_level_metadata())
    same = write_gguf(tmp_path / "same.gguf", byte_level_metadata())
    other = write_gguf(tmp_path / "other.gguf", byte_level_metadata(tokens=Array(8, swapped)))
    check_draft_tokens(str(same), str(ours))
    message = (
        r"worker\.draft_model: expected the tokens of worker\.model, where 10 is b'.+', got b'.+'"
    )
    with pytest.raises(ConfigError, match=message):
        check_draft_tokens(str(other), str(ours))


def test_a_draft_model_is_made_for_texts_as_long() -> None:
    message = r"worker\.draft_model: expected a model made for 48 tokens or more, got one for 40"
    with pytest.raises(ConfigError, match=message):
        check_draft_model(replace(TOY, max_model_len=40), TOY, 48)
    check_draft_model(replace(TOY, max_model_len=48), TOY, 48)


def test_a_draft_model_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"worker\.draft_model: expected a path"):
        draft_config(config(proposer="draft-model"), TOY, "")


def test_memory_is_shared_with_the_cache_of_the_draft_model() -> None:
    sizes: dict[str, Any] = {"kv_blocks": None, "kv_memory_mb": 1, "max_slots": 200}
    alone = TorchExecutor(NETWORK, config(**sizes)).limits.num_blocks
    both = TorchExecutor(
        NETWORK, config(**sizes, proposer="draft-model"), draft=toy_network(seed=1)
    )
    assert both.limits.num_blocks == alone // 2


def test_drafts_from_the_host_are_refused_where_the_device_drafts() -> None:
    driver = Driver(TorchExecutor(NETWORK, config(proposer="self-draft")), optimistic=True)
    driver.open(0, PROMPT, GREEDY)
    with pytest.raises(MessageError, match="this device drafts itself"):
        driver.prefill({0: 7})


@pytest.mark.parametrize(
    ("counts", "ids", "message"),
    [
        ([3], [1, 2, 3], r"drafts\.counts: expected at most batch\.draft_counts \[2\], got \[3\]"),
        ([1, 1], [1, 2], r"drafts\.counts: expected at most"),
        ([2], [1], r"drafts\.ids: expected 2 tokens, got 1"),
        ([2], [1, 97], r"drafts\.ids: expected tokens from 0 to 96, got 1 to 97"),
        ([2], [-1, 3], r"drafts\.ids: expected tokens from 0 to 96, got -1 to 3"),
    ],
)
def test_drafts_that_cannot_be_are_refused(
    counts: list[int], ids: list[int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = executor()
    driver = Driver(device, optimistic=True)
    driver.open(0, PROMPT, GREEDY)
    driver.prefill({0: 7})
    submit = device.submit

    def lying(batch: Any, drafts: Any = None) -> Any:
        return submit(batch, RowDrafts(np.array(counts, np.int32), np.array(ids, np.int32)))

    monkeypatch.setattr(device, "submit", lying)
    with pytest.raises(MessageError, match=message):
        driver.decode({0: [5, 6]})
