"""Where weights come from: GGUF files and Hugging Face folders."""

from __future__ import annotations

from pathlib import Path

from optimist.messages.errors import ModelError
from optimist.models.base import WeightSource, expected_shapes, layer_shapes
from optimist.models.gguf.source import GgufSource
from optimist.models.huggingface.source import HuggingFaceSource

__all__ = ["WeightSource", "expected_shapes", "layer_shapes", "open_source"]


def open_source(path: str | Path) -> WeightSource:
    """Open a .gguf file or a Hugging Face folder, after checking all of it but the weights' values.

    Raises ModelError, naming file, tensor, what was needed and what is there, when a tensor is
    missing, left over, of another shape or type, or beyond the end of its file.
    """
    path = Path(path)
    if path.is_dir():
        return HuggingFaceSource(path)
    if path.is_file():
        return GgufSource(path)
    raise ModelError(f"{path}: expected a .gguf file or a Hugging Face folder, found nothing there")
