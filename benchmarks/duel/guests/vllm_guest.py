"""vLLM on a CPU, offline, in bfloat16, compiled."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from guest import Generate, serve

MOST_DRAFTS = 8


def load(options: dict[str, Any]) -> Generate:
    """options: model, a Hugging Face folder; threads; drafts: by n-grams of the prompt."""
    cores = f"0-{options['threads'] - 1}"
    for name, value in (
        ("VLLM_CPU_KVCACHE_SPACE", "2"),
        ("VLLM_CPU_OMP_THREADS_BIND", cores),
        ("VLLM_LOGGING_LEVEL", "WARNING"),
        ("VLLM_NO_USAGE_STATS", "1"),
        ("HF_HUB_OFFLINE", "1"),
        ("OMP_NUM_THREADS", str(options["threads"])),
    ):
        os.environ.setdefault(name, value)
    vllm = import_module("vllm")
    more: dict[str, Any] = {}
    if options["drafts"]:
        lookup = {"prompt_lookup_max": 4, "prompt_lookup_min": 2}
        more["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": MOST_DRAFTS,
            **lookup,
        }
    model = vllm.LLM(
        model=options["model"],
        dtype="bfloat16",
        max_model_len=2048,
        max_num_seqs=64,
        enable_prefix_caching=False,
        seed=0,
        **more,
    )

    def generate(prompts: list[list[int]], tokens: int) -> int:
        wanted = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        done = model.generate([{"prompt_token_ids": p} for p in prompts], wanted, use_tqdm=False)
        return sum(len(each.outputs[0].token_ids) for each in done)

    return generate


if __name__ == "__main__":
    serve(load)
