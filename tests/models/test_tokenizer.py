"""Text to ids and back, from GGUF vocabularies and tokenizer.json."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import model_files
import pytest
import tokenizer_files as files
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.messages.errors import InvalidRequest, ModelError
from optimist.models.default import default_model
from optimist.models.gguf.pretokenizers import NAMES, pretokenizer
from optimist.models.tokenizer import Tokenizer, load_tokenizer

TEXTS = [
    "Hello, world! It's 2024: 1,234.5 items.",
    "  leading and trailing  ",
    "Zwölf Boxkämpfer — 你好 世界 🦙\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "def f(x):\n\treturn x**2  # ok\r\n\n\n",
    "\x00\x7f\u200b\ufeff",
    "",
]


@pytest.fixture(scope="module")
def smollm() -> Tokenizer:
    return load_tokenizer_once()


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_back_from_their_ids(text: str, smollm: Tokenizer) -> None:
    assert smollm.decode(smollm.encode(text)) == text


@settings(max_examples=200)
@given(text=st.text())
def test_the_bytes_of_the_ids_are_the_bytes_of_the_text(text: str) -> None:
    tokenizer = load_tokenizer_once()
    known = {tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)}
    expected = bytes(byte for byte in text.encode() if bytes([byte]) in known)
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))) == expected


@cache
def load_tokenizer_once() -> Tokenizer:
    return load_tokenizer(default_model())


def test_what_the_default_model_says_of_itself(smollm: Tokenizer) -> None:
    assert (smollm.vocab_size, smollm.eos_ids) == (49152, (2,))
    assert smollm.special_ids == frozenset(range(17))
    assert smollm.is_special(2) and not smollm.is_special(7042)
    assert smollm.token_bytes(2) == b"<|im_end|>"
    assert smollm.token_bytes(7042) == b" Paris"
    assert [smollm.token_bytes(token) for token in (-1, 49152, 10**9)] == [b"", b"", b""]


def test_bytes_without_a_token_are_left_out(smollm: Tokenizer) -> None:
    assert smollm.decode(smollm.encode("a\x04b")) == "ab"


def test_a_character_spread_over_tokens_is_whole_in_their_bytes(smollm: Tokenizer) -> None:
    ids = smollm.encode("🦙")
    assert len(ids) > 1
    assert smollm.decode(ids[:1]) == "\ufffd"
    assert smollm.decode(ids) == "🦙"


def test_a_raw_prompt_may_spell_control_tokens(smollm: Tokenizer) -> None:
    ids = smollm.encode("<|im_start|>user\nHi<|im_end|>")
    assert (ids[0], ids[-1]) == (1, 2)
    assert smollm.decode(ids) == "user\nHi"
    assert smollm.decode(ids, skip_special=False) == "<|im_start|>user\nHi<|im_end|>"


def test_half_of_a_surrogate_pair_is_refused(smollm: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="expected Unicode text"):
        smollm.encode("a\ud800b")


def test_loading_a_tokenizer_loads_neither_torch_nor_jinja() -> None:
    code = (
        "import sys; from optimist.models.tokenizer import load_tokenizer;"
        f"load_tokenizer({str(default_model())!r});"
        "print(sorted({'torch', 'jinja2', 'gguf'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize("format_", ["gguf", "huggingface"])
def test_both_formats_of_one_vocabulary_agree(format_: str, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(files.write_byte_level(tmp_path, format_))
    assert (tokenizer.eos_ids, tokenizer.special_ids) == ((2,), frozenset({0, 1, 2}))
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == load_tokenizer(files.write_byte_level(tmp_path, "gguf")).encode(text)
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("a<|end|><think>") == [*tokenizer.encode("a"), 2, 3]
    assert tokenizer.decode([1, 3, 2]) == "<think>"


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "It's 1234\n\n x", ["It", "'s", " 1234", "\n\n", " x"]),
        ("default", "It's 1234\n\n x", ["It", "'s", " 1234", "\n\n", " x"]),
        ("smollm", "It's 1234\n\n x", ["It", "'s", " ", "1", "2", "3", "4", "\n\n", " x"]),
        ("qwen2", "It'S 1234\n\n x", ["It", "'S", " ", "1", "2", "3", "4", "\n\n", " x"]),
        ("llama-bpe", "It'S 1234\n\n x", ["It", "'S", " ", "123", "4", "\n\n", " x"]),
        ("llama3", "It'S 1234\n\n x", ["It", "'S", " ", "123", "4", "\n\n", " x"]),
        ("tekken", "camelCase 12/\n", ["camel", "Case", " ", "1", "2", "/\n"]),
    ],
)
def test_text_is_cut_as_the_name_says(pre: str, text: str, pieces: list[str]) -> None:
    cut = [text[start:end] for _, (start, end) in pretokenizer(pre).pre_tokenize_str(text)]
    assert cut == pieces


def test_every_supported_name_can_be_built() -> None:
    assert all(pretokenizer(name) is not None for name in NAMES)


@pytest.mark.parametrize(("pre", "ids"), [("llama-bpe", ["the"]), ("gpt-2", ["th", "e"])])
def test_whole_words_go_without_merges_where_the_name_says_so(
    pre: str, ids: list[str], tmp_path: Path
) -> None:
    metadata = files.byte_level_metadata(
        pre=pre, add_bos_token=False, merges=model_files.Array(8, ["t h"])
    )
    tokenizer = load_tokenizer(files.write_gguf(tmp_path / "m.gguf", metadata))
    assert [tokenizer.token_bytes(token).decode() for token in tokenizer.encode("the")] == ids


@pytest.mark.parametrize(
    ("changes", "framed"),
    [
        ({}, ["x"]),
        ({"add_bos_token": True}, ["<|start|>", "x"]),
        ({"add_bos_token": True, "add_eos_token": True}, ["<|start|>", "x", "<|end|>"]),
        ({"pre": "llama-bpe"}, ["<|start|>", "x"]),
        ({"pre": "llama-bpe", "add_bos_token": False}, ["x"]),
        ({"add_bos_token": True, "bos_token_id": None}, ["x"]),
    ],
)
def test_a_text_is_framed_as_the_file_asks(
    changes: dict[str, object], framed: list[str], tmp_path: Path
) -> None:
    path = files.write_gguf(tmp_path / "m.gguf", files.byte_level_metadata(**changes))
    tokenizer = load_tokenizer(path)
    assert [tokenizer.token_bytes(token).decode() for token in tokenizer.encode("x")] == framed
    assert tokenizer.decode(tokenizer.encode("x", add_special=False)) == "x"
    assert len(tokenizer.encode("x", add_special=False)) == 1


def test_the_qwen2_normal_form_is_applied(tmp_path: Path) -> None:
    path = files.write_gguf(tmp_path / "m.gguf", files.byte_level_metadata(pre="qwen2"))
    tokenizer = load_tokenizer(path)
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "\u00e9"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("abc", [" ", "abc"]),
        ("bcab", [" ", "bc", "ab"]),
        ("a  b", [" a", "  ", "b"]),
        ("é", [" ", b"\xc3", b"\xa9"]),
        ("<s>a", [b"<s>", " a"]),
    ],
)
def test_sentence_pieces_are_joined_by_score(
    text: str, pieces: list[str | bytes], tmp_path: Path
) -> None:
    path = files.write_gguf(tmp_path / "m.gguf", files.sentence_piece_metadata())
    tokenizer = load_tokenizer(path)
    ids = tokenizer.encode(text)
    wanted = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    assert [tokenizer.token_bytes(token) for token in ids] == [b"<s>", *wanted]
    assert tokenizer.decode(ids) == text.removeprefix("<s>")


def test_sentence_pieces_without_space_prefix(tmp_path: Path) -> None:
    metadata = files.sentence_piece_metadata(add_space_prefix=False, add_bos_token=False)
    tokenizer = load_tokenizer(files.write_gguf(tmp_path / "m.gguf", metadata))
    assert [tokenizer.token_bytes(token) for token in tokenizer.encode("ab a")] == [b"ab", b" a"]
    assert tokenizer.decode(tokenizer.encode(" a")) == " a"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "t5"}, "tokenizer.ggml.model: expected gpt2 or llama, got 't5'"),
        ({"model": None}, "tokenizer.ggml.model: missing"),
        ({"tokens": None}, "tokenizer.ggml.tokens: missing"),
        ({"pre": "unheard-of"}, "tokenizer.ggml.pre: expected one of gpt-2, default"),
        ({"merges": None}, "tokenizer.ggml.merges: missing"),
        ({"merges": model_files.Array(8, ["th"])}, "pairs with a space between, got 'th'"),
        ({"merges": model_files.Array(8, ["t zz"])}, "metadata tokenizer.ggml.merges: "),
        ({"token_type": model_files.Array(5, [1, 2])}, "token_type: expected 268 kinds, got 2"),
        ({"tokens": model_files.Array(8, ["a", "b", "a"])}, "expected every name once, got \"'a'"),
        ({"eos_token_id": 268}, "eos_token_id: expected an id in [0, 268), got 268"),
        ({"bos_token_id": 999}, "bos_token_id: expected an id in [0, 268), got 999"),
    ],
)
def test_a_vocabulary_that_cannot_be_honoured_is_refused_by_its_key(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = files.write_gguf(tmp_path / "m.gguf", files.byte_level_metadata(**changes))
    with pytest.raises(ModelError) as caught:
        load_tokenizer(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_scores_that_do_not_match_are_refused(tmp_path: Path) -> None:
    metadata = files.sentence_piece_metadata(scores=model_files.Array(6, [0.0]))
    with pytest.raises(ModelError, match=r"scores: expected 269 numbers, got 1"):
        load_tokenizer(files.write_gguf(tmp_path / "m.gguf", metadata))


def test_nothing_at_the_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found nothing there"):
        load_tokenizer(tmp_path / "absent")
