"""What /metrics says, in a registry of its own so that several engines share a process."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from optimist.http.answers import FIRST_TOKEN, Observe
from optimist.http.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_GAUGES = {
    "waiting": "requests that wait for a slot",
    "running": "requests that hold a slot",
    "free_blocks": "KV blocks that no request holds",
    "num_blocks": "KV blocks in all",
}
_COUNTERS = {
    "steps": "steps settled",
    "preemptions": "requests taken off the device to make room",
    "prompt_tokens": "prompt tokens admitted",
    "cached_tokens": "prompt tokens that came from the prefix cache",
    "emitted_tokens": "tokens generated",
    "wasted_tokens": "tokens computed behind the end of a request",
    "draft_rows": "rows of steps that were verified with drafts",
    "drafted_tokens": "drafts verified",
    "accepted_tokens": "drafts that were right",
    "steps_ahead": "steps whose batch was there before the device was free",
}
_TIMES = {
    "step": "in which the device computed",
    "gap": "in which the device had nothing to do between two steps",
    "batch": "of the gaps, until the next batch was there",
    "drafts": "of the gaps, in which the next batch waited for drafts",
}


class Metrics:
    """Counts HTTP requests, and asks the engine for the rest whenever it is read."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "optimist_http_requests",
            "generating requests answered; status 499: the client left",
            ("route", "status"),
            registry=self._registry,
        )
        self._first = Histogram(
            "optimist_first_token_seconds",
            "from the request to its first token",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._whole = Histogram(
            "optimist_request_seconds",
            "from the request to the end of its answer",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Engine(service))

    def observer(self, route: str) -> Observe:
        """Begin to observe a request: the callable is an Observe."""
        begun = time.monotonic()

        def observe(status: int) -> None:
            taken = time.monotonic() - begun
            if status == FIRST_TOKEN:
                self._first.observe(taken)
                return
            self._whole.observe(taken)
            self._requests.labels(route, str(status)).inc()

        return observe

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)


class _Engine(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        healthy = float(self._service.health().healthy)
        yield GaugeMetricFamily("optimist_healthy", "1 while requests get on", value=healthy)
        dropped = CounterMetricFamily(
            "optimist_dropped_frames",
            "frames on an actor's socket that were no messages",
            labels=("actor",),
        )
        for actor, frames in self._service.dropped().items():
            dropped.add_metric((actor,), frames)
        yield dropped
        if (stats := self._service.stats()) is None:
            return
        for name, about in _GAUGES.items():
            yield GaugeMetricFamily(f"optimist_{name}", about, value=getattr(stats, name))
        for name, about in _COUNTERS.items():
            yield CounterMetricFamily(f"optimist_{name}", about, value=getattr(stats, name))
        for name, about in _TIMES.items():
            seconds = getattr(stats, f"{name}_us") / 1e6
            yield CounterMetricFamily(f"optimist_{name}_seconds", f"time {about}", value=seconds)
        proposer = GaugeMetricFamily(
            "optimist_proposer", "1 for the proposer that makes drafts, or none", labels=("name",)
        )
        proposer.add_metric((stats.proposer,), 1.0)
        yield proposer
        places = CounterMetricFamily(
            "optimist_accepted_at",
            "drafts that were right, by place in their row",
            labels=("place",),
        )
        for place, right in enumerate(stats.accepted_at):
            places.add_metric((str(place),), right)
        yield places
