"""`swarm acp`: the fleet in an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import os
import sys
from functools import partial

from swarm.cli.launch import require_credentials
from swarm.cli.lookup import see_to_workers
from swarm.client.swarm import Swarm
from swarm.core.settings import load_settings
from swarm.local.stack import up


def acp() -> None:
    """Be the agent of an editor: each of its sessions is a job of the fleet.

    An editor starts this command and speaks the Agent Client Protocol over its pipes: Zed, JetBrains, Neovim, Emacs and others. A job
    continues if the editor or this command ends, and can be loaded again, here or elsewhere.
    """
    from swarm.api.acp.server import serve_editor

    # Only the protocol may be on standard output. Whatever else writes there, also a program that is started, goes to standard error.
    with os.fdopen(os.dup(1), "wb") as sink:
        os.dup2(2, 1)
        settings = load_settings()
        if settings.redis_url is None:
            up(settings, workers=0)
        with Swarm(settings, tell=partial(print, file=sys.stderr)) as swarm:
            swarm.store.ping()

            def ready() -> None:
                if settings.redis_url is None and not swarm.workers():
                    require_credentials(settings)
                see_to_workers(swarm)

            serve_editor(swarm, sys.stdin.buffer, sink, ready=ready)
