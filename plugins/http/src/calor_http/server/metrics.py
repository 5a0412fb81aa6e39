"""What a server counts, in the text format of Prometheus.

Requirements: counting takes microseconds and no lock of the server's; a label is one of the
operator's names or of a fixed list, never a text that a client chose; two servers in one process
count apart; gauges are read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

# Seconds, from an answer without work to one that is told in parts.
_BUCKETS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A family of numbers that are read when somebody asks.

    Parameters
    ----------
    name : str
        Its name, with its unit at the end.
    text : str
        What it is.
    labels : tuple of str
        The names of the labels.
    read : callable
        Returns pairs of the labels' values and the number.
    """

    name: str
    text: str
    labels: tuple[str, ...]
    read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]


class Metrics:
    """The counters of one server.

    Parameters
    ----------
    prefix : str, optional
        What all names begin with.

    Attributes
    ----------
    registry : CollectorRegistry
        Where more metrics are registered.
    """

    def __init__(self, prefix: str = "calor_http") -> None:
        self._prefix = prefix
        self.registry = CollectorRegistry()
        self._gauges: list[Gauge] = []
        self._requests = self.counter("requests", "Requests that were answered.", "route", "status")
        self._seconds = Histogram(
            f"{prefix}_request_seconds",
            "Seconds from the first line of a request to its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        body_bytes = self.counter("body_bytes", "Bytes of bodies.", "direction")
        self._in, self._out = body_bytes.labels("in"), body_bytes.labels("out")
        # What counts a request, by route and status: a look-up by names takes longer.
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}
        # Requests, bytes that came, bytes that went.
        self._totals = [0, 0, 0]
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def counter(self, name: str, text: str, *labels: str) -> Any:
        """Return a new counter, whose name gets the prefix and ``_total``."""
        return Counter(f"{self._prefix}_{name}", text, labels, registry=self.registry)

    def gauge(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[tuple[tuple[str, ...], float]]],
    ) -> None:
        """Add numbers that are read when somebody asks; those that only rise end in ``_total``."""
        self._gauges.append(Gauge(f"{self._prefix}_{name}", text, labels, read))

    def answered(self, route: str, status: int, seconds: float, came: int, went: int) -> None:
        """Count a request: its route, the answer's status, its time, and bytes of both bodies."""
        key = route, status
        known = self._known.get(key)
        if known is None:
            counted = self._requests.labels(route, str(status))
            known = self._known[key] = counted, self._seconds.labels(route)
        known[0].inc()
        known[1].observe(seconds)
        self._in.inc(came)
        self._out.inc(went)
        self._totals[0] += 1
        self._totals[1] += came
        self._totals[2] += went

    def totals(self) -> dict[str, int]:
        """Return how many requests were answered, and the bytes of their bodies."""
        requests, came, went = self._totals
        return {"requests": requests, "bytes_in": came, "bytes_out": went}

    def collect(self) -> Iterable[Any]:
        """Return the gauges; the registry calls it."""
        for gauge in self._gauges:
            kind = CounterMetricFamily if gauge.name.endswith("_total") else GaugeMetricFamily
            family = kind(gauge.name, gauge.text, labels=gauge.labels)
            for labels, value in gauge.read():
                family.add_metric(labels, value)
            yield family

    def response(self) -> Response:
        """Return the answer to a request for the metrics."""
        return Response(
            generate_latest(self.registry), headers={"content-type": CONTENT_TYPE_LATEST}
        )
