"""The vocabulary of a GGUF file, as a tokenizer."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, decoders, normalizers, processors
from tokenizers import Tokenizer as Core
from tokenizers.models import BPE

from optimist.messages.errors import ModelError
from optimist.models.gguf.config import end_ids
from optimist.models.gguf.file import read_metadata
from optimist.models.gguf.metadata import Metadata
from optimist.models.gguf.pretokenizers import NAMES, WHOLE_WORDS, pretokenizer
from optimist.models.gguf.sentence_piece import merges_by_score
from optimist.models.spelling import SPACE_MARK
from optimist.models.vocabulary import Vocabulary

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""kinds of tokens; what is neither NORMAL nor USER_DEFINED nor a byte (6) is no text"""


def gguf_vocabulary(path: Path) -> Vocabulary:
    """Read the vocabulary. Raises ModelError, naming file and key, for one that is not supported."""
    return _Reader(read_metadata(path)).vocabulary()


class _Reader:
    """The tokenizer's part of a file's metadata."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.names = metadata.texts(_key("tokens"))
        self.ids = {name: token for token, name in enumerate(self.names)}
        self._check_unique()
        self.kinds = self._kinds()

    def vocabulary(self) -> Vocabulary:
        kind = self.metadata.text(_key("model"))
        match kind:
            case "gpt2":
                core, space_prefix = self._byte_level(), False
            case "llama":
                space_prefix = self.metadata.flag(_key("add_space_prefix"), True)
                core = self._sentence_piece(space_prefix)
            case _:
                raise self._refused("model", "gpt2 or llama", kind)
        self._add_literals(core)
        self._frame(core, kind)
        eos = self._checked(end_ids(self.metadata))
        return Vocabulary(
            core=core,
            spelling="byte_level" if kind == "gpt2" else "sentence_piece",
            vocab_size=len(self.names),
            eos_ids=eos,
            control_ids=self._of_kind(UNKNOWN, CONTROL, UNUSED) | frozenset(eos),
            literal_ids=self._of_kind(UNKNOWN, CONTROL, USER_DEFINED, UNUSED),
            space_prefix=space_prefix,
            chat_template=self._chat_template(),
            variables=self._variables(),
        )

    def _byte_level(self) -> Core:
        name = self.metadata.text(_key("pre"), "default")
        if name not in NAMES:
            raise self._refused("pre", f"one of {', '.join(NAMES)}", name)
        merges = [self._merge(text) for text in self.metadata.texts(_key("merges"))]
        core = Core(self._model(merges, ignore_merges=name in WHOLE_WORDS))
        if name == "qwen2":
            core.normalizer = normalizers.NFC()
        core.pre_tokenizer = pretokenizer(name)
        core.decoder = decoders.ByteLevel()
        return core

    def _sentence_piece(self, space_prefix: bool) -> Core:
        scores = self.metadata.reals(_key("scores"))
        if len(scores) != len(self.names):
            raise self._refused("scores", f"{len(self.names)} numbers", len(scores))
        normal = {
            name: score
            for name, score, kind in zip(self.names, scores, self.kinds, strict=True)
            if kind == NORMAL
        }
        unknown = next((self.names[token] for token in sorted(self._of_kind(UNKNOWN))), None)
        core = Core(
            self._model(
                merges_by_score(normal), byte_fallback=True, fuse_unk=True, unk_token=unknown
            )
        )
        marks: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE_MARK)]
        if space_prefix:
            marks.insert(0, normalizers.Prepend(SPACE_MARK))
        core.normalizer = normalizers.Sequence(marks)
        core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        return core

    def _model(self, merges: list[tuple[str, str]], **options: object) -> BPE:
        try:
            return BPE(vocab=self.ids, merges=merges, **options)
        except Exception as error:  # noqa: BLE001  the library raises nothing more precise
            raise ModelError(f"{self.metadata.path}: metadata {_key('merges')}: {error}") from None

    def _merge(self, text: str) -> tuple[str, str]:
        left, space, right = text.partition(" ")
        if not (left and space and right):
            raise self._refused("merges", "pairs with a space between", text)
        return left, right

    def _add_literals(self, core: Core) -> None:
        """Tokens that are recognised in the text by their name, ahead of any merging."""
        for kind, special in ((UNKNOWN, True), (CONTROL, True), (USER_DEFINED, False)):
            tokens = [
                AddedToken(self.names[token], special=special, normalized=False)
                for token in sorted(self._of_kind(kind))
                if self.names[token]
            ]
            core.add_special_tokens(tokens) if special else core.add_tokens(tokens)

    def _frame(self, core: Core, kind: str) -> None:
        """Begin and end of a text, where the file asks for them."""
        begins = kind == "llama" or self.metadata.text(_key("pre"), "") in WHOLE_WORDS
        frame = [
            self._framing("bos", begins),
            "$A",
            self._framing("eos", False),
        ]
        named = {name: self.ids[name] for name in frame if name and name != "$A"}
        if named:
            core.post_processor = processors.TemplateProcessing(
                single=[name for name in frame if name], special_tokens=list(named.items())
            )

    def _framing(self, end: str, default: bool) -> str | None:
        if not self.metadata.flag(_key(f"add_{end}_token"), default):
            return None
        token = self.metadata.optional_id(_key(f"{end}_token_id"))
        return None if token is None else self._name(f"{end}_token_id", token)

    def _kinds(self) -> list[int]:
        if _key("token_type") not in self.metadata:
            return [NORMAL] * len(self.names)
        kinds = self.metadata.integers(_key("token_type"))
        if len(kinds) != len(self.names):
            raise self._refused("token_type", f"{len(self.names)} kinds", len(kinds))
        return kinds

    def _of_kind(self, *kinds: int) -> frozenset[int]:
        return frozenset(token for token, kind in enumerate(self.kinds) if kind in kinds)

    def _checked(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        for token in tokens:
            self._name("eos_token_id", token)
        return tokens

    def _name(self, key: str, token: int) -> str:
        if not 0 <= token < len(self.names):
            raise self._refused(key, f"an id in [0, {len(self.names)})", token)
        return self.names[token]

    def _check_unique(self) -> None:
        if len(self.ids) == len(self.names):
            return
        for token, name in enumerate(self.names):
            if self.ids[name] != token:
                raise self._refused("tokens", "every name once", f"{name!r} at {token} and later")

    def _chat_template(self) -> str | None:
        key = "tokenizer.chat_template"
        return self.metadata.text(key) if key in self.metadata else None

    def _variables(self) -> dict[str, str]:
        """`bos_token` and the like, as templates name them."""
        variables: dict[str, str] = {}
        for name, key in _TEMPLATE_VARIABLES.items():
            if (token := self.metadata.optional_id(_key(key))) is not None:
                variables[name] = self._name(key, token)
        return variables

    def _refused(self, key: str, expected: str, actual: object) -> ModelError:
        return ModelError(
            f"{self.metadata.path}: metadata {_key(key)}: expected {expected}, got {actual!r:.120}"
        )


_TEMPLATE_VARIABLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def _key(name: str) -> str:
    return f"tokenizer.ggml.{name}"
