"""A snapshot as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ..store.seen import Snapshot
from .rows import Series
from .series import COUNTERS, GAUGES, UNITS

__all__ = ["text_of"]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def text_of(snapshot: Snapshot, accept: str) -> tuple[str, bytes]:
    """Content type and text: OpenMetrics, or the older format for who accepts that alone.

    accept  header of the request; "": there was none
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot))
    encode, kind = choose_encoder(accept or OPENMETRICS)
    return kind, encode(registry)


class _Snapshot(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        for name, series in GAUGES.items():
            yield self._filled(series, GaugeMetricFamily, name)
        for name, series in COUNTERS.items():
            yield self._filled(series, CounterMetricFamily, name)

    def _filled(
        self, series: Series, kind: type[GaugeMetricFamily | CounterMetricFamily], name: str
    ) -> Metric:
        unit = name.rpartition("_")[2]
        made = kind(name, series.meaning, labels=series.labels, unit=unit if unit in UNITS else "")
        for labels, value in series.rows(self._snapshot):
            made.add_metric(list(labels), float(value))
        return made
