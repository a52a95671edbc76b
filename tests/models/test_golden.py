"""Prompts and continuations that an outside implementation produced with the default model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimist.models.default import default_model
from optimist.models.tokenizer import Tokenizer, load_tokenizer

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "golden.json").read_text()
)["cases"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(default_model())


@pytest.mark.parametrize("case", CASES, ids=[case["prompt"][:24] for case in CASES])
def test_prompts_become_the_ids_that_others_make_of_them(
    case: dict[str, Any], tokenizer: Tokenizer
) -> None:
    if case["kind"] == "chat":
        ids = tokenizer.encode_chat([{"role": "user", "content": case["prompt"]}])
    else:
        ids = tokenizer.encode(case["prompt"])
    assert ids == case["prompt_ids"]


@pytest.mark.parametrize("case", CASES, ids=[case["prompt"][:24] for case in CASES])
def test_continuations_are_the_text_of_their_bytes(
    case: dict[str, Any], tokenizer: Tokenizer
) -> None:
    shown = [token for token in case["greedy_ids"] if not tokenizer.is_special(token)]
    text = tokenizer.decode(case["greedy_ids"])
    assert text.encode() == b"".join(tokenizer.token_bytes(token) for token in shown)
    assert tokenizer.encode(text) == shown


def test_the_end_token_of_every_finished_continuation_is_an_end(tokenizer: Tokenizer) -> None:
    ended = [case for case in CASES if len(case["greedy_ids"]) < 64]
    assert ended
    for case in ended:
        assert case["greedy_ids"][-1] in tokenizer.eos_ids
