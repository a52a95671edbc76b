"""Options about drafts: who guesses the next tokens, how many, and how they are judged."""

from __future__ import annotations

from optimist.cli.option import engine_option

DRAFTING = (
    engine_option(
        "--proposer",
        "scheduler.proposer proposer.proposer",
        "text",
        "who guesses the next tokens: none, ngram, suffix, self-draft, draft-model, ngram-device or "
        "module:Class",
    ),
    engine_option(
        "--draft-tokens",
        "scheduler.draft_tokens proposer.draft_tokens",
        "drafts",
        "guesses of a request in one step at most; auto: as many as pay",
    ),
    engine_option(
        "--draft-layers",
        "worker.draft_layers",
        "int",
        "layers of the model that self-draft guesses with; not given: a quarter of them",
    ),
    engine_option(
        "--draft-model",
        "worker.draft_model",
        "text",
        "path of a smaller model with the same vocabulary, for draft-model",
    ),
    engine_option(
        "--verify",
        "worker.verify",
        "text",
        "how guesses are judged; but for sample, seeded text depends on them",
        ("sample", "rejection", "block"),
    ),
)
