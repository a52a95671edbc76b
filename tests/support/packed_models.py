"""Small models, and what starts with packed weights kept make of them."""

from __future__ import annotations

from pathlib import Path

import model_files as files
from native_toy import open_slot, rows, sizes

from optimist.kernels.native.shapes import Floats
from optimist.models.native import load_device
from optimist.models.quantisation import Quant
from optimist.models.source import open_source

TEXT = [5, 99, 250, 7, 7, 31]


def write_model(path: Path, *, seed: int = 0, head: bool = False) -> Path:
    weights = files.weights(files.shapes(biases=True, head=head), seed)
    tensors = files.gguf_tensors(weights, "qwen2")
    path.write_bytes(files.gguf_bytes(files.gguf_metadata("qwen2"), tensors))
    return path


def logits(model: Path, cache: Path | None = None, quant: Quant = "none") -> Floats:
    """Of a start: load, one text, close."""
    with open_source(model) as source:
        device = load_device(
            source, sizes(max_len=64), quant=quant, cache="" if cache is None else str(cache)
        )
    open_slot(device, 0, TEXT, [3])
    found = device.logits(rows([0], [len(TEXT)]))
    device.close()
    return found


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def huggingface(folder: Path) -> Path:
    weights = files.weights(files.shapes())
    return files.write_huggingface(
        folder, files.huggingface_config("llama"), files.huggingface_tensors(weights)
    )
