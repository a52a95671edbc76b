"""The spec of whose each query token is."""

from __future__ import annotations

import itertools

from torch import Tensor


def token_to_req_indices(query_start_loc: Tensor, out: Tensor) -> Tensor:
    """Fill out [T] int32 with the row of each token; tokens behind the last query map to row 0.

    query_start_loc: where queries begin, and the total, [R + 1] int32. Returns out. Reads tensors freely.
    """
    starts = query_start_loc.tolist()
    out.zero_()
    for row, (low, high) in enumerate(itertools.pairwise(starts)):
        out[low:high] = row
    return out
