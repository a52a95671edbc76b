"""Small model files with random weights: GGUF by hand, Hugging Face folders by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, VOCAB = 32, 2, 4, 2, 64, 300
HEAD_DIM = HIDDEN // HEADS
ALIGNMENT = 32


class Int(NamedTuple):
    """A GGUF metadata integer of a given value type."""

    value: int
    kind: int = 4


class Array(NamedTuple):
    """A GGUF metadata array. kind: value type of its items."""

    kind: int
    items: Iterable[object]


class GgufTensor(NamedTuple):
    """shape: row length last. data: as stored. kind: number of the type."""

    shape: tuple[int, ...]
    kind: int
    data: bytes


_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def gguf_text(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: object) -> bytes:
    """Type and bytes of a metadata value."""
    match value:
        case Int():
            return struct.pack(f"<I{_CODES[value.kind]}", value.kind, value.value)
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str() | bytes():
            return struct.pack("<I", 8) + gguf_text(value)
        case Array():
            return struct.pack("<I", 9) + _array(value)
    raise TypeError(value)


def _array(array: Array) -> bytes:
    items = list(array.items)
    head = struct.pack("<IQ", array.kind, len(items))
    if array.kind == 8:
        return head + b"".join(gguf_text(str(item)) for item in items)
    if array.kind == 9:
        return head + b"".join(_array(item) for item in items if isinstance(item, Array))
    return head + struct.pack(f"<{len(items)}{_CODES[array.kind]}", *items)


def gguf_bytes(
    metadata: Mapping[str, object],
    tensors: Mapping[str, GgufTensor],
    *,
    version: int = 3,
    offsets: Mapping[str, int] | None = None,
) -> bytes:
    """A whole file. offsets: of tensors from the start of the data, where not one after another."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += gguf_text(key) + gguf_value(value)
    position, data = 0, b""
    for name, tensor in tensors.items():
        offset = (offsets or {}).get(name, position)
        dimensions = tensor.shape[::-1]
        header += gguf_text(name) + struct.pack(
            f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, tensor.kind, offset
        )
        data += tensor.data + bytes(-len(tensor.data) % ALIGNMENT)
        position = len(data)
    last = list(tensors.values())[-1] if tensors else None
    padding = 0 if last is None else -len(last.data) % ALIGNMENT
    return header + bytes(-len(header) % ALIGNMENT) + data[: len(data) - padding]


