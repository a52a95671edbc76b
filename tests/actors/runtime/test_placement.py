"""Which actors share a process, for every placement."""

from __future__ import annotations

import pytest

from optimist.actors.config import EngineConfig
from optimist.actors.runtime.placement import Cell, Layout, layout
from optimist.messages.errors import ConfigError

ALL = ("worker", "builder", "scheduler", "gateway")


def test_inline_keeps_every_actor_in_the_callers_loop() -> None:
    assert layout(EngineConfig(placement="inline"), gateway_here=True) == Layout(ALL, ())


def test_embedded_puts_the_worker_alone_into_a_process() -> None:
    assert layout(EngineConfig(placement="embedded"), gateway_here=True) == Layout(
        ("builder", "scheduler", "gateway"), (Cell("worker", ("worker",)),)
    )


def test_processes_keeps_the_gateway_with_an_engine_and_parts_with_it_in_a_server() -> None:
    config = EngineConfig(placement="processes")
    cells = tuple(Cell(name, (name,)) for name in ALL)
    assert layout(config, gateway_here=True) == Layout(("gateway",), cells[:3])
    assert layout(config, gateway_here=False) == Layout((), cells)


def test_a_group_shares_a_process_in_starting_order() -> None:
    config = EngineConfig(placement="processes", groups=("scheduler+builder",))
    assert layout(config, gateway_here=True).remote == (
        Cell("worker", ("worker",)),
        Cell("builder+scheduler", ("builder", "scheduler")),
    )


def test_a_group_with_the_gateway_goes_where_the_gateway_is() -> None:
    config = EngineConfig(placement="processes", groups=("gateway+scheduler",))
    assert layout(config, gateway_here=True).local == ("scheduler", "gateway")
    assert layout(config, gateway_here=False).remote[-1] == Cell(
        "scheduler+gateway", ("scheduler", "gateway")
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (("scheduler+bilder",), "got 'bilder' in 'scheduler\\+bilder'"),
        (("scheduler+",), "got '' in 'scheduler\\+'"),
        (("scheduler+scheduler",), "expected scheduler in one group, got it twice"),
        (("scheduler+builder", "worker+builder"), "expected builder in one group, got it twice"),
    ],
)
def test_groups_that_make_no_sense_are_refused_by_name(
    groups: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        layout(EngineConfig(placement="processes", groups=groups), gateway_here=True)


def test_groups_are_refused_where_the_placement_has_no_processes_for_them() -> None:
    config = EngineConfig(placement="embedded", groups=("scheduler+builder",))
    with pytest.raises(ConfigError, match="groups: expected none with placement 'embedded'"):
        layout(config, gateway_here=True)
