"""Which actors share a process. Pure: an EngineConfig goes in, a layout comes out."""

from __future__ import annotations

from typing import NamedTuple

from optimist.actors.config import EngineConfig, Placement
from optimist.messages.errors import ConfigError

STARTING_ORDER = ("worker", "builder", "scheduler", "gateway")
"""Every actor; those that others lean on come first, and stop last."""

_APART: dict[Placement, frozenset[str]] = {
    "inline": frozenset(),
    "embedded": frozenset({"worker"}),
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


def layout(config: EngineConfig, *, gateway_here: bool) -> Layout:
    """Place the four actors.

    gateway_here: the gateway stays in the caller's loop whatever the placement, as in `Engine`;
    an actor grouped with it stays there too. Raises ConfigError naming `groups` when they name an
    unknown actor, one twice, or actors that this placement has no process for.
    """
    apart = _APART[config.placement] - ({"gateway"} if gateway_here else frozenset())
    partners = _partners(config.groups)
    if config.groups and config.placement != "processes":
        raise ConfigError(
            f"groups: expected none with placement {config.placement!r}, got "
            f"{', '.join(config.groups)}; placement 'processes' has groups"
        )
    cells: list[Cell] = []
    for name in STARTING_ORDER:
        together = partners.get(name, (name,))
        if name == together[0] and apart.issuperset(together):
            cells.append(Cell("+".join(together), together))
    placed = {name for cell in cells for name in cell.actors}
    return Layout(tuple(name for name in STARTING_ORDER if name not in placed), tuple(cells))


def _partners(groups: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each grouped actor, all actors of its group in starting order."""
    partners: dict[str, tuple[str, ...]] = {}
    for group in groups:
        names = group.split("+")
        for name in names:
            if name not in STARTING_ORDER:
                raise ConfigError(
                    f"groups: expected actors among {', '.join(STARTING_ORDER)} joined by '+', "
                    f"got {name!r} in {group!r}"
                )
            if name in partners or names.count(name) > 1:
                raise ConfigError(f"groups: expected {name} in one group, got it twice")
        together = tuple(name for name in STARTING_ORDER if name in names)
        partners.update(dict.fromkeys(together, together))
    return partners
