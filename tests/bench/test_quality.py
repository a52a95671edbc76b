"""What is said of a format's quality: right by hand, nothing lost by the reference, and little by ours."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optimist.bench.prose import passages
from optimist.bench.quality import Tally, log_probabilities
from optimist.cli.main import main
from optimist.models.default import default_model
from optimist.models.tokenizer import load_tokenizer

LOGITS = np.array([[2.0, 1.0, 0.0, -1.0], [0.0, 3.0, 0.0, 0.0]], np.float32)
TEXT = np.array([1, 1])


def test_the_reference_agrees_with_itself() -> None:
    logs, tally = log_probabilities(LOGITS.copy()), Tally()
    tally.add(logs, logs, TEXT)
    loss = -np.log([np.exp(1) / np.exp(LOGITS[0]).sum(), np.exp(3) / np.exp(LOGITS[1]).sum()])
    figures = tally.figures()
    assert figures["perplexity"] == pytest.approx(np.exp(loss.mean()), abs=1e-4)
    assert (figures["top1_agreement"], figures["kl"]) == (1.0, 0.0)


def test_who_knows_nothing_is_as_perplexed_as_there_are_tokens() -> None:
    expected, tally = log_probabilities(LOGITS.copy()), Tally()
    tally.add(expected, np.full_like(expected, -np.log(4)), TEXT)
    figures = tally.figures()
    entropy = -(np.exp(expected) * expected).sum(-1).mean()
    assert figures["perplexity"] == pytest.approx(4, abs=1e-4)
    assert figures["top1_agreement"] == 0.5
    assert figures["kl"] == pytest.approx(np.log(4) - entropy, abs=1e-5)


def test_there_is_prose_enough() -> None:
    tokenizer = load_tokenizer(default_model())
    lengths = [len(tokenizer.encode(passage)) for passage in passages()]
    assert len(lengths) == 6
    assert sum(lengths) - len(lengths) >= 20_000


def test_formats_of_the_default_model_beside_float32(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quality", "--tokens", "160", "--threads", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["tokens"] == 160
    assert said["float32"]["kl"] == 0
    kl = {name: found["kl"] for name, found in said.items() if name not in ("tokens", "window")}
    assert kl["none/bfloat16"] < kl["none/int8"] < kl["int4/int8"] < kl["int8/int8"] < 0.05
    assert len(kl) == 7
    for name in kl.keys() - {"float32"}:
        assert said[name]["top1_agreement"] > 0.85
        ratio = said[name]["perplexity"] / said["float32"]["perplexity"]
        assert said[name]["perplexity_lost_percent"] == pytest.approx(100 * (ratio - 1), abs=0.01)


def test_no_tokens_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quality", "--tokens", "0"]) == 2
    assert "--tokens: expected at least 1, got 0" in capsys.readouterr().err
