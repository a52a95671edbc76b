"""openvino-genai: one stream through LLMPipeline, several through ContinuousBatchingPipeline."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from guest import Generate, serve

CACHE_GB = 1
MOST_DRAFTS, LONGEST_MATCH = 8, 4


def load(options: dict[str, Any]) -> Generate:
    """options: model, a folder that optimum-cli exported; threads; drafts: look up drafts in the prompt."""
    genai, ov, np = (import_module(name) for name in ("openvino_genai", "openvino", "numpy"))
    settings = {"INFERENCE_NUM_THREADS": options["threads"]}
    drafts: bool = options["drafts"]
    pipelines: dict[str, Any] = {}

    def wanted(tokens: int) -> Any:
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
        if drafts:
            config.num_assistant_tokens, config.max_ngram_size = MOST_DRAFTS, LONGEST_MATCH
        return config

    def one() -> Any:
        more = {"prompt_lookup": True} if drafts else {}
        return genai.LLMPipeline(options["model"], "CPU", **settings, **more)

    def many() -> Any:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs = CACHE_GB, 64
        scheduler.enable_prefix_caching = False
        return genai.ContinuousBatchingPipeline(options["model"], scheduler, "CPU", settings)

    def generate(prompts: list[list[int]], tokens: int) -> int:
        kind = "one" if len(prompts) == 1 else "many"
        if kind not in pipelines:
            pipelines.clear()
            pipelines[kind] = one() if kind == "one" else many()
        ids = [ov.Tensor(np.array([prompt], np.int64)) for prompt in prompts]
        if kind == "one":
            pipelines[kind].generate(ids[0], wanted(tokens))
            return tokens
        done = pipelines[kind].generate(ids, [wanted(tokens)] * len(ids))
        return sum(len(each.m_generation_ids[0]) for each in done)

    return generate


if __name__ == "__main__":
    serve(load)
