"""Puts the page into Flower, from its configuration: routes, a tab in the navigation, templates of our own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tornado.template
import tornado.web
from tornado.routing import URLSpec

from swarm.client.operations import Operation
from swarm.client.swarm import Swarm
from swarm.web import handlers
from swarm.web.operations import MOUNTED

_TEMPLATES = Path(__file__).parent / "templates"


def mount(routes: list[Any], options: dict[str, Any], swarm: Swarm, token: str) -> None:
    """Add the page to Flower's routes and options before Flower is built."""
    given = {"swarm": swarm, "token": token}

    def route(pattern: str, handler: type, name: str | None = None) -> URLSpec:
        return URLSpec(rf"/swarm{pattern}", handler, given, name)

    # Before the last route, which takes every address.
    routes[-1:-1] = [
        URLSpec(r"/swarm/static/(.*)", handlers.Assets, {"path": str(handlers.STATIC)}, "swarm-static"),
        route(r"/api/about", handlers.About),
        *(
            URLSpec(rf"/swarm/api{path}", handlers.Mounted, {**given, "operations": operations})
            for path, operations in _by_path().items()
        ),
        route(r"", handlers.Page, "swarm"),
        route(r"/.*", handlers.Nowhere),
    ]
    options["ui_modules"] = {"Template": _Navigation}
    options["template_loader"] = _Templates(options["template_path"])


def _by_path() -> dict[str, dict[str, Operation]]:
    """Map path patterns to their operations by method."""
    found: dict[str, dict[str, Operation]] = {}
    for one in MOUNTED:
        found.setdefault(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]{1,200})", one.path), {})[one.method] = one
    return found


class _Navigation(tornado.web.TemplateModule):
    """Flower's navigation with one more tab: it changes the rendered text, so that it works with other templates."""

    def render(self, path: str, **kwargs: Any) -> bytes:
        html: Any = super().render(path, **kwargs)
        if path != "navbar.html":
            return bytes(html)
        here = self.handler.reverse_url("swarm")
        current = self.request.path.startswith(here)
        marks = (" active", ' aria-current="page"') if current else ("", "")
        tab = f'<li class="nav-item"><a class="nav-link{marks[0]}" href="{here}"{marks[1]}>Swarm</a></li>'
        return bytes(html).replace(b"</ul>", tab.encode() + b"</ul>", 1)


class _Templates(tornado.template.Loader):
    """Our templates first, then Flower's."""

    def _create_template(self, name: str) -> tornado.template.Template:
        own = _TEMPLATES / name
        path = own if own.is_file() else Path(self.root) / name
        return tornado.template.Template(path.read_bytes(), name=name, loader=self)
