"""Which format each matrix is held in: what `--quant` means for a model file."""

from __future__ import annotations

from typing import Literal

from optimist.kernels.native.shapes import FOUR_BIT, Format
from optimist.messages.errors import ConfigError
from optimist.models.base import WeightSource

Quant = Literal["none", "int8", "int4", "auto"]
"""none: as dtype says. int8: eight bits, a scale for each output. int4: the file's own blocks of four bits
where it has them, eight bits elsewhere. auto: what the file itself has."""

KvDtype = Literal["auto", "bfloat16", "int8", "fp8"]
"""Of keys and values. auto: int8 where weights have 8 or 4 bits. fp8: on GPUs alone."""

FINE, COARSE = 32, 64
"""inputs that share a scale of the activations: a scale for a whole token would cost a tenth of the
likeliest tokens, as a few channels are far larger than the others"""


class Formats:
    """Of every matrix of a source. Raises ConfigError for int4 of a file without such blocks."""

    def __init__(self, source: WeightSource, quant: Quant) -> None:
        self._source = source
        config = source.config
        matrices = [f"layers.{i}.{n}" for i in range(config.num_layers) for n in _MATRICES]
        kinds = {source.stored_type(name) for name in matrices}
        self.quant = _as_stored(kinds) if quant == "auto" else quant
        if self.quant == "int4" and not kinds & FOUR_BIT:
            raise ConfigError(
                f"worker.quant: int4 expects a file with blocks of {', '.join(sorted(FOUR_BIT))}, "
                f"got {', '.join(sorted(kinds))} in {source.path}"
            )

    def of(self, names: tuple[str, ...]) -> Format:
        """Of matrices that lie together."""
        if self.quant == "none":
            return Format.BF16
        four = all(self._source.stored_type(name) in FOUR_BIT for name in names)
        return Format.INT4 if self.quant == "int4" and four else Format.INT8

    @property
    def head(self) -> Format:
        """Never four bits: it decides between tokens directly."""
        return Format.BF16 if self.quant == "none" else Format.INT8

    def kept(self, asked: KvDtype) -> Format:
        """How the native library holds keys and values. Raises ConfigError for fp8."""
        if asked == "fp8":
            raise ConfigError(
                "worker.kv_dtype: the native library expects bfloat16 or int8, got fp8"
            )
        if asked == "auto":
            return Format.BF16 if self.quant == "none" else Format.INT8
        return Format.INT8 if asked == "int8" else Format.BF16

    def group(self, kind: Format) -> int | None:
        """Inputs that share a scale of the activations in front of such a matrix."""
        if kind is Format.BF16:
            return None
        return FINE if self.quant == "int4" else COARSE


_MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


def _as_stored(kinds: set[str]) -> Quant:
    if kinds & FOUR_BIT:
        return "int4"
    return "int8" if "Q8_0" in kinds else "none"
