"""The integer model's arithmetic: in Python for the oracle, in numpy for the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

MASK = 2**64 - 1
FIRST, SECOND, READ, NEXT, SEEDED, END, AGAIN = (
    0x9E3779B97F4A7C15 * odd & MASK for odd in range(1, 15, 2)
)
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed(value: int) -> int:
    """A well spread 64-bit hash of an integer."""
    value &= MASK
    value = (value ^ (value >> 30)) * _M1 & MASK
    value = (value ^ (value >> 27)) * _M2 & MASK
    return value ^ (value >> 31)


def mixed_all(values: Hashes) -> Hashes:
    """`mixed` of every element."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_M1)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_M2)
    return values ^ (values >> np.uint64(31))


def first_kv(token: int, position: int) -> int:
    """What the first layer stores for a token."""
    return mixed(token * FIRST + position)


def first_kvs(tokens: NDArray[np.int64], positions: NDArray[np.int64]) -> Hashes:
    """`first_kv` of every pair."""
    return mixed_all(tokens.astype(np.uint64) * np.uint64(FIRST) + positions.astype(np.uint64))


def second_kv(first: int, fold: int) -> int:
    """What the second layer stores: fold is over the first layer up to and with this position."""
    return mixed(first + fold * SECOND)


def second_kvs(first: Hashes, folds: Hashes) -> Hashes:
    """`second_kv` of every pair."""
    return mixed_all(first + folds * np.uint64(SECOND))


def term(kv: int, index: int) -> int:
    """What one KV entry, read as number `index` of its sequence, adds to a fold."""
    return mixed(kv + index * READ)


def terms(kv: Hashes) -> Hashes:
    """`term` of a sequence's entries in reading order, along the last axis."""
    index = np.arange(kv.shape[-1], dtype=np.uint64)
    return mixed_all(kv + index * np.uint64(READ))
