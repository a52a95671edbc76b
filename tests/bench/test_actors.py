"""The figures of `bench actors`: complete for every loop, at any number of messages."""

from __future__ import annotations

import pytest

from optimist.bench.actors import LOOPS, WINDOW, in_one_process, measure


def test_every_transport_is_measured_on_every_loop() -> None:
    made = measure(round_trips=20, one_way=2000)
    assert 150 <= made["message_bytes"] <= 250
    for transport in ("mailbox", "ipc"):
        assert made[transport].keys() == LOOPS.keys()
        for row in made[transport].values():
            assert 0 < row["round_trip_us"]["p50"] <= row["round_trip_us"]["p99"]
            assert row["messages_per_s"] > 0


@pytest.mark.parametrize("one_way", [1, WINDOW // 2, WINDOW, WINDOW + 1, 2 * WINDOW + 3])
def test_the_credit_of_the_one_way_rate_comes_out_even(one_way: int) -> None:
    assert in_one_process("asyncio", 1, one_way)["messages_per_s"] > 0


def test_a_loop_that_is_not_installed_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimist.bench.actors.find_spec", lambda name: None)
    made = measure(round_trips=2, one_way=2)
    assert made["mailbox"]["trio"] is made["ipc"]["uvloop"] is None
    assert made["ipc"]["asyncio"]["messages_per_s"] > 0
