"""What a user may ask of a generation: the same value in Python, over ZeroMQ and behind HTTP."""

from __future__ import annotations

import math

import msgspec

from optimist.messages.errors import InvalidRequest

_WHOLE, _NUMBER = (int,), (int, float)
_WHOLES = ("max_tokens", "top_k", "seed", "min_tokens", "logprobs", "prompt_logprobs", "n")
_NUMBERS = (
    "temperature",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
_OPTIONAL = ("max_tokens", "seed", "logprobs", "prompt_logprobs")

MAX_LOGPROBS = 20
MAX_N = 64
MAX_STOPS = 16


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to choose tokens, and when to stop.

    max_tokens: None means as many as the context allows; 0 is for prompt_logprobs alone.
    temperature: 0 is greedy. top_k: 0 is off. seed: None draws one, which the result reports.
    stop: strings that end the text; they are not part of it.
    stop_token_ids: ids that end the request like the model's own end token; they are not part of the text.
    ignore_eos: go on after the model's end token. min_tokens: no end before so many tokens.
    logit_bias: id to value added to its logit, within [-100, 100].
    logprobs: alternatives reported with each token, 0 to 20; None reports nothing.
    prompt_logprobs: the same for the tokens of the prompt, which is then computed without the prefix cache.
    n: continuations of the same prompt.

    Raises InvalidRequest, naming the field, when a value is of another type or out of range.
    """

    max_tokens: int | None = 256
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    n: int = 1

    def __post_init__(self) -> None:
        _check_types(self)
        _check_max_tokens(self.max_tokens, scored=self.prompt_logprobs is not None)
        _check_range("temperature", self.temperature, 0.0, 100.0)
        _check("top_k", 0 <= self.top_k < 2**31, "0 (off) or a count", self.top_k)
        _check("top_p", math.isfinite(self.top_p) and 0 < self.top_p <= 1, "in (0, 1]", self.top_p)
        _check_range("min_p", self.min_p, 0.0, 1.0)
        _check("seed", self.seed is None or -(2**63) <= self.seed < 2**63, "an int64", self.seed)
        _check("stop", len(self.stop) <= MAX_STOPS, f"at most {MAX_STOPS} strings", len(self.stop))
        _check("stop", all(self.stop), "non-empty strings", self.stop)
        _check("stop", all(map(_encodable, self.stop)), "valid Unicode", "an unpaired surrogate")
        _check(
            "stop_token_ids",
            all(0 <= i < 2**31 for i in self.stop_token_ids) and len(self.stop_token_ids) <= 128,
            "at most 128 token ids",
            self.stop_token_ids,
        )
        _check("min_tokens", self.min_tokens >= 0, ">= 0", self.min_tokens)
        _check(
            "min_tokens",
            self.max_tokens is None or self.min_tokens <= self.max_tokens,
            f"<= max_tokens ({self.max_tokens})",
            self.min_tokens,
        )
        _check_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _check_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _check(
            "repetition_penalty",
            math.isfinite(self.repetition_penalty) and 0 < self.repetition_penalty <= 100,
            "in (0, 100]",
            self.repetition_penalty,
        )
        _check(
            "logit_bias", len(self.logit_bias) <= 1024, "at most 1024 entries", len(self.logit_bias)
        )
        for token, value in self.logit_bias.items():
            _check(f"logit_bias.{token}", 0 <= token < 2**31, "a token id", token)
            _check_range(f"logit_bias.{token}", value, -100.0, 100.0)
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            good = value is None or 0 <= value <= MAX_LOGPROBS
            _check(name, good, f"in [0, {MAX_LOGPROBS}]", value)
        _check("n", 1 <= self.n <= MAX_N, f"in [1, {MAX_N}]", self.n)


def _check_types(params: SamplingParams) -> None:
    """Python lets anything in; what came as a message has its types already."""
    for name in _WHOLES:
        value, optional = getattr(params, name), name in _OPTIONAL
        expected = "a whole number" + (" or None" if optional else "")
        _check(name, (optional and value is None) or _is(value, _WHOLE), expected, value)
    for name in _NUMBERS:
        value = getattr(params, name)
        _check(name, _is(value, _NUMBER), "a number", value)
    _check("ignore_eos", isinstance(params.ignore_eos, bool), "True or False", params.ignore_eos)
    _check("stop", _each(params.stop, (str,)), "a tuple of strings", params.stop)
    stops = params.stop_token_ids
    _check("stop_token_ids", _each(stops, _WHOLE), "a tuple of token ids", stops)
    biases: object = params.logit_bias
    _check("logit_bias", isinstance(biases, dict), "a dict of token ids to numbers", biases)
    for token, value in params.logit_bias.items():
        _check("logit_bias", _is(token, _WHOLE), "token ids as keys", token)
        _check(f"logit_bias.{token}", _is(value, _NUMBER), "a number", value)


def _check_max_tokens(value: int | None, *, scored: bool) -> None:
    least = 0 if scored else 1
    _check("max_tokens", value is None or value >= least, f">= {least}", value)


def _each(values: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(values, tuple | list) and all(_is(value, kinds) for value in values)


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_range(field: str, value: float, low: float, high: float) -> None:
    _check(field, math.isfinite(value) and low <= value <= high, f"in [{low:g}, {high:g}]", value)


def _check(field: str, good: bool, expected: str, got: object) -> None:
    if not good:
        raise InvalidRequest(f"{field}: expected {expected}, got {got!r}", field=field)
