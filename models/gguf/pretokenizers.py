"""How text is cut before byte-pair encoding, by the name that a GGUF file gives it."""

from __future__ import annotations

from tokenizers import Regex, pre_tokenizers
from tokenizers.pre_tokenizers import PreTokenizer

_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_LLAMA3 = _CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _TAIL
_QWEN2 = _CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _TAIL
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_REGEXES = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _QWEN2,
    "tekken": _TEKKEN,
}
_DIGIT_BY_DIGIT = ("smollm",)
_PLAIN = ("gpt-2", "default")

NAMES = (*_PLAIN, *_DIGIT_BY_DIGIT, *_REGEXES)
"""the names that are supported; `default` is what files without a name get, and is that of GPT-2"""

WHOLE_WORDS = frozenset({"llama-bpe", "llama3", "tekken"})
"""those that take a piece which is a token as a whole, without merging"""


def pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name. Raises KeyError for one that is not in NAMES."""
    if name in _PLAIN:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name in _DIGIT_BY_DIGIT:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_REGEXES[name]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
