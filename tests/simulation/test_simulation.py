"""Whole engines on virtual time: whatever dies or comes late, every request gets what ORACLE says."""

from __future__ import annotations

import pytest

from optimist.actors.worker.base import Executor
from optimist.testing.scenario import scenario
from optimist.testing.setup import Parts, Setup, integer_device
from optimist.testing.simulation import SeedFailed, Tally, main, simulate

SEEDS = 240


def test_nothing_is_lost_doubled_retracted_or_left_behind_though_everything_goes_wrong() -> None:
    total = Tally()
    for seed in range(SEEDS):
        total = total.plus(simulate(seed))
    assert total.tokens > 10 * SEEDS
    assert min(total.preemptions, total.cached_tokens, total.deaths, total.resyncs) > SEEDS / 4


def test_a_seed_gives_the_same_events_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(7, verbose=True)
    first = capsys.readouterr().out
    simulate(7, verbose=True)
    assert capsys.readouterr().out == first
    assert "scheduler#" in first


def test_seeds_draw_different_afternoons() -> None:
    assert len({scenario(seed).setup for seed in range(50)}) > 40


def test_a_failing_seed_prints_its_replay_command() -> None:
    def other_model(setup: Setup, seed: int) -> Executor:
        model = setup.model._replace(vocab_size=setup.model.vocab_size - 1)
        return integer_device(setup._replace(model=model), seed)

    parts = Parts(device=other_model)
    with pytest.raises(
        SeedFailed, match=r"replay: python -m optimist.testing.simulation --seed 3 "
    ):
        simulate(3, parts)


def test_the_command_line_runs_a_range_and_tells_what_happened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--start", "5", "--seeds", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 seeds, 0 failed, ")
    assert "preemptions" in said
