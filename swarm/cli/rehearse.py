"""`swarm rehearse`: serve a scenario as if it were the model, until interrupted."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.completing import complete_scenario
from swarm.cli.interrupts import Interrupts
from swarm.cli.output import print_line, print_note
from swarm.cli.rehearsing import close_with_job
from swarm.errors import ConfigurationError
from swarm.rehearsal.scenario import load_scenario
from swarm.rehearsal.server import RehearsalServer
from swarm.settings import load_settings


def rehearse(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="A shipped scenario (hello, tree …) or a YAML file.",
            autocompletion=complete_scenario,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 0,
    latency: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Time each reply takes, instead of the scenario's own."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="JOB", help="Serve until that job has ended, and leave then.")
    ] = None,
) -> None:
    """Serve a scenario's scripted replies under the Messages API, for workers to be started against."""
    loaded = load_scenario(scenario)
    try:
        server = RehearsalServer(loaded, host, port, latency)
    except OSError as error:
        where = f"port {port} of {host}"
        raise ConfigurationError(
            f"{where} cannot be used ({error.strerror}); name others with --host and --port"
        ) from error
    if until is not None:
        close_with_job(server, until, load_settings())
    with Interrupts() as interrupts:
        try:
            print_line(f"rehearsing {loaded.name} at {server.url}")
            print_note(
                f"Start workers against it:  SWARM_BASE_URL={server.url} swarm up\n"
                f"then give them work:       SWARM_BASE_URL={server.url} swarm run PROMPT\n"
                "Ctrl-C ends it."
            )
            server.serve_forever()
        except KeyboardInterrupt:
            pass  # the usual end
        finally:
            interrupts.disarm()
            server.close()
            stats = server.stats()
            print_note(f"answered {stats['requests']} requests, {len(stats['unmatched'])} without a fitting reply")
