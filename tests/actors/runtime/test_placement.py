"""Which actors share a process, for every placement."""

from __future__ import annotations

import pytest

from optimist.actors.config import EngineConfig, Placement, ProposerConfig
from optimist.actors.runtime.placement import Cell, Layout, has_proposer, layout
from optimist.messages.errors import ConfigError

ALL = ("worker", "builder", "scheduler", "gateway")


def test_inline_keeps_every_actor_in_the_callers_loop() -> None:
    assert layout(EngineConfig(placement="inline"), gateway_here=True) == Layout(ALL, ())


def test_embedded_keeps_the_gateway_and_puts_all_others_into_one_process() -> None:
    assert layout(EngineConfig(placement="embedded"), gateway_here=True) == Layout(
        ("gateway",), (Cell("worker+builder+scheduler", ALL[:3]),)
    )
    assert layout(EngineConfig(placement="embedded"), gateway_here=False).local == ("gateway",)


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


def drafting(proposer: str, placement: Placement, *groups: str) -> EngineConfig:
    return EngineConfig(
        placement=placement, groups=groups, proposer=ProposerConfig(proposer=proposer)
    )


OTHERS = "somebody.elses:Proposer"
AND = "builder+scheduler"


@pytest.mark.parametrize(
    ("config", "cells"),
    [
        (drafting("ngram", "inline"), []),
        (drafting(OTHERS, "inline"), []),
        (drafting("ngram", "embedded"), [f"worker+proposer+{AND}"]),
        (drafting("ngram", "embedded", "proposer"), [f"worker+{AND}", "proposer"]),
        (drafting(OTHERS, "embedded"), [f"worker+{AND}", "proposer"]),
        (drafting(OTHERS, "embedded", "worker+proposer"), [f"worker+proposer+{AND}"]),
        (drafting("suffix", "processes"), ["worker+proposer", "builder", "scheduler"]),
        (
            drafting("ngram", "processes", "proposer"),
            ["worker", "proposer", "builder", "scheduler"],
        ),
        (drafting(OTHERS, "processes"), ["worker", "proposer", "builder", "scheduler"]),
        (
            drafting("ngram", "processes", "worker+builder"),
            ["worker+proposer+builder", "scheduler"],
        ),
        (
            drafting("ngram", "processes", "proposer+scheduler"),
            ["worker", "proposer+scheduler", "builder"],
        ),
        (drafting("self-draft", "processes"), ["worker", "builder", "scheduler"]),
        (drafting("none", "embedded"), [f"worker+{AND}"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_a_proposer_shares_the_workers_process_unless_it_is_told_or_somebody_elses(
    config: EngineConfig, cells: list[str]
) -> None:
    places = layout(config, gateway_here=True)
    assert [cell.name for cell in places.remote] == cells
    everybody = {*places.local, *(name for cell in places.remote for name in cell.actors)}
    assert ("proposer" in everybody) == has_proposer(config)


def test_a_group_cannot_name_a_proposer_that_is_no_actor() -> None:
    for proposer in ("none", "self-draft"):
        with pytest.raises(ConfigError, match="got 'proposer' in 'proposer\\+worker'"):
            layout(drafting(proposer, "processes", "proposer+worker"), gateway_here=True)


def test_groups_are_refused_where_the_placement_has_no_processes_for_them() -> None:
    expected: dict[Placement, str] = {"embedded": r"proposer or worker\+proposer", "inline": "none"}
    for placement, what in expected.items():
        config = EngineConfig(placement=placement, groups=("scheduler+builder",))
        with pytest.raises(ConfigError, match=f"groups: expected {what} with placement"):
            layout(config, gateway_here=True)
