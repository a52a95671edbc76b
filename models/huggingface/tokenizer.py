"""The tokenizer.json of a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer as Core

from optimist.messages.errors import ModelError
from optimist.models.huggingface.config import end_ids
from optimist.models.huggingface.json_file import JsonFile, read_optional_json
from optimist.models.vocabulary import Spelling, Vocabulary

_VARIABLES = ("bos_token", "eos_token", "unk_token", "pad_token")


def huggingface_vocabulary(folder: Path) -> Vocabulary:
    """Read tokenizer.json and what stands beside it. Raises ModelError, naming the file.

    Beside it: config.json and generation_config.json for sizes and ends, chat_template.jinja or
    tokenizer_config.json for the template and the names it may use.
    """
    path = folder / "tokenizer.json"
    core = _core(path)
    spelling, space_prefix = _spelling(path, core)
    settings = read_optional_json(folder / "tokenizer_config.json")
    variables = _variables(settings)
    added = core.get_added_tokens_decoder()
    eos = _eos(folder, core, variables)
    return Vocabulary(
        core=core,
        spelling=spelling,
        vocab_size=_vocab_size(folder, core),
        eos_ids=eos,
        control_ids=frozenset(token for token, entry in added.items() if entry.special) | set(eos),
        literal_ids=frozenset(added),
        space_prefix=space_prefix,
        chat_template=_chat_template(folder, settings),
        variables=variables,
    )


def _core(path: Path) -> Core:
    if not path.is_file():
        raise ModelError(f"{path}: missing")
    try:
        core = Core.from_file(str(path))
    except Exception as error:  # noqa: BLE001  the library raises nothing more precise
        raise ModelError(f"{path}: expected a tokenizer, got {error}") from None
    core.no_truncation()
    core.no_padding()
    return core


def _spelling(path: Path, core: Core) -> tuple[Spelling, bool]:
    """How the decoder turns names into text, and whether it takes a leading space away."""
    steps = _decoder_steps(core)
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"]:
        return "byte_level", False
    if kinds == ["Metaspace"]:
        return "sentence_piece", steps[0].get("prepend_scheme") != "never"
    if "ByteFallback" in kinds and set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
        return "sentence_piece", "Strip" in kinds
    raise ModelError(
        f"{path}: decoder: expected ByteLevel, Metaspace, or ByteFallback with Replace, Fuse and "
        f"Strip; got {' '.join(map(str, kinds)) or 'none'}"
    )


def _decoder_steps(core: Core) -> list[dict[str, object]]:
    if core.decoder is None:
        return []
    decoder = json.loads(core.decoder.__getstate__())
    steps: list[dict[str, object]] = (
        decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    )
    return steps


def _vocab_size(folder: Path, core: Core) -> int:
    """The model's, which may be rounded up; it has no fewer ids than the tokenizer."""
    config = read_optional_json(folder / "config.json")
    known = core.get_vocab_size(with_added_tokens=True)
    size = config.integer("vocab_size", known)
    if size < known:
        raise config.refused("vocab_size", f"at least {known}, as tokenizer.json has")
    return size


def _eos(folder: Path, core: Core, variables: dict[str, str]) -> tuple[int, ...]:
    """The configs' ids; if they name none, the tokenizer's end token."""
    if ids := end_ids(folder):
        return ids
    token = core.token_to_id(variables["eos_token"]) if "eos_token" in variables else None
    return () if token is None else (token,)


def _variables(settings: JsonFile) -> dict[str, str]:
    """Names of begin and end as templates use them: a string, or an object with `content`."""
    found: dict[str, str] = {}
    for name in _VARIABLES:
        match settings.values.get(name):
            case None:
                pass
            case str(text) | {"content": str(text)}:
                found[name] = text
            case _:
                raise settings.refused(name, "a token's name")
    return found


def _chat_template(folder: Path, settings: JsonFile) -> str | None:
    """chat_template.jinja goes first; among several in tokenizer_config.json, `default`."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{path}: expected UTF-8, got {error}") from None
    match settings.values.get("chat_template"):
        case None:
            return None
        case str(text):
            return text
        case [*entries]:
            for entry in entries:
                match entry:
                    case {"name": "default", "template": str(text)}:
                        return text
            raise settings.refused("chat_template", "one named default")
    raise settings.refused("chat_template", "a template or a list of them")
