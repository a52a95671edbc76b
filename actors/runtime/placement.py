"""Which actors share a process. Pure: an EngineConfig goes in, a layout comes out."""

from __future__ import annotations

from typing import NamedTuple

from optimist.actors.config import EngineConfig, Placement
from optimist.actors.proposer.kinds import HOST, kind_of
from optimist.messages.errors import ConfigError

STARTING_ORDER = ("worker", "proposer", "builder", "scheduler", "gateway")
"""Every actor; those that others lean on come first, and stop last."""

DISPENSABLE = ("proposer",)
"""without them requests only get on more slowly"""

_APART: dict[Placement, frozenset[str]] = {
    "inline": frozenset(),
    "embedded": frozenset(STARTING_ORDER) - {"gateway"},
    "processes": frozenset(STARTING_ORDER),
}


class Cell(NamedTuple):
    """Actors that share an event loop, in starting order. name: theirs, joined by `+`."""

    name: str
    actors: tuple[str, ...]


class Layout(NamedTuple):
    """local: actors in the supervisor's own loop. remote: those of each child process."""

    local: tuple[str, ...]
    remote: tuple[Cell, ...]


def has_proposer(config: EngineConfig) -> bool:
    """Whether there is a proposer actor: not where nobody drafts, nor where the device does."""
    return kind_of(config.proposer.proposer) == "host"


def layout(config: EngineConfig, *, gateway_here: bool) -> Layout:
    """Place every actor that the engine has.

    gateway_here: the gateway stays in the caller's loop whatever the placement, as in `Engine`;
    an actor grouped with it stays there too. In `embedded` all others share one process. A proposer of ours shares the worker's process unless
    it is in a group, alone or with others; one of somebody else's has its own process.
    Raises ConfigError naming `groups` when they name an unknown actor, one twice, one that this
    engine does not have, or actors that this placement has no process for.
    """
    names = tuple(n for n in STARTING_ORDER if n != "proposer" or has_proposer(config))
    apart = _APART[config.placement] & set(names)
    if gateway_here:
        apart -= {"gateway"}
    partners = _partners(_groups(config, names), names)
    cells: list[Cell] = []
    for name in names:
        together = partners.get(name, (name,))
        if name == together[0] and apart.issuperset(together):
            cells.append(Cell("+".join(together), together))
    placed = {name for cell in cells for name in cell.actors}
    return Layout(tuple(name for name in names if name not in placed), tuple(cells))


def together(config: EngineConfig, one: str, other: str) -> bool:
    """Whether two actors share a process. Raises ConfigError as layout does."""
    places = layout(config, gateway_here=True)
    cells = (places.local, *(cell.actors for cell in places.remote))
    return any(one in actors and other in actors for actors in cells)


def _groups(config: EngineConfig, names: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that are configured, those of `embedded`, and the proposer's where none is."""
    groups = config.groups
    if config.placement != "processes":
        _check_possible(config)
    if config.placement == "embedded":
        groups = _with_worker(groups, ("builder", "scheduler"))
    grouped = [name for group in groups for name in group.split("+")]
    ours = config.proposer.proposer in HOST
    if "proposer" not in names or "proposer" in grouped or not ours:
        return groups
    return _with_worker(groups, ("proposer",))


def _check_possible(config: EngineConfig) -> None:
    """Raise ConfigError for a group that a placement with at most one process has no use for."""
    possible = {"embedded": ("proposer", "worker+proposer"), "inline": ()}[config.placement]
    sets = [set(group.split("+")) for group in possible]
    if any(set(group.split("+")) not in sets for group in config.groups):
        raise ConfigError(
            f"groups: expected {' or '.join(possible) or 'none'} with placement {config.placement!r}, got "
            f"{', '.join(config.groups)}; placement 'processes' has all others"
        )


def _with_worker(groups: tuple[str, ...], actors: tuple[str, ...]) -> tuple[str, ...]:
    """The same groups, and these actors where the worker is."""
    if not any("worker" in group.split("+") for group in groups):
        groups = (*groups, "worker")
    return tuple(
        "+".join((group, *actors)) if "worker" in group.split("+") else group for group in groups
    )


def _partners(groups: tuple[str, ...], actors: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each grouped actor, all actors of its group in starting order."""
    partners: dict[str, tuple[str, ...]] = {}
    for group in groups:
        names = group.split("+")
        for name in names:
            if name not in actors:
                raise ConfigError(
                    f"groups: expected actors among {', '.join(actors)} joined by '+', "
                    f"got {name!r} in {group!r}"
                )
            if name in partners or names.count(name) > 1:
                raise ConfigError(f"groups: expected {name} in one group, got it twice")
        together = tuple(name for name in actors if name in names)
        partners.update(dict.fromkeys(together, together))
    return partners
