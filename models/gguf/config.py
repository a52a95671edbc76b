"""ModelConfig out of GGUF metadata. What cannot be honoured is refused by its key."""

from __future__ import annotations

from math import inf, log
from pathlib import Path

from optimist.messages.errors import ModelError
from optimist.models.config import (
    FactorsRope,
    LinearRope,
    ModelConfig,
    PlainRope,
    RopeScaling,
    YarnRope,
)
from optimist.models.gguf.metadata import Metadata

ARCHITECTURES = ("llama", "qwen2", "qwen3")

_UNDERSTOOD = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
}
"""keys below `{architecture}.` that are honoured or change nothing"""

_END_KEYS = (
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
)


def gguf_config(
    metadata: Metadata,
    *,
    tensors: frozenset[str],
    rope_factors: tuple[float, ...] | None = None,
) -> ModelConfig:
    """The config that the metadata describe.

    tensors: names in the file; they tell whether head and biases are separate.
    rope_factors: values of the tensor rope_freqs.weight, if there is one.
    Raises ModelError, naming file and key, for what is missing, contradictory or unsupported.
    """
    return _Reader(metadata).config(tensors, rope_factors)


def end_ids(metadata: Metadata) -> tuple[int, ...]:
    """Ids of the tokens that the file says end a text or a turn, ascending."""
    return tuple(sorted({metadata.integer(key) for key in _END_KEYS if key in metadata}))


class _Reader:
    """Metadata seen from one architecture."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.architecture = metadata.text("general.architecture")
        if self.architecture not in ARCHITECTURES:
            raise self._refused(
                "general.architecture", f"one of {', '.join(ARCHITECTURES)}", self.architecture
            )

    def config(
        self, tensors: frozenset[str], rope_factors: tuple[float, ...] | None
    ) -> ModelConfig:
        self._check_unsupported()
        hidden, heads = self._integer("embedding_length"), self._integer("attention.head_count")
        if heads <= 0:
            raise self._refused("attention.head_count", "more than 0", heads)
        try:
            return ModelConfig(
                architecture=self.architecture,
                vocab_size=self._vocab_size(),
                hidden_size=hidden,
                num_layers=self._integer("block_count"),
                num_heads=heads,
                num_kv_heads=self._integer("attention.head_count_kv", heads),
                head_dim=self._head_dim(hidden // heads),
                intermediate_size=self._integer("feed_forward_length"),
                max_model_len=self._integer("context_length"),
                rms_norm_eps=self._real("attention.layer_norm_rms_epsilon"),
                rope_theta=self._real("rope.freq_base", 10000.0),
                rope_scaling=self._rope_scaling(rope_factors),
                tie_embeddings="output.weight" not in tensors,
                attention_bias=self.architecture == "qwen2" or "blk.0.attn_q.bias" in tensors,
                output_bias="blk.0.attn_output.bias" in tensors,
                qk_norm=self.architecture == "qwen3",
                sliding_window=self._sliding_window(),
                eos_ids=end_ids(self.metadata),
                bos_id=self.metadata.optional_id("tokenizer.ggml.bos_token_id"),
            )
        except ModelError as error:
            raise _in_file(self.metadata.path, error) from None

    def _check_unsupported(self) -> None:
        prefix = f"{self.architecture}."
        for key in self.metadata:
            if key.startswith(prefix) and key.removeprefix(prefix) not in _UNDERSTOOD:
                raise ModelError(
                    f"{self.metadata.path}: metadata {key}: not supported, and may change results"
                )
        if (experts := self._integer("expert_count", 0)) != 0:
            raise self._refused("expert_count", "0 (no mixture of experts)", experts)
        if f"{prefix}attention.causal" in self.metadata and not self.metadata.flag(
            f"{prefix}attention.causal"
        ):
            raise self._refused("attention.causal", "true", False)

    def _vocab_size(self) -> int:
        if "tokenizer.ggml.tokens" in self.metadata:
            return self.metadata.length("tokenizer.ggml.tokens")
        return self._integer("vocab_size")

    def _head_dim(self, default: int) -> int:
        size = self._integer("attention.key_length", default)
        for key in ("attention.value_length", "rope.dimension_count"):
            if (other := self._integer(key, size)) != size:
                raise self._refused(key, f"the size of a head, {size}", other)
        return size

    def _sliding_window(self) -> int | None:
        window = self._integer("attention.sliding_window", 0)
        return window if 0 < window < self._integer("context_length") else None

    def _rope_scaling(self, factors: tuple[float, ...] | None) -> RopeScaling:
        kind = self.metadata.text(f"{self.architecture}.rope.scaling.type", "none")
        linear = self._real("rope.scale_linear", 1.0)
        if factors is not None:
            if kind != "none" or linear != 1.0:
                raise self._refused(
                    "rope.scaling.type", "none beside the tensor rope_freqs.weight", kind
                )
            return FactorsRope(factors=factors)
        match kind:
            case "none":
                return PlainRope() if linear == 1.0 else LinearRope(factor=linear)
            case "linear":
                return LinearRope(factor=self._real("rope.scaling.factor"))
            case "yarn":
                return self._yarn()
        raise self._refused("rope.scaling.type", "none, linear or yarn", kind)

    def _yarn(self) -> YarnRope:
        factor = self._real("rope.scaling.factor")
        if not 1.0 <= factor < inf:
            raise self._refused("rope.scaling.factor", "at least 1", factor)
        own = self._real("rope.scaling.yarn_attn_factor", self._real("rope.scaling.attn_factor", 1))
        return YarnRope(
            factor=factor,
            original_max_len=self._integer("rope.scaling.original_context_length"),
            attention_factor=own * (1.0 + 0.1 * log(factor)),
            beta_fast=self._real("rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=self._real("rope.scaling.yarn_beta_slow", 1.0),
        )

    def _integer(self, key: str, default: int | None = None) -> int:
        return self.metadata.integer(f"{self.architecture}.{key}", default)

    def _real(self, key: str, default: float | None = None) -> float:
        return self.metadata.real(f"{self.architecture}.{key}", default)

    def _refused(self, key: str, expected: str, actual: object) -> ModelError:
        key = key if key.startswith("general.") else f"{self.architecture}.{key}"
        return ModelError(
            f"{self.metadata.path}: metadata {key}: expected {expected}, got {actual!r}"
        )


def _in_file(path: Path, error: ModelError) -> ModelError:
    text = str(error)
    return error if text.startswith(str(path)) else ModelError(f"{path}: {text}")
