"""ModelConfig out of a Hugging Face config.json. What cannot be honoured is refused by its key."""

from __future__ import annotations

from pathlib import Path

from optimist.messages.errors import ModelError
from optimist.models.config import ModelConfig
from optimist.models.huggingface.json_file import JsonFile, read_json, read_optional_json
from optimist.models.huggingface.rope import max_positions, rope_scaling, rope_section

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
"""class name -> model_type"""

_MUST_BE: dict[str, tuple[object, ...]] = {
    "hidden_act": ("silu", "swish"),
    "mlp_bias": (False,),
    "rope_interleaved": (False,),
    "partial_rotary_factor": (1, 1.0),
    "add_cross_attention": (False,),
    "quantization_config": (),
    "num_experts": (),
    "num_local_experts": (),
    "logit_scale": (1, 1.0),
    "no_rope_layers": (),
}
"""keys that would change the result, with the values that are honoured"""


def huggingface_config(folder: Path) -> ModelConfig:
    """The config that config.json and generation_config.json of a folder describe.

    Raises ModelError, naming file and key, for what is missing, contradictory or unsupported.
    """
    file = read_json(folder / "config.json")
    architecture = _architecture(file)
    _check_unsupported(file)
    rope = rope_section(file)
    hidden, heads = file.integer("hidden_size"), file.integer("num_attention_heads")
    if heads <= 0:
        raise file.refused("num_attention_heads", "more than 0")
    try:
        scaling = rope_scaling(file, rope)
        positions = max_positions(file, scaling)
        return ModelConfig(
            architecture=architecture,
            vocab_size=file.integer("vocab_size"),
            hidden_size=hidden,
            num_layers=file.integer("num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=file.integer("num_key_value_heads", heads),
            head_dim=file.integer("head_dim", _head_dim(architecture, hidden, heads)),
            intermediate_size=file.integer("intermediate_size"),
            max_model_len=positions,
            rms_norm_eps=file.real("rms_norm_eps", 1e-6),
            rope_theta=rope.real("rope_theta", file.real("rope_theta", 10000.0)),
            rope_scaling=scaling,
            tie_embeddings=file.flag("tie_word_embeddings", False),
            attention_bias=architecture == "qwen2" or file.flag("attention_bias", False),
            output_bias=architecture != "qwen2" and file.flag("attention_bias", False),
            qk_norm=architecture == "qwen3",
            sliding_window=_sliding_window(file, architecture, positions),
            eos_ids=end_ids(folder),
            bos_id=next(iter(file.ids("bos_token_id")), None),
        )
    except ModelError as error:
        text = str(error)
        raise (
            error if text.startswith(str(folder)) else ModelError(f"{file.path}: {text}")
        ) from None


def end_ids(folder: Path) -> tuple[int, ...]:
    """Ids of the tokens that the folder says end a text, ascending: the generation config first."""
    generation = read_optional_json(folder / "generation_config.json").ids("eos_token_id")
    return tuple(
        sorted(set(generation or read_optional_json(folder / "config.json").ids("eos_token_id")))
    )


def _architecture(file: JsonFile) -> str:
    names = file.values.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise file.refused("architectures", f"one of {', '.join(ARCHITECTURES)}")
    architecture = ARCHITECTURES[name]
    if file.text("model_type", architecture) != architecture:
        raise file.refused("model_type", f"{architecture}, as architectures says")
    return architecture


def _check_unsupported(file: JsonFile) -> None:
    for key, honoured in _MUST_BE.items():
        value = file.values.get(key)
        if value is not None and value not in honoured:
            options = " or ".join(repr(option) for option in honoured)
            raise file.refused(key, f"{options or 'nothing'}: anything else is not supported")


def _head_dim(architecture: str, hidden: int, heads: int) -> int:
    return 128 if architecture == "qwen3" else hidden // heads


def _sliding_window(file: JsonFile, architecture: str, positions: int) -> int | None:
    default = 4096 if architecture == "mistral" and "sliding_window" not in file.values else 0
    window = file.integer("sliding_window", default)
    if architecture == "llama" or window == 0:
        return None
    if architecture in ("qwen2", "qwen3") and not file.flag("use_sliding_window", False):
        return None
    if window >= positions:
        return None
    _check_uniform_window(file, architecture)
    return window


def _check_uniform_window(file: JsonFile, architecture: str) -> None:
    kinds = file.values.get("layer_types")
    if isinstance(kinds, list):
        if any(kind != "sliding_attention" for kind in kinds):
            raise file.refused("layer_types", "sliding_attention in every layer or in none")
    elif architecture != "mistral" and file.integer("max_window_layers", 28) > 0:
        raise file.refused("max_window_layers", "0: a window in every layer or in none")