def shapes(
    *, biases: bool = False, qk_norm: bool = False, head: bool = False
) -> dict[str, tuple[int, ...]]:
    """Canonical names and shapes of the small model."""
    kv = KV_HEADS * HEAD_DIM
    found: dict[str, tuple[int, ...]] = {"embed": (VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        part: dict[str, tuple[int, ...]] = {"attn_norm": (HIDDEN,), "q": (HIDDEN, HIDDEN)}
        part |= {"k": (kv, HIDDEN), "v": (kv, HIDDEN), "o": (HIDDEN, HIDDEN)}
        if biases:
            part |= {"q_bias": (HIDDEN,), "k_bias": (kv,), "v_bias": (kv,)}
        if qk_norm:
            part |= {"q_norm": (HEAD_DIM,), "k_norm": (HEAD_DIM,)}
        part |= {"ffn_norm": (HIDDEN,), "gate": (FFN, HIDDEN), "up": (FFN, HIDDEN)}
        part |= {"down": (HIDDEN, FFN)}
        found |= {f"layers.{layer}.{name}": shape for name, shape in part.items()}
    found["norm"] = (HIDDEN,)
    if head:
        found["head"] = (VOCAB, HIDDEN)
    return found


def weights(names: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights that bfloat16 and float16 hold exactly, norms around one."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.integers(-8, 9, shape) / 32 + ("norm" in name)).astype(np.float32)
        for name, shape in names.items()
    }


GGUF_NAMES = {
    "embed": "token_embd.weight",
    "norm": "output_norm.weight",
    "head": "output.weight",
    "attn_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
}
HUGGINGFACE_NAMES = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "head": "lm_head.weight",
    "attn_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}


def file_name(name: str, parts: Mapping[str, str], prefix: str) -> str:
    """A canonical name in the words of a file format."""
    if "." not in name:
        return parts[name]
    _, layer, part = name.split(".")
    return f"{prefix}.{layer}.{parts[part]}"


def interleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of q or k as GGUF files of architecture llama have them: halves of a head interleaved."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def gguf_metadata(architecture: str = "llama", /, **changes: object) -> dict[str, object]:
    """Metadata of the small model. changes: by key, with `__` for a dot; None leaves a key out."""
    a = architecture
    found: dict[str, object] = {
        "general.architecture": a,
        f"{a}.block_count": LAYERS,
        f"{a}.context_length": 128,
        f"{a}.embedding_length": HIDDEN,
        f"{a}.feed_forward_length": FFN,
        f"{a}.attention.head_count": HEADS,
        f"{a}.attention.head_count_kv": KV_HEADS,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.rope.freq_base": 10000.0,
        f"{a}.vocab_size": VOCAB,
    }
    found |= {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in found.items() if value is not None}


def gguf_tensors(
    values: Mapping[str, NDArray[np.float32]], architecture: str = "llama"
) -> dict[str, GgufTensor]:
    """The weights as float32 tensors under the names and in the order of GGUF."""
    found: dict[str, GgufTensor] = {}
    for name, value in values.items():
        part = name.rpartition(".")[2]
        if architecture == "llama" and part in ("q", "q_bias", "k", "k_bias"):
            value = interleaved(value, HEADS if part.startswith("q") else KV_HEADS)
        found[file_name(name, GGUF_NAMES, "blk")] = GgufTensor(value.shape, 0, value.tobytes())
    return found


def safetensors_bytes(
    tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]], **changes: object
) -> bytes:
    """A safetensors file. changes: header entries by tensor name, in place of the right ones."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position, data = 0, b""
    for name, (dtype, shape, raw) in tensors.items():
        end = position + len(raw)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position, data = end, data + raw
    text = json.dumps(header | changes).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def stored(value: NDArray[np.float32], dtype: str) -> tuple[str, tuple[int, ...], bytes]:
    """A tensor as safetensors stores it."""
    match dtype:
        case "BF16":
            raw = (value.view(np.uint32) >> 16).astype("<u2").tobytes()
        case "F16":
            raw = value.astype("<f2").tobytes()
        case _:
            raw = value.tobytes()
    return dtype, value.shape, raw


def huggingface_config(architecture: str = "llama", /, **changes: object) -> dict[str, object]:
    """config.json of the small model. changes: None leaves a key out."""
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
    found: dict[str, object] = {
        "architectures": [f"{name[architecture]}ForCausalLM"],
        "model_type": architecture,
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": FFN,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "bos_token_id": 1,
    }
    return {key: value for key, value in (found | changes).items() if value is not None}


def huggingface_tensors(
    values: Mapping[str, NDArray[np.float32]], dtype: str = "BF16"
) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The weights under the names of Hugging Face."""
    return {
        file_name(name, HUGGINGFACE_NAMES, "model.layers"): stored(value, dtype)
        for name, value in values.items()
    }


def write_huggingface(
    folder: Path, config: object, *shards: Mapping[str, tuple[str, tuple[int, ...], bytes]]
) -> Path:
    """A folder with one safetensors file, or several and their index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if len(shards) == 1:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(shards[0]))
        return folder
    names = [f"model-{at + 1:05}-of-{len(shards):05}.safetensors" for at in range(len(shards))]
    for name, tensors in zip(names, shards, strict=True):
        (folder / name).write_bytes(safetensors_bytes(tensors))
    index = {
        tensor: name for name, tensors in zip(names, shards, strict=True) for tensor in tensors
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder
