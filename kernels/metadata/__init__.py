"""Where the tokens of a step belong: the device-side form of a batch."""

from __future__ import annotations

from optimist.kernels.metadata.types import ExactMetadata, Metadata, OptimisticMetadata

__all__ = ["ExactMetadata", "Metadata", "OptimisticMetadata"]
