"""`swarm serve`, `hub` and `telemetry`: a fleet's services beside its workers, each in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.output import print_line, print_note
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, install_command
from swarm.core.settings import LOOPBACK, load_settings
from swarm.local.stack import up
from swarm.store.api_keys import ApiKeys


def serve(
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 8400,
) -> None:
    """Serve the HTTP API: start, follow, answer and cancel jobs from any language.

    Callers need a key from `swarm keys add NAME`. The API keeps no state, so any number of these can run. It speaks plain HTTP: beyond
    this machine, put it behind a proxy that does TLS. `/v1/openapi.json` describes it.
    """
    try:
        import uvicorn

        from swarm.api.application import make_app
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; run: {install_command('api')}") from error

    settings = load_settings()
    if settings.redis_url is None:
        up(settings, workers=0)
    swarm = Swarm(settings)
    with swarm.store.explained():
        if not ApiKeys(swarm.store.keyspace).all():
            print_note("note: there is no key yet, so every call is refused; `swarm keys add NAME` makes one")
    uvicorn.run(make_app(settings), host=host, port=port, log_level="info", timeout_graceful_shutdown=2)


def hub(
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the repositories.", show_default="`hub` in SWARM_STATE_DIR"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 8441,
) -> None:
    """Serve the git repositories that carry agents' files between hosts, until interrupted.

    Workers and clients must have the token SWARM_HUB_TOKEN. The hub speaks plain HTTP: beyond a private network, put it behind a proxy
    that does TLS. With SWARM_REDIS_URL it removes the repositories of jobs that are no longer kept.
    """
    from swarm.hub import service

    def told(address: str) -> None:
        print_line(f"the hub serves {address}")
        if host not in LOOPBACK:
            print_note("note: files and the token are sent unencrypted; use a private network, or a proxy with TLS")

    service.serve(load_settings(), folder, host, port, told=told)


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
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Interval between reads of the journals.")
    ] = 5.0,
    once: Annotated[
        bool,
        typer.Option("--once", help="Read and send once; exit code 1 if not all was accepted."),
    ] = False,
) -> None:
    """Report jobs to monitoring until interrupted: traces by OTLP, metrics for Prometheus.

    One per fleet is enough; a second one stands by. Workers are not involved: everything is read from Redis.
    """
    from swarm.telemetry import exporter

    settings = load_settings()
    sends = otlp or any(map(os.environ.get, ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")))
    collector = exporter.open_collector(otlp) if sends else None
    if once:
        if not exporter.read_once(settings, collector):
            print_note("not everything was accepted, or another exporter is active; the rest is sent next time")
            raise typer.Exit(1)
        return
    if collector is None:
        print_note("note: no traces are sent; set --otlp URL or OTEL_EXPORTER_OTLP_ENDPOINT")
    exporter.run(settings, collector, host, port, every, lambda address: print_line(f"metrics at {address}"))
