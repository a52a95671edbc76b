"""What is reported beside chosen tokens."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Report(NamedTuple):
    """chosen: [S]. ranks: tokens that are likelier, or as likely with a lower id, [S] int64.

    top_values, top_ids: the likeliest tokens, best first, equals by id, [S, A].
    """

    chosen: Tensor
    ranks: Tensor
    top_values: Tensor
    top_ids: Tensor
