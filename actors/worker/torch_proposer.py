"""Which device proposer a worker has, and the model that it may need."""

from __future__ import annotations

from collections.abc import Callable

import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.proposer.options import check_ngram
from optimist.actors.worker.base import Limits, Progress
from optimist.actors.worker.device_proposer import DeviceProposer
from optimist.actors.worker.draft_model import DraftModel, check_draft_model, check_draft_tokens
from optimist.actors.worker.limits import draft_layers
from optimist.actors.worker.ngram_device import NgramDevice
from optimist.actors.worker.self_draft import SelfDraft
from optimist.kernels.choice import TORCH
from optimist.kernels.contract import Kernels
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig
from optimist.models.llama import Llama

Factory = Callable[[Llama, Limits], DeviceProposer]
"""makes a proposer for a target and its sizes"""

CPU = torch.device("cpu")


def draft_config(config: WorkerConfig, target: ModelConfig, model: str) -> ModelConfig | None:
    """The shape of the draft model, if there is one, from its file's header.

    target, model: the shape of the model that it drafts for, and its path. Raises ConfigError, naming the
    option, for a proposer that cannot draft for this target.
    """
    if config.proposer == "self-draft":
        draft_layers(target, config.draft_layers)
    if config.proposer == "ngram-device":
        check_ngram(config.ngram_min, config.ngram_max)
    if config.proposer != "draft-model":
        return None
    if not config.draft_model:
        raise ConfigError("worker.draft_model: expected a path, proposer draft-model needs a model")
    from optimist.models.source import open_source

    with open_source(config.draft_model) as source:
        found = source.config
    check_draft_model(found, target, config.max_model_len or target.max_model_len)
    check_draft_tokens(config.draft_model, model)
    return found


def load_draft(
    config: WorkerConfig,
    dtype: torch.dtype,
    progress: Progress,
    kernels: Kernels = TORCH,
    device: torch.device = CPU,
) -> Llama | None:
    """The draft model with its weights, if config asks for one."""
    if config.proposer != "draft-model":
        return None
    from optimist.models.loader import load_model

    return load_model(config.draft_model, dtype, progress, kernels, device)


def proposer_class(config: WorkerConfig) -> type[DeviceProposer] | None:
    """What `make_proposer` makes one of."""
    kinds: dict[str, type[DeviceProposer]] = {
        "self-draft": SelfDraft,
        "ngram-device": NgramDevice,
        "draft-model": DraftModel,
    }
    return kinds.get(config.proposer)


def make_proposer(
    config: WorkerConfig, model: Llama, draft: Llama | None, limits: Limits
) -> DeviceProposer | None:
    """The proposer that config names, for this target."""
    if config.proposer == "self-draft":
        return SelfDraft(model, config.draft_layers)
    if config.proposer == "ngram-device":
        return NgramDevice(config.ngram_min, config.ngram_max)
    if config.proposer == "draft-model":
        if draft is None:
            raise ConfigError("worker.proposer: draft-model needs a model that drafts, got none")
        check_draft_model(draft.config, model.config, limits.max_model_len)
        return DraftModel(draft, limits)
    return None
