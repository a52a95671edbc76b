"""Hypothesis strategies for every message, from the types of its fields.

Columns that must agree in length are drawn together; everything else follows from the annotation.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import numpy as np
from hypothesis import strategies as st

from optimist.messages.base import Message, column
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.drafting import Accepted, Drafts, Rehearsed
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.params import SamplingParams
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.results import Logprobs, PromptScores, StepResult
from optimist.messages.slots import BlockDelta, PrefillRows, Sampling

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=20)

Draw = Callable[[st.SearchStrategy[Any]], Any]


def ids(count: int, largest: int = 2**31 - 1) -> st.SearchStrategy[bytes]:
    """A column of so many values."""
    return st.lists(st.integers(0, largest), min_size=count, max_size=count).map(column)


def _float_column(count: int) -> st.SearchStrategy[bytes]:
    values = st.lists(st.floats(width=32), min_size=count, max_size=count)
    return values.map(lambda v: np.asarray(v, "<f4").tobytes())


def _counted(draw: Draw, rows: int) -> tuple[bytes, int]:
    """A column of small counts, and their sum."""
    counts = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    return column(counts), sum(counts)


def _sampling(draw: Draw) -> dict[str, Any]:
    count = draw(st.integers(0, 4))
    return {"bias_ids": draw(ids(count)), "bias_values": draw(_float_column(count))}


def _block_delta(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    counts, total = _counted(draw, rows)
    made = {name: draw(ids(rows)) for name in ("slots", "offsets")}
    return {**made, "counts": counts, "blocks": draw(ids(total))}


def _some_prefill(draw: Draw) -> dict[str, Any]:
    return _prefill(draw, draw(st.integers(0, 4)))


def _prefill(draw: Draw, rows: int) -> dict[str, Any]:
    names = ("slots", "generations", "starts", "samples")
    lens = ExactSeqLens(draw(ids(rows)))
    return {**{name: draw(ids(rows)) for name in names}, "seq_lens": lens}


def _logprobs(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    counts, total = _counted(draw, rows)
    return {
        "tokens": draw(ids(rows)),
        "chosen": draw(_float_column(rows)),
        "ranks": draw(ids(rows)),
        "counts": counts,
        "top_ids": draw(ids(total)),
        "top_values": draw(_float_column(total)),
    }


def _step_result(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    counts, total = _counted(draw, rows)
    made = {name: draw(ids(rows)) for name in ("slots", "generations", "drafts_run")}
    made["drafts_held"] = draw(ids(rows * draw(st.integers(0, 1))))
    return {**made, "token_counts": counts, "token_ids": draw(ids(total))}


def _after_step(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    counts, total = _counted(draw, rows)
    made = {name: draw(ids(rows)) for name in ("slots", "generations")}
    return {**made, "counts": counts, "token_ids": draw(ids(total))}


def _accepted(draw: Draw) -> dict[str, Any]:
    made = _after_step(draw)
    rows = len(made["slots"]) // 4
    return {**made, "starts": draw(ids(rows)), "wanted": draw(ids(rows))}


def _rehearsed(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    names = ("slots", "generations", "asked", "offered", "drafted", "accepted")
    return {name: draw(ids(rows)) for name in names}


def _prompt_scores(draw: Draw) -> dict[str, Any]:
    rows = draw(st.integers(0, 4))
    counts, total = _counted(draw, rows)
    told = {name: draw(ids(total)) for name in ("tokens", "ranks")}
    chosen = draw(_float_column(total))
    return {
        **{name: draw(ids(rows)) for name in ("slots", "generations", "firsts")},
        "counts": counts,
        "logprobs": Logprobs(**told, chosen=chosen, counts=bytes(4 * total)),
    }


def _plan(draw: Draw) -> tuple[int, dict[str, Any]]:
    rows = draw(st.integers(0, 4))
    names = ("decode_slots", "decode_generations", "draft_counts")
    return rows, {name: draw(ids(rows)) for name in names}


def _exact_plan(draw: Draw) -> dict[str, Any]:
    rows, made = _plan(draw)
    prompts = draw(st.integers(0, 4))
    return {
        **made,
        "prefill": PrefillRows(**_prefill(draw, prompts)),
        "decode_lens": ExactSeqLens(draw(ids(rows))),
        "drafts_wanted": draw(ids((rows + prompts) * draw(st.integers(0, 1)))),
    }


def _optimistic_plan(draw: Draw) -> dict[str, Any]:
    rows, made = _plan(draw)
    return {**made, "decode_bound": SeqLensUpperBound(draw(ids(rows)))}


def _batch(draw: Draw) -> tuple[int, int, dict[str, Any]]:
    rows = draw(st.integers(0, 4))
    decodes = draw(st.integers(0, rows))
    made = {name: draw(ids(rows)) for name in ("slots", "generations")}
    return rows, decodes, {**made, "num_decodes": decodes, "draft_counts": draw(ids(decodes))}


def _exact_batch(draw: Draw) -> dict[str, Any]:
    rows, _, made = _batch(draw)
    return {
        **made,
        "query_start_loc": draw(ids(rows + 1)),
        "seq_lens": ExactSeqLens(draw(ids(rows))),
        "samples": draw(ids(rows)),
        "drafts_wanted": draw(ids(rows * draw(st.integers(0, 1)))),
    }


def _optimistic_batch(draw: Draw) -> dict[str, Any]:
    rows, decodes, made = _batch(draw)
    return {
        **made,
        "bound": SeqLensUpperBound(draw(ids(decodes))),
        "prefill": PrefillRows(**_prefill(draw, rows - decodes)),
    }


TOGETHER: dict[type[Any], Callable[[Draw], dict[str, Any]]] = {
    Accepted: _accepted,
    BlockDelta: _block_delta,
    Drafts: _after_step,
    ExactBatch: _exact_batch,
    ExactPlan: _exact_plan,
    Logprobs: _logprobs,
    OptimisticBatch: _optimistic_batch,
    OptimisticPlan: _optimistic_plan,
    PrefillRows: _some_prefill,
    PromptScores: _prompt_scores,
    Rehearsed: _rehearsed,
    Sampling: _sampling,
    StepResult: _step_result,
}


@st.composite
def structs(draw: Draw, kind: type[Any]) -> Any:
    """Instances of a Struct."""
    together = TOGETHER[kind](draw) if kind in TOGETHER else {}
    hints = typing.get_type_hints(kind, include_extras=True)
    alone = {
        field.name: draw(_values(hints[field.name]))
        for field in msgspec.structs.fields(kind)
        if field.name not in together
    }
    return kind(**together, **alone)


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Instances of a message class."""
    made: st.SearchStrategy[Message] = structs(kind)
    return made


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if hint is SamplingParams:
        return st.sampled_from([SamplingParams(), SamplingParams(stop=("x",), logit_bias={1: 0.5})])
    if hint in (ExactSeqLens, SeqLensUpperBound):
        return st.integers(0, 4).flatmap(ids).map(hint)
    plain = {int: INTS, float: FLOATS, str: TEXT, bool: st.booleans(), bytes: st.binary(max_size=9)}
    if hint in plain:
        return plain[hint]
    if get_origin(hint) is Annotated:
        return st.integers(0, 4).flatmap(ids)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is dict:
        key, value = get_args(hint)
        return st.dictionaries(_values(key), _values(value), max_size=2)
    if get_origin(hint) is tuple:
        return st.lists(_values(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([_values(each) for each in get_args(hint)])
    return st.none() if hint is type(None) else structs(hint)
