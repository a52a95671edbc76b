"""Language models served by a troupe of actors: see Engine and Client.

Importing this imports nothing of it: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist.actors.gateway.chunks import Choice, Chunk, Completion, Ending
    from optimist.client import Client
    from optimist.engine import Engine
    from optimist.generation import Generation
    from optimist.messages.client import Alternative, ChatMessage, PromptToken, TokenLogprob, Usage
    from optimist.messages.errors import (
        ConfigError,
        DeadlineExceeded,
        EngineBroken,
        EngineClosed,
        EngineEnded,
        EngineError,
        InvalidRequest,
        MessageError,
        ModelError,
        OptimistError,
        Overloaded,
        Problem,
        ProblemError,
        RequestError,
        RequestFailed,
        TooLarge,
        WrongOwner,
    )
    from optimist.messages.params import SamplingParams

    __version__: str

__all__ = [
    "Alternative",
    "ChatMessage",
    "Choice",
    "Chunk",
    "Client",
    "Completion",
    "ConfigError",
    "DeadlineExceeded",
    "Ending",
    "Engine",
    "EngineBroken",
    "EngineClosed",
    "EngineEnded",
    "EngineError",
    "Generation",
    "InvalidRequest",
    "MessageError",
    "ModelError",
    "OptimistError",
    "Overloaded",
    "Problem",
    "ProblemError",
    "PromptToken",
    "RequestError",
    "RequestFailed",
    "SamplingParams",
    "TokenLogprob",
    "TooLarge",
    "Usage",
    "WrongOwner",
    "__version__",
]

_ERRORS = "messages.errors"
_HOMES = {
    "Choice": "actors.gateway.chunks",
    "Chunk": "actors.gateway.chunks",
    "Completion": "actors.gateway.chunks",
    "Ending": "actors.gateway.chunks",
    "Client": "client",
    "Engine": "engine",
    "Generation": "generation",
    "Alternative": "messages.client",
    "ChatMessage": "messages.client",
    "PromptToken": "messages.client",
    "TokenLogprob": "messages.client",
    "Usage": "messages.client",
    "SamplingParams": "messages.params",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("optimist")
    elif name in __all__:
        module = import_module(f"optimist.{_HOMES.get(name, _ERRORS)}")
        value = getattr(module, name)
    else:
        raise AttributeError(f"module 'optimist' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
