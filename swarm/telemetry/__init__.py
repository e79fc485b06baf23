"""What has happened, for the tools of operations: spans and metrics derived from journals and totals, by one process beside the fleet.

Workers hold nothing of it: no tracer, no counters of their own, no context in messages. Only `otlp` knows OpenTelemetry, only `scraping`
the Prometheus client.
"""
