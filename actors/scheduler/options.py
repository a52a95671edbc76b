"""Options that the scheduler cannot serve are refused at the start."""

from __future__ import annotations

from optimist.actors.config import SchedulerConfig
from optimist.messages.errors import ConfigError


def check_options(config: SchedulerConfig) -> None:
    """Raise ConfigError, naming the option, what was expected and what came."""
    for name in ("depth", "max_batch_tokens", "max_chunk", "max_waiting", "max_waiting_tokens"):
        value: int | None = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"scheduler.{name}: expected >= 1, got {value}")
    if config.proposer == "none" and config.draft_tokens not in (0, "auto"):
        raise ConfigError(
            f"scheduler.draft_tokens: expected 0 with proposer 'none', got {config.draft_tokens}"
        )
    if config.draft_tokens != "auto" and config.draft_tokens < 0:
        raise ConfigError(f"scheduler.draft_tokens: expected >= 0, got {config.draft_tokens}")
