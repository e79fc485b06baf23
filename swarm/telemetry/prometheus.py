"""Serve `/metrics` for Prometheus: current figures at each request. The only importer of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from swarm.core.errors import ConfigurationError
from swarm.telemetry.metrics import Sample
from swarm.telemetry.names import FIGURES, SECONDS, Figure


class Figures(Collector):
    """The fleet's figures as a collector of the client's registry."""

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Read and yield current figures. An error of Redis is an error of the request."""
        samples = self._read()
        for key, figure in FIGURES.items():
            yield _write(figure, [sample for sample in samples if sample.figure == key])

    def describe(self) -> Iterable[Metric]:
        """Yield nothing: registration reads no figures."""
        return [_write(figure, []) for figure in FIGURES.values()]


def _write(figure: Figure, samples: Sequence[Sample]) -> Metric:
    if figure.kind == "histogram":
        histogram = HistogramMetricFamily(figure.prometheus, figure.help, labels=figure.labels)
        bounds = [*map(str, SECONDS), "+Inf"]
        for one in samples:
            found = list(zip(bounds, map(float, accumulate(one.buckets)), strict=True))
            histogram.add_metric(one.labels, found, one.value)
        return histogram
    family = CounterMetricFamily if figure.kind == "counter" else GaugeMetricFamily
    made: CounterMetricFamily | GaugeMetricFamily = family(
        figure.prometheus.removesuffix("_total"), figure.help, labels=figure.labels
    )
    for one in samples:
        made.add_metric(one.labels, one.value)
    return made


def serve(host: str, port: int, read: Callable[[], Sequence[Sample]]) -> int:
    """Serve figures on their own threads until the process ends; return the port. Raises `ConfigurationError`."""
    registry = CollectorRegistry()
    registry.register(Figures(read))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(f"{host}:{port} cannot be served on ({error}); name another --port") from error
    return int(server.server_port)
