"""Telemetry for operators: spans and metrics derived from journals and totals, by one process beside the fleet.

Workers take no part: they have no tracer, no counters of their own, no context in messages. Only `otlp` uses OpenTelemetry, and only
`prometheus` the Prometheus client.
"""
