"""The integer model: its paged form equals its definition, and every planted mistake shows."""

from __future__ import annotations

from itertools import pairwise

import pytest

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.base import Limits
from optimist.messages.base import column
from optimist.messages.errors import ConfigError
from optimist.messages.slots import Sampling
from optimist.testing.hand import GREEDY, Hand, Row
from optimist.testing.hashing import MASK, first_kv, second_kv, term
from optimist.testing.integer_cache import Violation
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.oracle import IntegerOracle, oracle

LIMITS = Limits(
    num_blocks=16, block_size=4, max_slots=4, max_model_len=64, max_batch_tokens=64, vocab_size=97
)
MODEL = IntegerModel()
PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13]
SEEDED = Sampling(temperature=1, seed=-3)


def answer(prompt: list[int], count: int, sampling: Sampling = GREEDY) -> list[int]:
    return oracle(
        IntegerOracle(MODEL), prompt, sampling, max_tokens=count, max_model_len=64
    ).token_ids


def hand(*, checked: bool = True, model: IntegerModel = MODEL) -> Hand:
    return Hand(IntegerExecutor(LIMITS, model, checked=checked))


def test_the_oracle_says_what_the_definition_says() -> None:
    tokens = list(PROMPT)
    for expected in answer(PROMPT, 6, SEEDED):
        first = [first_kv(token, i) for i, token in enumerate(tokens)]
        folds = [0]
        for i, kv in enumerate(first):
            folds.append((folds[-1] + term(kv, i)) & MASK)
        second = [second_kv(kv, fold) for kv, fold in zip(first, folds[1:], strict=True)]
        fold = sum(term(kv, i) for i, kv in enumerate(second)) & MASK
        assert MODEL.choose(fold, len(tokens), len(tokens) - len(PROMPT), SEEDED) == expected
        tokens.append(expected)


@pytest.mark.parametrize("chunk", [1, 2, 3, 9])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_a_prompt_in_chunks_and_then_decoding_equals_the_oracle(
    chunk: int, sampling: Sampling
) -> None:
    driver = hand()
    driver.open(2, PROMPT, [7, 3, 9, 0], sampling=sampling)
    done = [*range(0, len(PROMPT), chunk), len(PROMPT)]
    *_, last = [driver.run([Row(2, stop - start)]) for start, stop in pairwise(done)]
    assert [last[2], *driver.decode(2, 6)] == answer(PROMPT, 7, sampling)


def test_rows_of_one_batch_do_not_see_each_other() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2, 3])
    driver.open(1, PROMPT[:3], [4, 5])
    first = driver.run([Row(0, 9), Row(1, 3)])
    second = driver.run([Row(0, 1, decode=True), Row(1, 1, decode=True)])
    assert [first[0], second[0]] == answer(PROMPT, 2)
    assert [first[1], second[1]] == answer(PROMPT[:3], 2)


def test_cached_blocks_serve_a_second_request() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 9)])
    driver.open(1, [*PROMPT[:8], 50], [0, 1, 5], cached_len=8)
    assert driver.run([Row(1, 1)]) == {1: answer([*PROMPT[:8], 50], 1)[0]}


def test_a_cached_block_behind_another_prefix_changes_tokens() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 9)])
    other = [1, 2, 3, 4, *PROMPT[4:8], 50]
    driver.open(1, other, [4, 5, 6])
    driver.run([Row(1, 9)])
    driver.open(2, other, [4, 1, 8], cached_len=8)
    assert driver.run([Row(2, 1)])[2] != answer(other, 1)[0]


def test_output_continues_after_preemption_with_the_border_kept() -> None:
    penalised = Sampling(temperature=1, seed=4, presence_penalty=1.0)
    tokens = answer(PROMPT, 5, penalised)
    driver = hand()
    driver.open(0, [*PROMPT, *tokens[:3]], [0, 1, 2, 3], prompt_len=len(PROMPT), sampling=penalised)
    assert [driver.run([Row(0, 12)])[0], *driver.decode(0, 1)] == tokens[3:]


