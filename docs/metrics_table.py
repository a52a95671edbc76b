"""The table of what /metrics tells, from its own output about an engine that has just begun."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

from optimist.actors.gateway.health import Health
from optimist.http.metrics import Metrics
from optimist.http.service import Service
from optimist.messages.requests import SchedulerStats

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""head and rows"""

LABELS = {
    "optimist_http_requests_total": "`route`, `status`",
    "optimist_dropped_frames_total": "`actor`",
    "optimist_accepted_at_total": "`place`",
    "optimist_proposer": "`name`",
}
"""what tells the series of one metric apart"""


class _Begun:
    """An engine of which there is nothing to tell yet."""

    def health(self) -> Health:
        return Health(healthy=True, accepting=True, reason="")

    def stats(self) -> SchedulerStats:
        fields = msgspec.structs.fields(SchedulerStats)
        needed: dict[str, Any] = {one.name: 0 for one in fields if one.required}
        return SchedulerStats(**needed)

    def dropped(self) -> dict[str, int]:
        return {}


def metrics() -> Table:
    """Each metric, what tells its series apart, its kind, and what it counts."""
    text = Metrics(cast(Service, _Begun())).text().decode()
    kinds: dict[str, str] = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    about: list[tuple[str, str]] = re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE)
    rows: list[tuple[str, ...]] = [
        (name, LABELS.get(name, ""), kinds[name], says)
        for name, says in sorted(about)
        if not name.endswith("_created")
    ]
    return ("metric", "by", "kind", "what it says"), rows
