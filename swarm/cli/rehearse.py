"""`swarm rehearse`: serve a scenario as the model, until interrupted or until its job has ended."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.completion import complete_scenario
from swarm.cli.interrupts import Interrupts
from swarm.cli.output import print_bytes, print_line, print_note
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, UnknownAgent
from swarm.core.settings import Settings, load_settings
from swarm.local.processes import is_alive, spawn_detached, tail_log
from swarm.rehearsal.scenario import load_scenario, read_scenario
from swarm.rehearsal.server import RehearsalServer
from swarm.store.outage import REDIS_ERRORS

_START_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_UNPLACED_SECONDS = 60.0
_AWAY_SECONDS = 3_600.0
"""Maximum wait for the job to be queued, in seconds."""


def rehearse(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="A shipped scenario (hello, tree …), a YAML file or a folder of SWARM_RECORD.",
            autocompletion=complete_scenario,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 0,
    latency: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Time per reply, instead of the scenario's."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="JOB", help="Serve until that job has ended.")] = None,
    shown: Annotated[bool, typer.Option("--print", help="Print the scenario as YAML; serve nothing.")] = False,
) -> None:
    """Serve a scenario's scripted replies under the Messages API, for workers started with its address."""
    loaded = load_scenario(scenario)
    if shown:
        print_bytes(read_scenario(scenario).encode())
        return
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
            pass  # the usual way to end
        finally:
            interrupts.disarm()
            server.close()
            stats = server.stats()
            print_note(f"answered {stats['requests']} requests, {len(stats['unmatched'])} without a fitting reply")


def begin_rehearsing(scenario: str, job_id: str, settings: Settings) -> str:
    """Start a rehearsal server for the job in its own process; returns its URL. Raises `ConfigurationError`."""
    load_scenario(scenario)  # report its errors here
    folder = settings.state_folder() / "rehearsals"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / f"{job_id}.log"
    given = str(Path(scenario).absolute()) if Path(scenario).exists() else scenario
    argv = [sys.executable, "-m", "swarm", "rehearse", given, "--until", job_id]
    process = spawn_detached(argv, env=os.environ, cwd=folder, log=log)
    give_up = time.monotonic() + _START_SECONDS
    while is_alive(process) and time.monotonic() < give_up:
        if found := re.search(r"rehearsing .* at (http\S+)", log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.05)
    raise ConfigurationError(f"the rehearsal's server did not start: {tail_log(log) or 'it printed nothing'}")


def close_with_job(server: RehearsalServer, job_id: str, settings: Settings) -> None:
    """Close the server, from a thread, once the job has ended or is missing, or after a long outage of Redis."""
    threading.Thread(target=_watch, args=(server, job_id, Swarm(settings)), daemon=True).start()


def _watch(server: RehearsalServer, job_id: str, swarm: Swarm) -> None:
    give_up, hook_state = time.monotonic() + _UNPLACED_SECONDS, time.monotonic()
    while True:
        try:
            if swarm.job(job_id).view().ended:
                break
            give_up, hook_state = 0.0, time.monotonic()
        except UnknownAgent:
            if time.monotonic() > give_up:
                break
        except REDIS_ERRORS:
            # Redis may return, and its agents with it.
            if time.monotonic() > hook_state + _AWAY_SECONDS:
                break
        time.sleep(_LOOK_SECONDS)
    server.close()
