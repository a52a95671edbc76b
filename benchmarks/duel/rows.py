"""The table of what is compared: each row with what is asked of us."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from duel.child import PeerFailed

Figure = Literal[
    "decode",
    "batch",
    "prefill",
    "http",
    "first",
    "memory",
    "repeat",
    "share",
    "scheduler",
    "busy",
]

Format = Literal["bf16", "int8", "int4"]


class Row(NamedTuple):
    """A figure of one kind.

    sizes: requests of batch, http and share; tokens of prefill; running requests and drafts of scheduler.
    rival: the peer that was best when the row was made. ratio: what ours should be of the peer's, at
    least where more is better, else at most; of rows without a peer, the figure itself; None where nothing
    is asked and the figure is reported beside others.
    placement: of our engine. record: of the best peer then, for rows whose peer is not run here.
    """

    name: str
    figure: Figure
    unit: str
    ratio: float | None
    format: Format = "bf16"
    sizes: tuple[int, ...] = (1,)
    rival: str = ""
    more_is_better: bool = True
    placement: str = "embedded"
    record: float | None = None


MS, RATE = "ms", "tok/s"


def _apart(row: Row) -> Row:
    """The row in placement `processes`."""
    return row._replace(name=f"{row.name}-processes", placement="processes")


ROWS = (
    Row("decode-1-int8", "decode", RATE, 1.6, "int8", rival="llamacpp"),
    Row("decode-1-int4", "decode", RATE, 2.0, "int4", rival="llamacpp"),
    Row("decode-1-bf16", "decode", RATE, 1.1, rival="llamacpp"),
    Row("batch-8-bf16", "batch", RATE, 1.5, sizes=(8,), rival="openvino"),
    Row("batch-8-int8", "batch", RATE, 2.2, "int8", (8,), "openvino"),
    Row("batch-32-int8", "batch", RATE, 2.0, "int8", (32,), "openvino"),
    Row("prefill-1024-bf16", "prefill", RATE, 1.0, sizes=(1024,), rival="openvino"),
    Row("prefill-1024-int8", "prefill", RATE, 1.2, "int8", (1024,), "openvino"),
    Row("share-1-int8", "share", "of the floor", 0.8, "int8", (1,)),
    Row("share-8-bf16", "share", "of the floor", 0.8, sizes=(8,)),
    Row("first-token", "first", "s", 0.8, rival="llamacpp", more_is_better=False),
    Row("memory-int4", "memory", "MB", 350, "int4", rival="llamacpp", more_is_better=False),
    Row("memory-bf16", "memory", "MB", 550, rival="llamacpp", more_is_better=False),
    _apart(
        Row("memory-int4", "memory", "MB", None, "int4", (1,), "llamacpp", more_is_better=False)
    ),
    _apart(Row("memory-bf16", "memory", "MB", None, rival="llamacpp", more_is_better=False)),
    Row("repeat", "repeat", RATE, 3.0, "int8", rival="openvino"),
    Row("busy-embedded", "busy", "of the idle step", 1.1, "int8", more_is_better=False),
    _apart(Row("busy", "busy", "of the idle step", 1.1, "int8", more_is_better=False)),
    Row("batch-32-bf16", "batch", RATE, 1.5, sizes=(32,), rival="vllm"),
    Row("http-32", "http", RATE, 1.8, sizes=(32,), rival="vllm"),
)
"""rows whose peer takes minutes to start come last"""

SCHEDULER = tuple(
    Row(
        f"scheduler-{running}-{drafts}",
        "scheduler",
        MS,
        0.1,
        sizes=(running, drafts),
        more_is_better=False,
        record=record,
    )
    for running, drafts, record in ((256, 0, 2.9), (1024, 0, 15.0), (256, 3, 4.4), (1024, 3, 20.0))
)
"""record: vLLM 0.33, CPU time of schedule and update of a step"""

TTFT = 0.7
"""of the peer's time to the first token, at most, in rows of http"""

ABSOLUTE = ("share", "first", "memory", "busy")
"""figures that are held to a number, not to a peer"""

_FREE = re.compile(r"(decode|batch|prefill)-(\d+)-(bf16|int8|int4)")


def row(name: str) -> Row:
    """The row of a name: one of the table, or of a size of one's own such as batch-4-int8.

    Raises PeerFailed naming what there is.
    """
    for known in (*ROWS, *SCHEDULER):
        if known.name == name:
            return known
    if match := _FREE.fullmatch(name):
        figure, size, kind = match.groups()
        return Row(name, figure, RATE, 1.0, kind, (int(size),))  # type: ignore[arg-type]
    known_names = ", ".join(each.name for each in (*ROWS, *SCHEDULER))
    raise PeerFailed(f"--row: expected one of {known_names}, or batch-N-FORMAT, got {name!r}")
