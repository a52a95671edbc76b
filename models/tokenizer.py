"""Text to token ids and back, from a GGUF file or a Hugging Face folder. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from optimist.messages.errors import InvalidRequest, ModelError, RequestFailed
from optimist.models.gguf.tokenizer import gguf_vocabulary
from optimist.models.huggingface.tokenizer import huggingface_vocabulary
from optimist.models.shield import Shield
from optimist.models.spelling import byte_level_bytes, sentence_piece_bytes
from optimist.models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from optimist.models.chat_template import ChatTemplate


class Tokenizer:
    """A model's tokenizer. Immutable and safe to use from several threads.

    Control tokens spelled in a text: `encode` turns them into those tokens, since the author of a
    raw prompt writes everything in it, turns and ends included. `encode_chat` never does: in the
    messages of a conversation they stay ordinary text, and only the template can write control
    tokens. Tokens with a name that are not control tokens, such as `<think>` of some models, are
    part of the text in both.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._core = vocabulary.core
        self._bytes: dict[int, bytes] = {}

    @property
    def vocab_size(self) -> int:
        """How many ids the model knows: 0 to vocab_size - 1. Some may have no token."""
        return self._vocabulary.vocab_size

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text in the model's own opinion, ascending."""
        return self._vocabulary.eos_ids

    @property
    def special_ids(self) -> frozenset[int]:
        """Control tokens: begin, end, roles, padding, unused ones. They are never shown in text."""
        return self._vocabulary.control_ids

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token."""
        return token in self._vocabulary.control_ids

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """The ids of a raw prompt; control tokens spelled in it become those tokens.

        add_special: with what the model wants in front of a text or behind it.
        Raises InvalidRequest when the text is no Unicode, such as half of a surrogate pair.
        """
        try:
            return list(self._core.encode(text, add_special_tokens=add_special).ids)
        except (UnicodeEncodeError, TypeError):
            raise InvalidRequest("prompt: expected Unicode text", field="prompt") from None

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """The ids of a conversation by the model's chat template, ready for the assistant's turn.

        messages: each with `role` and `content`. Raises InvalidRequest when there is no template or
        the template refuses the conversation, RequestFailed when the template itself is at fault.
        """
        shield = self._shield
        covered = shield.cover(messages)
        text = self.chat_template.render(
            covered.messages, add_generation_prompt=add_generation_prompt
        )
        ids: list[int] = []
        for piece in covered.pieces(text):
            ids += self.encode(piece, add_special=False)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids that begin a text. Bytes that are no UTF-8 become U+FFFD.

        skip_special: leave control tokens out, instead of showing their names.
        """
        shown = [token for token in ids if not (skip_special and self.is_special(token))]
        text = b"".join(map(self.token_bytes, shown)).decode("utf-8", "replace")
        return text[1:] if self._vocabulary.space_prefix and text.startswith(" ") else text

    def token_bytes(self, token: int) -> bytes:
        """What a token stands for; of a control token, its name; b"" for an id without a token.

        A character may be spread over several tokens, so these bytes need not be valid UTF-8.
        """
        if (known := self._bytes.get(token)) is None:
            known = self._bytes[token] = self._spelled(token)
        return known

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The model's template. Raises InvalidRequest without one, RequestFailed for a broken one."""
        from optimist.models.chat_template import ChatTemplate

        source = self._vocabulary.chat_template
        if source is None:
            raise InvalidRequest(
                "messages: this model has no chat template; send a prompt instead",
                field="messages",
            )
        try:
            return ChatTemplate(source, self._vocabulary.variables)
        except ModelError as error:
            raise RequestFailed(str(error)) from error

    @cached_property
    def _shield(self) -> Shield:
        names = (self._core.id_to_token(token) for token in self._vocabulary.control_ids)
        return Shield(name for name in names if name)

    def _spelled(self, token: int) -> bytes:
        name = self._core.id_to_token(token) if token >= 0 else None
        if name is None:
            return b""
        if token in self._vocabulary.literal_ids:
            return name.encode()
        if self._vocabulary.spelling == "byte_level":
            return byte_level_bytes(name)
        return sentence_piece_bytes(name)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of a .gguf file or a Hugging Face folder.

    Raises ModelError, naming file and key, for one that is missing, damaged or not supported.
    """
    path = Path(path)
    if path.is_dir():
        return Tokenizer(huggingface_vocabulary(path))
    if path.is_file():
        return Tokenizer(gguf_vocabulary(path))
    raise ModelError(f"{path}: expected a .gguf file or a Hugging Face folder, found nothing there")
