"""`swarm hub`: the git server that snapshots of workspaces go through, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.output import print_line, print_note

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def hub(
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the repositories lie.", show_default="`hub` in SWARM_STATE_DIR"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 8441,
) -> None:
    """Serve the git repositories that files follow their agents through, until interrupted.

    SWARM_HUB_TOKEN is what workers and clients must know. It speaks plain HTTP: beyond a private network, put it behind a proxy that does
    TLS. With SWARM_REDIS_URL it removes the repositories of jobs that are kept no longer.
    """
    from swarm.hub.serving import serve
    from swarm.settings import load_settings

    def told(address: str) -> None:
        print_line(f"the hub serves {address}")
        if host not in _LOOPBACK:
            print_note("note: files and the token pass the network as they are; use a private one, or a proxy with TLS")

    serve(load_settings(), folder, host, port, told=told)
