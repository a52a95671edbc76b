"""Which proposers there are, by name alone: nothing is imported to find out."""

from __future__ import annotations

import difflib
from typing import Literal

from optimist.messages.errors import ConfigError

HOST = ("ngram", "suffix")
"""actors of their own; a `module:Class` is one too"""

IN_PASSES = ("self-draft", "draft-model")
"""of those on the device: run a network for each draft, for all rows at once, in the step that verifies them"""

DEVICE = (*IN_PASSES, "ngram-device")
"""parts of the executor: their drafts never visit the host"""

NAMES = ("none", *HOST, *DEVICE)
"""all that have a name of their own"""

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
    nearest = difflib.get_close_matches(proposer, NAMES, n=1, cutoff=0.0)[0]
    raise ConfigError(
        f"proposer: expected one of {', '.join(NAMES)} or module:Class, got {proposer!r}; "
        f"the nearest is {nearest}"
    )
