"""transformers, a static batch in bfloat16."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from guest import Generate, serve

MOST_DRAFTS = 8


def load(options: dict[str, Any]) -> Generate:
    """options: model, a Hugging Face folder; threads; drafts: look up drafts in the prompt."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.set_num_threads(options["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options["model"], dtype=torch.bfloat16, attn_implementation="sdpa"
    ).eval()
    more = {"prompt_lookup_num_tokens": MOST_DRAFTS} if options["drafts"] else {}

    def generate(prompts: list[list[int]], tokens: int) -> int:
        ids = torch.tensor(prompts)
        length = {"max_new_tokens": tokens, "min_new_tokens": tokens}
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                pad_token_id=2,
                **length,
                **more,
            )
        return int(out.numel() - ids.numel())

    return generate


if __name__ == "__main__":
    serve(load)
