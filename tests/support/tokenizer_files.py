"""Small tokenizer files: a byte-level vocabulary and a SentencePiece one, in both formats."""

from __future__ import annotations

import json
from pathlib import Path

import model_files as files

CONTROL = ("<|pad|>", "<|start|>", "<|end|>")
NAMED = ("<think>",)
WORDS = ("th", "the", "Ġthe", "in", "ing", "12", "123", "ĊĊ")
MERGES = ("t h", "th e", "Ġ the", "i n", "in g", "1 2", "12 3", "Ċ Ċ")


def byte_characters() -> list[str]:
    """The characters that stand for the bytes 0 to 255 in byte-level vocabularies."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found: list[str] = []
    for byte in range(256):
        hidden = sum(1 for other in range(byte) if other not in shown)
        found.append(chr(byte) if byte in shown else chr(0x100 + hidden))
    return found


def byte_level_tokens() -> list[str]:
    return [*CONTROL, *NAMED, *byte_characters(), *WORDS]


def byte_level_metadata(**changes: object) -> dict[str, object]:
    """GGUF metadata of the byte-level vocabulary. changes: below `tokenizer.ggml.`."""
    tokens = byte_level_tokens()
    kinds = [3] * len(CONTROL) + [4] * len(NAMED) + [1] * (len(tokens) - 4)
    found: dict[str, object] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": files.Array(8, tokens),
        "token_type": files.Array(5, kinds),
        "merges": files.Array(8, MERGES),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "padding_token_id": 0,
    }
    found |= changes
    return {f"tokenizer.ggml.{key}": value for key, value in found.items() if value is not None}


def write_gguf(path: Path, metadata: dict[str, object], template: str | None = None) -> Path:
    extra = {} if template is None else {"tokenizer.chat_template": template}
    path.write_bytes(files.gguf_bytes(metadata | extra, {}))
    return path


def byte_level_json() -> dict[str, object]:
    """tokenizer.json of the byte-level vocabulary."""
    tokens = byte_level_tokens()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": at, "content": name, "special": name in CONTROL, **flags}
            for at, name in enumerate((*CONTROL, *NAMED))
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {name: at for at, name in enumerate(tokens)},
            "merges": list(MERGES),
        },
    }


def write_huggingface(
    folder: Path, tokenizer: dict[str, object], settings: dict[str, object] | None = None
) -> Path:
    """A folder with tokenizer.json, tokenizer_config.json and a generation_config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    named = settings or {"eos_token": CONTROL[2]}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


def write_byte_level(folder: Path, format_: str, template: str | None = None) -> Path:
    """The byte-level vocabulary as a GGUF file or as a folder."""
    if format_ == "gguf":
        return write_gguf(folder / "vocab.gguf", byte_level_metadata(), template)
    settings: dict[str, object] = {
        "bos_token": CONTROL[1],
        "eos_token": {"content": CONTROL[2]},
    }
    if template is not None:
        settings["chat_template"] = template
    return write_huggingface(folder / "folder", byte_level_json(), settings)


def sentence_piece_metadata(**changes: object) -> dict[str, object]:
    """GGUF metadata of a SentencePiece vocabulary with bytes. changes: below `tokenizer.ggml.`."""
    pieces = ["▁", "a", "b", "c", "ab", "bc", "▁a", "▁ab", "abc", "▁▁"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    scores = [0.0] * 259 + [-9.0, -9.0, -9.0, -9.0, -2.0, -1.0, -4.0, -5.0, -3.0, -6.0]
    found: dict[str, object] = {
        "model": "llama",
        "tokens": files.Array(8, tokens),
        "token_type": files.Array(5, kinds),
        "scores": files.Array(6, scores),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    found |= changes
    return {f"tokenizer.ggml.{key}": value for key, value in found.items() if value is not None}
