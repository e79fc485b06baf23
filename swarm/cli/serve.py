"""`swarm serve`: the HTTP API, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.output import print_note
from swarm.errors import ConfigurationError


def serve(
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 takes a free one.")] = 8400,
) -> None:
    """Serve the HTTP API: start jobs, follow, answer and cancel them from any language.

    Callers need a key: `swarm keys add NAME` makes one. The API keeps nothing itself, so any number of these can run. It speaks plain
    HTTP: beyond this machine, put it behind a proxy that does TLS. `/v1/openapi.json` describes it.
    """
    from swarm.settings import load_settings
    from swarm.store.api_keys import ApiKeys

    try:
        import uvicorn

        from swarm.api.application import make_app
    except ImportError as error:
        raise ConfigurationError(f"{error.name} is not installed; run: pip install 'celery-swarm[api]'") from error
    from swarm.client import Swarm
    from swarm.store.connection import explained

    settings = load_settings()
    if settings.redis_url is None:
        from swarm.local.stack import up

        up(settings, workers=0)
    swarm = Swarm(settings)
    with explained(swarm.store.client):
        if not ApiKeys(swarm.store).all():
            print_note("note: there is no key yet, so every call is refused; `swarm keys add NAME` makes one")
    uvicorn.run(make_app(settings), host=host, port=port, log_level="info", timeout_graceful_shutdown=2)
