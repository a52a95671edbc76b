"""ORACLE ends where every engine must end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from optimist.messages.requests import FinishReason
from optimist.messages.slots import Sampling
from optimist.testing.hand import GREEDY
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.oracle import IntegerOracle, oracle
from optimist.testing.torch_oracle import ToyOracle


def count_up(tokens: Sequence[int], prompt_len: int, sampling: Sampling, /) -> int:
    return tokens[-1] + 1


@pytest.mark.parametrize(
    ("max_tokens", "stop_ids", "max_model_len", "tokens", "finish"),
    [
        (3, (), 100, [6, 7, 8], "length"),
        (9, (8,), 100, [6, 7, 8], "stop"),
        (3, (8,), 100, [6, 7, 8], "stop"),
        (9, (), 4, [6, 7], "length"),
        (9, (7,), 4, [6, 7], "stop"),
        (1, (), 3, [6], "length"),
    ],
)
def test_it_ends_by_stop_by_limit_and_by_context(
    max_tokens: int,
    stop_ids: tuple[int, ...],
    max_model_len: int,
    tokens: list[int],
    finish: FinishReason,
) -> None:
    answer = oracle(
        count_up,
        [4, 5],
        GREEDY,
        max_tokens=max_tokens,
        stop_ids=stop_ids,
        max_model_len=max_model_len,
    )
    assert answer == (tokens, finish)


def test_the_integer_oracle_may_be_asked_about_one_text_after_another() -> None:
    kept = IntegerOracle(IntegerModel())
    for text in ([1, 2, 3], [1, 2, 3, 4], [1, 2], [9, 2], [9, 2, 1]):
        assert kept(text, 1, GREEDY) == IntegerOracle(IntegerModel())(text, 1, GREEDY)


def test_the_dense_network_sees_order_and_every_earlier_token() -> None:
    logits = ToyOracle().logits
    text = [5, 60, 7, 81, 9]
    for other in ([5, 7, 60, 81, 9], [6, 60, 7, 81, 9], [5, 60, 7, 80, 9], [60, 7, 81, 9]):
        assert abs(logits(text) - logits(other)).max() > 0.01
