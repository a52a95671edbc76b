"""From the name of a host proposer to the object."""

from __future__ import annotations

from importlib import import_module

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Proposer
from optimist.actors.proposer.kinds import kind_of
from optimist.kernels.native.library import missing
from optimist.messages.errors import ConfigError

_CLASSES = {
    "ngram": "optimist.actors.proposer.ngram:NgramProposer",
    "suffix": "optimist.actors.proposer.suffix:SuffixProposer",
}

_NATIVE = {
    "ngram": "optimist.actors.proposer.native:NativeNgram",
    "suffix": "optimist.actors.proposer.native:NativeSuffix",
}
"""the same drafts where the native library is there"""


def proposer_class(name: str) -> type[Proposer]:
    """The class called `ngram`, `suffix` or `module:Class`. Raises ConfigError naming what is wrong."""
    kind = named_class(name)
    if not issubclass(kind, Proposer):
        raise ConfigError(f"proposer: expected a subclass of Proposer, got {name!r}")
    return kind


def make_proposer(config: ProposerConfig) -> Proposer:
    """The proposer that config names. Raises ConfigError for an unknown name or a wrong option."""
    native = _NATIVE.get(config.proposer)
    if native is not None and not missing():
        return proposer_class(native)(config)
    kind = proposer_class(config.proposer)
    try:
        return kind(config)
    except SystemExit as error:
        # On a loop that it shares it would end all there is.
        raise ConfigError(
            f"proposer: {config.proposer!r} cannot be made: SystemExit: {error}"
        ) from error


def named_class(name: str) -> type:
    """Whatever class a host proposer's name stands for. Raises ConfigError naming what is wrong."""
    if kind_of(name) != "host":
        raise ConfigError(f"proposer: expected one that has an actor, got {name!r}")
    path = _CLASSES.get(name, name)
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:
        # Whatever the module of somebody else raises: it is the option that cannot be served.
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"proposer: cannot import {path!r}: {said}") from error
    if not isinstance(found, type):
        raise ConfigError(f"proposer: expected a class, got {path!r}")
    return found
