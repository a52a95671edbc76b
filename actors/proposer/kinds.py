"""Which proposers there are, by name alone: nothing is imported to find out."""

from __future__ import annotations

import difflib
from typing import Literal

from optimist.messages.errors import ConfigError

HOST = ("ngram", "suffix")
"""actors of their own; a `module:Class` is one too"""

DEVICE = ("self-draft", "draft-model", "ngram-device")
"""parts of the executor: their drafts never visit the host"""

Kind = Literal["none", "host", "device"]


def kind_of(proposer: str) -> Kind:
    """What sort of proposer a name stands for. Raises ConfigError naming the nearest for an unknown one."""
    if proposer == "none":
        return "none"
    if proposer in DEVICE:
        return "device"
    module, colon, attribute = proposer.partition(":")
    if proposer in HOST or (colon and module and attribute):
        return "host"
    known = ("none", *HOST, *DEVICE)
    nearest = difflib.get_close_matches(proposer, known, n=1, cutoff=0.0)[0]
    raise ConfigError(
        f"proposer: expected one of {', '.join(known)} or module:Class, got {proposer!r}; "
        f"the nearest is {nearest}"
    )
