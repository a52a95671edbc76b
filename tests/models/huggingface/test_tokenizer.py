"""tokenizer.json and what stands beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizer_files as files
from tokenizers import Tokenizer as Core
from tokenizers import decoders, normalizers
from tokenizers.models import BPE

from optimist.messages.errors import ModelError
from optimist.models.tokenizer import load_tokenizer


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_tokenizer(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def sentence_piece_core(decoder: decoders.Decoder) -> Core:
    vocab = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3} | {
        f"<0x{byte:02X}>": 4 + byte for byte in range(256)
    }
    core = Core(
        BPE(vocab=vocab, merges=[("▁", "a")], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    core.decoder = decoder
    return core


def test_sentence_pieces_with_bytes(tmp_path: Path) -> None:
    core = sentence_piece_core(
        decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    )
    core.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.encode("a é")
    assert [tokenizer.token_bytes(token) for token in ids] == [b" a", b" ", b"\xc3", b"\xa9"]
    assert tokenizer.decode(ids) == core.decode(ids) == "a é"


@pytest.mark.parametrize(("scheme", "text"), [("always", "a a"), ("never", " a a")])
def test_metaspace_says_whether_a_space_was_put_in_front(
    scheme: str, text: str, tmp_path: Path
) -> None:
    sentence_piece_core(decoders.Metaspace(prepend_scheme=scheme)).save(
        str(tmp_path / "tokenizer.json")
    )
    assert load_tokenizer(tmp_path).decode([3, 3]) == text


def test_a_decoder_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    sentence_piece_core(decoders.WordPiece()).save(str(tmp_path / "tokenizer.json"))
    assert "tokenizer.json: decoder: expected ByteLevel" in refusal(tmp_path)


def test_truncation_and_padding_of_the_file_do_not_apply(tmp_path: Path) -> None:
    values = files.byte_level_json() | {
        "truncation": {
            "direction": "Right",
            "max_length": 2,
            "strategy": "LongestFirst",
            "stride": 0,
        }
    }
    tokenizer = load_tokenizer(files.write_huggingface(tmp_path / "m", values))
    assert len(tokenizer.encode("a long text")) > 5


def test_ends_come_from_the_configs_before_the_tokenizer(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.byte_level_json())
    assert load_tokenizer(folder).eos_ids == (2,)
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 1, "vocab_size": 300}))
    assert load_tokenizer(folder).eos_ids == (1,)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 5]}))
    tokenizer = load_tokenizer(folder)
    assert (tokenizer.eos_ids, tokenizer.vocab_size) == ((0, 5), 300)
    assert tokenizer.is_special(5)
    assert tokenizer.token_bytes(299) == b""


def test_a_model_with_fewer_ids_than_the_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.byte_level_json())
    (folder / "config.json").write_text(json.dumps({"vocab_size": 267}))
    assert "vocab_size: expected at least 268, as tokenizer.json has, got 267" in refusal(folder)


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    assert "tokenizer.json: missing" in refusal(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": {"type": "BPE"}}'])
def test_a_file_that_is_no_tokenizer_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    assert "tokenizer.json: expected a tokenizer, got" in refusal(tmp_path)


CHAT = [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content }}!",
        [{"name": "other", "template": "?"}, {"name": "default", "template": "x!"}],
    ],
)
def test_a_template_in_the_settings(template: object, tmp_path: Path) -> None:
    settings = {"eos_token": "<|end|>", "chat_template": template}
    folder = files.write_huggingface(tmp_path / "m", files.byte_level_json(), settings)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.decode(tokenizer.encode_chat(CHAT)) == "x!"


def test_a_template_in_its_own_file_goes_first(tmp_path: Path) -> None:
    folder = files.write_byte_level(tmp_path, "huggingface", "no")
    (folder / "chat_template.jinja").write_text("{{ bos_token }}yes{{ eos_token }}")
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode_chat(CHAT)
    assert (ids[0], ids[-1], tokenizer.decode(ids)) == (1, 2, "yes")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"chat_template": 3}, "chat_template: expected a template or a list of them, got 3"),
        ({"chat_template": []}, "chat_template: expected one named default"),
        ({"chat_template": [{"name": "tools", "template": ""}]}, "expected one named default"),
        ({"eos_token": 2}, "eos_token: expected a token's name, got 2"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused_by_key(
    settings: dict[str, object], said: str, tmp_path: Path
) -> None:
    folder = files.write_huggingface(tmp_path / "m", files.byte_level_json(), settings)
    assert said in refusal(folder)


def test_a_template_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = files.write_byte_level(tmp_path, "huggingface")
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe")
    assert "chat_template.jinja: expected UTF-8" in refusal(folder)
