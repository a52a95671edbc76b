"""The row of each token from the device's own offsets: a program writes the tokens of a row."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from optimist.kernels.triton_common import launch

BLOCK = 128


@triton.jit(do_not_specialize=["R", "T"])
def _token_to_req_indices(
    starts: tl.tensor, out: tl.tensor, R: tl.tensor, T: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """out[starts[r] : starts[r + 1]] = r and 0 behind the last query, grid (R + 1,)."""
    i_r = tl.program_id(0)
    low, high, row = tl.load(starts + i_r), T, 0
    if i_r < R:
        high, row = tl.minimum(tl.load(starts + i_r + 1), T), i_r
    for i_t in range(low, high, BLOCK):
        o_t = i_t + tl.arange(0, BLOCK)
        tl.store(out + o_t, tl.zeros([BLOCK], tl.int32) + row, mask=o_t < high)


def token_to_req_indices(query_start_loc: Tensor, out: Tensor) -> Tensor:
    """Fill out [T] int32 with the row of each token; tokens behind the last query map to row 0.

    query_start_loc: where queries begin, and the total, [R + 1] int32. Returns out.
    """
    rows = query_start_loc.shape[0] - 1
    launch(
        _token_to_req_indices,
        (rows + 1,),
        *(query_start_loc, out, rows, out.shape[0]),
        BLOCK=BLOCK,
        num_warps=4,
    )
    return out
