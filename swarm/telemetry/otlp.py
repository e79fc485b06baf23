"""Send spans and metrics in OpenTelemetry's protocol, over HTTP, with the official packages: their only importer.

The standard's own variables set the endpoint, headers and certificates (`OTEL_EXPORTER_OTLP_ENDPOINT`, `…_HEADERS`, …).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from swarm.core.errors import ConfigurationError
from swarm.core.ids import trace_id
from swarm.telemetry.metrics import Sample
from swarm.telemetry.names import FIGURES, LABELS, SECONDS
from swarm.telemetry.spans import Span

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import export as data
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError as error:
    raise ConfigurationError(
        f"the OpenTelemetry packages, which send spans, are not installed ({error.name}): pip install 'celery-swarm[telemetry]'"
    ) from error

_SCOPE = InstrumentationScope("swarm")


class Collector:
    """An OTLP receiver. `endpoint` is its base URL; None: the environment's."""

    def __init__(self, endpoint: str | None) -> None:
        base = endpoint.rstrip("/") if endpoint else None
        self._spans = OTLPSpanExporter(endpoint=base and f"{base}/v1/traces")
        self._metrics = OTLPMetricExporter(endpoint=base and f"{base}/v1/metrics")
        # `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override this.
        named = Resource.create().attributes.get("service.name", "")
        self._resource = Resource.create({"service.name": "swarm"} if str(named).startswith("unknown_service") else {})

    def take_spans(self, spans: Sequence[Span]) -> bool:
        """Send spans, retrying for some seconds; return whether the receiver has them."""
        return self._spans.export([self._read(span) for span in spans]) is SpanExportResult.SUCCESS

    def take_metrics(self, samples: Sequence[Sample], since: float) -> bool:
        """Send current figures, counted since `since`; return whether the receiver has them."""
        scope = data.ScopeMetrics(_SCOPE, _write_metrics(samples, since), "")
        sent = data.MetricsData([data.ResourceMetrics(self._resource, [scope], "")])
        return self._metrics.export(sent) is data.MetricExportResult.SUCCESS

    def _read(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span.job_id, span.id),
            parent=_context(span.job_id, span.parent) if span.parent else None,
            resource=self._resource,
            instrumentation_scope=_SCOPE,
            kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
            links=[Link(_context(span.job_id, span.link))] if span.link else [],
            events=[Event(name, timestamp=_nano(at)) for name, at in span.events],
            attributes={**span.attributes, **({"error.type": span.error} if span.error else {})},
            status=Status(StatusCode.ERROR) if span.error else Status(StatusCode.UNSET),
            start_time=_nano(span.start),
            end_time=_nano(span.end),
        )


def _context(job_id: str, span: str) -> SpanContext:
    return SpanContext(int(trace_id(job_id), 16), int(span, 16), False, TraceFlags(TraceFlags.SAMPLED))


def _nano(seconds: float) -> int:
    return round(seconds * 1e9)


def _write_metrics(samples: Sequence[Sample], since: float) -> list[data.Metric]:
    start, now = _nano(since), time.time_ns()
    found = []
    for key, figure in FIGURES.items():
        points = [sample for sample in samples if sample.figure == key]
        if not points:
            continue
        named = [(dict(zip(map(LABELS.__getitem__, figure.labels), one.labels, strict=True)), one) for one in points]
        numbers = [data.NumberDataPoint(about, start, now, one.value) for about, one in named]
        told: data.Sum | data.Gauge | data.Histogram
        if figure.kind == "counter":
            told = data.Sum(numbers, data.AggregationTemporality.CUMULATIVE, True)
        elif figure.kind == "gauge":
            told = data.Gauge(numbers)
        else:
            told = data.Histogram(
                [
                    data.HistogramDataPoint(about, start, now, sum(one.buckets), one.value, one.buckets, SECONDS, 0, 0)
                    for about, one in named
                ],
                data.AggregationTemporality.CUMULATIVE,
            )
        found.append(data.Metric(figure.otlp, figure.help, figure.unit, told))
    return found
