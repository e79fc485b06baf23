"""A chat page of one's own on the API alone: `uvicorn app:app`, then open the printed address.

The page (chat.html, chat.mjs) talks to `/api`, where the API is mounted, with a key that `swarm keys add chat` makes.
"""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Mount, Route

from swarm.api import app as api

HERE = Path(__file__).parent


async def page(request: object) -> FileResponse:
    return FileResponse(HERE / "chat.html")


async def script(request: object) -> FileResponse:
    return FileResponse(HERE / "chat.mjs", media_type="text/javascript")


app = Starlette(routes=[Route("/", page), Route("/chat.mjs", script), Mount("/api", api)])
