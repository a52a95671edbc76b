"""Seeds: every continuation has one, and it is enough to draw the continuation again."""

from __future__ import annotations

import secrets

_MASK = 2**64 - 1


def draw() -> int:
    """A seed for a request that named none: 53 bits, so that every language's numbers hold it."""
    return secrets.randbits(53)


def derive(seed: int, choice: int) -> int:
    """The seed of one of n continuations, an int64. The first has the request's own seed.

    Asking again with a derived seed and n = 1 gives that continuation alone.
    """
    if choice == 0:
        return seed
    value = (seed + choice * 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return (value ^ (value >> 31)) >> 11
