"""`swarm telemetry`: what has happened, for the tools of operations, in the foreground."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from swarm.cli.output import print_line, print_note


def telemetry(
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send spans and metrics to this OTLP receiver over HTTP (`http://localhost:4318`).",
            show_default="OTEL_EXPORTER_OTLP_ENDPOINT, if it is set",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to serve `/metrics` on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port for it; 0 takes a free one.")] = 9464,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How often journals are read.")] = 5.0,
    once: Annotated[
        bool,
        typer.Option("--once", help="Read and send what is there, and end; exit code 1 if not all of it was taken."),
    ] = False,
) -> None:
    """Tell monitoring what jobs do: traces by OTLP, metrics for Prometheus, until interrupted.

    One for the fleet is enough; a second one stands by. Workers know nothing of it: all is read from Redis.
    """
    from swarm.settings import load_settings
    from swarm.telemetry import running

    settings = load_settings()
    sends = otlp or any(map(os.environ.get, ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")))
    collector = running.open_collector(otlp) if sends else None
    if once:
        if not running.read_once(settings, collector):
            print_note("not all of it was taken, or another exporter tells of it: it is told again next time")
            raise typer.Exit(1)
        return
    if collector is None:
        print_note("note: no traces are sent; --otlp URL, or OTEL_EXPORTER_OTLP_ENDPOINT")
    running.run(settings, collector, host, port, every, lambda address: print_line(f"metrics at {address}"))