def test_two_blocks_swapped_in_the_table_change_tokens() -> None:
    driver = hand(checked=False)
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 9)])
    executor = driver.executor
    assert isinstance(executor, IntegerExecutor)
    executor.table[0, :2] = [1, 0]
    assert driver.run([Row(0, 1, decode=True)])[0] != answer(PROMPT, 2)[1]


def test_a_block_handed_out_anew_is_poisoned() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 9)])
    driver.open(1, PROMPT[:2], [0])
    with pytest.raises(Violation, match="row 0 reads KV of token 2"):
        driver.run([Row(0, 1, decode=True), Row(1, 2)])


def test_a_block_handed_out_anew_changes_tokens_where_nothing_is_checked() -> None:
    driver = hand(checked=False)
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 9)])
    driver.open(1, PROMPT[:2], [0])
    assert driver.run([Row(0, 1, decode=True), Row(1, 2)])[0] != answer(PROMPT, 2)[1]


def test_a_query_token_without_a_block_is_refused() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1])
    with pytest.raises(Violation, match="too few"):
        driver.run([Row(0, 9)])


def test_a_length_that_the_device_does_not_have_is_refused() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    driver.run([Row(0, 4)])
    executor = driver.executor
    assert isinstance(executor, IntegerExecutor)
    executor.computed[0] -= 1
    with pytest.raises(Violation, match="row 0: 9 tokens announced, the device has 8"):
        driver.run([Row(0, 5)])


def test_a_second_row_of_one_slot_is_refused() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    with pytest.raises(Violation, match="slot has two rows"):
        driver.run([Row(0, 4), Row(0, 4)])


def test_a_table_version_that_was_skipped_is_refused() -> None:
    driver = hand()
    driver.step = 1
    with pytest.raises(Violation, match="version 2 came to a table of version 0"):
        driver.run([])


def test_stop_ids_wait_for_min_tokens() -> None:
    stop = answer(PROMPT, 1)[0]
    sampling = Sampling(temperature=0, seed=0, min_tokens=1, stop_ids=column([stop]))
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2], sampling=sampling)
    assert driver.run([Row(0, 9)])[0] != stop


def test_logprobs_are_those_of_the_token_that_asked() -> None:
    driver = hand()
    driver.open(0, PROMPT, [0, 1, 2])
    driver.open(1, PROMPT, [3, 4, 5], sampling=Sampling(temperature=0, seed=0, logprobs=2))
    outcome = driver.submit([Row(0, 9), Row(1, 9)]).wait()
    entries = MODEL.logprobs(int(outcome.token_ids[1]), 9, 2)
    assert outcome.logprobs is not None
    assert outcome.logprobs.tokens == column([1])
    assert outcome.logprobs.top_ids == column(token for token, _ in entries[1:])


def test_the_end_token_comes_as_often_as_asked() -> None:
    model = IntegerModel(eos_share=0.25)
    drawn = [model.choose(i, i, 0, GREEDY) for i in range(2000)]
    assert 0.2 < drawn.count(model.eos_id) / len(drawn) < 0.3


def test_options_of_the_worker_configuration_are_taken_or_named() -> None:
    config = WorkerConfig(kv_blocks=8, executor_options={"vocab_size": 50, "eos_share": 0.1})
    executor = IntegerExecutor.load(config, lambda what, done, total: None)
    assert (executor.limits.num_blocks, executor.limits.vocab_size) == (8, 50)
    assert executor.model.eos_share == 0.1
    with pytest.raises(ConfigError, match="no \\['vocabulary'\\]"):
        IntegerExecutor.load(
            WorkerConfig(executor_options={"vocabulary": 50}), lambda what, done, total: None
        )


@pytest.mark.parametrize(
    "model", [IntegerModel(vocab_size=1), IntegerModel(eos_id=97), IntegerModel(eos_share=1.0)]
)
def test_a_model_out_of_range_is_refused(model: IntegerModel) -> None:
    with pytest.raises(ConfigError, match="expected"):
        model.checked()
