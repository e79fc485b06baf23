"""The HTTP API: `swarm.api.app` is an ASGI application, to be served by `swarm serve` or mounted in another one.

It keeps only connections: all of its data is in Redis. So any replica serves any request, and a broken stream continues
at another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.applications import Starlette

    app: Starlette

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    """`app` is made, and the environment read, when it is first asked for."""
    if name == "app":
        from swarm.api.application import make_app

        globals()["app"] = made = make_app()
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
