"""Options of how tokens are chosen, and when to stop."""

from __future__ import annotations

from optimist.cli.option import sampling_option

SAMPLED = (
    sampling_option("--max-tokens", "max_tokens", "int", "tokens to generate at most"),
    sampling_option("--temperature", "temperature", "float", "0 is greedy, higher is wilder"),
    sampling_option("--seed", "seed", "int", "of the noise; not given: drawn"),
    sampling_option(
        "--top-p",
        "top_p",
        "float",
        "only the likeliest tokens that together reach this probability",
    ),
    sampling_option("--top-k", "top_k", "int", "only so many likeliest tokens; 0 is off"),
    sampling_option(
        "--min-p", "min_p", "float", "only tokens at least this times as likely as the likeliest"
    ),
    sampling_option(
        "--stop",
        "stop",
        "texts",
        "a string that ends the text and is not part of it; may be repeated",
    ),
    sampling_option(
        "--stop-token-ids",
        "stop_token_ids",
        "ints",
        "token ids that end the text like the model's own end token",
    ),
    sampling_option("--ignore-eos", "ignore_eos", "on", "goes on after the end token"),
    sampling_option("--min-tokens", "min_tokens", "int", "no end before so many tokens"),
    sampling_option(
        "--presence-penalty",
        "presence_penalty",
        "float",
        "subtracted once from the logit of every token already generated",
    ),
    sampling_option(
        "--frequency-penalty",
        "frequency_penalty",
        "float",
        "subtracted from a token's logit for each time it was generated",
    ),
    sampling_option(
        "--repetition-penalty",
        "repetition_penalty",
        "float",
        "divides positive (multiplies negative) logits of tokens in prompt or text",
    ),
    sampling_option(
        "--logit-bias",
        "logit_bias",
        "biases",
        "added to the logits of token ids, such as 42=-5,7=1.5",
    ),
)
