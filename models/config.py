"""The shape of a Llama-family decoder: everything a network needs to know beside its weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from optimist.messages.errors import ModelError

MAX_SIZE = 2**31 - 1
"""lengths and token ids travel as int32"""
MAX_LAYERS = 4096
"""more than that is taken for a damaged file before anything is sized by it"""


def _check_positive(**values: float) -> None:
    """Raise ModelError unless every value is above 0 and finite."""
    for name, value in values.items():
        if not 0 < value < inf:
            raise ModelError(f"{name}: expected more than 0, got {value}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainRope:
    """Rotary positions as they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearRope:
    """Positions divided by `factor`."""

    factor: float

    def __post_init__(self) -> None:
        _check_positive(factor=self.factor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Rope:
    """Low frequencies divided by `factor`, high ones kept, a linear blend between.

    A frequency is low when its wavelength is above original_max_len / low_freq_factor, high when it
    is below original_max_len / high_freq_factor.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int

    def __post_init__(self) -> None:
        _check_positive(
            factor=self.factor,
            low_freq_factor=self.low_freq_factor,
            original_max_len=self.original_max_len,
        )
        if not self.low_freq_factor < self.high_freq_factor < inf:
            raise ModelError(
                f"high_freq_factor: expected more than low_freq_factor {self.low_freq_factor}, "
                f"got {self.high_freq_factor}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class YarnRope:
    """Low frequencies divided by `factor`, high ones kept, a ramp over dimensions between.

    beta_fast, beta_slow: rotations within original_max_len at which the ramp begins and ends.
    attention_factor: multiplies cosine and sine. truncate: ramp ends are whole dimensions.
    """

    factor: float
    original_max_len: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        _check_positive(
            factor=self.factor,
            original_max_len=self.original_max_len,
            attention_factor=self.attention_factor,
            beta_fast=self.beta_fast,
            beta_slow=self.beta_slow,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorsRope:
    """Frequency i divided by `factors[i]`, [head_dim / 2]: a scaling that a file spells out."""

    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        for index, factor in enumerate(self.factors):
            _check_positive(**{f"rope factors[{index}]": factor})


RopeScaling = PlainRope | LinearRope | Llama3Rope | YarnRope | FactorsRope


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A decoder of the Llama family: RMSNorm, RoPE (rotate-half), grouped-query attention, SwiGLU.

    architecture: as the file names it. max_model_len: positions it was made for.
    rope_theta: base of the rotary frequencies theta ** (-2 i / head_dim).
    tie_embeddings: the head is the embedding, there is no tensor `head`.
    attention_bias: q, k and v have biases. output_bias: o has one too.
    qk_norm: RMSNorm over head_dim on q and k of every head, before RoPE.
    sliding_window: a token sees itself and the `sliding_window - 1` tokens before it; None sees all.
    eos_ids: tokens that end a text. bos_id: token that begins one, if there is such.

    Raises ModelError when the numbers contradict each other.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    max_model_len: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling = PlainRope()
    tie_embeddings: bool = False
    attention_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    sliding_window: int | None = None
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None

    def __post_init__(self) -> None:
        _check_positive(**{name: getattr(self, name) for name in _POSITIVE})
        if isinstance(self.rope_scaling, YarnRope) and self.rope_theta <= 1:
            raise ModelError(f"rope_theta: YaRN expects more than 1, got {self.rope_theta}")
        for name in _POSITIVE:
            if getattr(self, name) > MAX_SIZE:
                raise ModelError(f"{name}: expected at most {MAX_SIZE}, got {getattr(self, name)}")
        if self.num_layers > MAX_LAYERS:
            raise ModelError(f"num_layers: expected at most {MAX_LAYERS}, got {self.num_layers}")
        if self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"num_heads: expected a multiple of num_kv_heads {self.num_kv_heads}, "
                f"got {self.num_heads}"
            )
        if self.head_dim % 2:
            raise ModelError(f"head_dim: expected an even number, got {self.head_dim}")
        if self.sliding_window is not None and self.sliding_window <= 0:
            raise ModelError(f"sliding_window: expected more than 0, got {self.sliding_window}")
        self._check_ids()

    def _check_ids(self) -> None:
        for name, ids in (("eos_ids", self.eos_ids), ("bos_id", (self.bos_id,))):
            for token in ids:
                if token is not None and not 0 <= token < self.vocab_size:
                    raise ModelError(f"{name}: expected ids in [0, {self.vocab_size}), got {token}")


_POSITIVE = (
    "vocab_size",
    "hidden_size",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "intermediate_size",
    "max_model_len",
    "rms_norm_eps",
    "rope_theta",
)
