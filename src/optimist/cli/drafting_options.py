"""Options about drafts: who guesses the next tokens, how many, and how they are judged."""

from __future__ import annotations

from optimist.cli.option import ENGINE, Option, engine_option

DRAFTING = (
    engine_option(
        "--proposer",
        "scheduler.proposer proposer.proposer",
        "text",
        "who guesses the next tokens: none, ngram, suffix, self-draft, draft-model, ngram-device or "
        "module:Class",
    ),
    Option(
        "--proposer-option",
        ENGINE,
        ("command.proposer_option",),
        "texts",
        "key=value, an option of the proposer, such as ngram_max=4, or of your class; may be repeated",
    ),
    engine_option(
        "--draft-tokens",
        "scheduler.draft_tokens proposer.draft_tokens",
        "drafts",
        "guesses of a request in one step at most; auto: as many as pay",
    ),
    engine_option(
        "--draft-wait",
        "worker.draft_wait",
        "float",
        "how long a step waits for drafts at most, as a share of the time that steps take; not given: 0.5",
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
