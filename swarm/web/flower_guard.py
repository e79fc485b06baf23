"""The guard of every request to Flower, however Flower was started; `flower_config` installs it.

Only known hosts are served, so that no web page reads anything by resolving its own name to this machine (DNS rebinding). A request needs
the login or, without one, the cookie of the page's token, because other users of this machine reach Flower, too. Static files are open,
and so are the health check and metrics if the setting names them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from flower.views import BaseHandler
from flower.views.monitor import Healthcheck, Metrics
from tornado.options import options as given_options
from tornado.routing import URLSpec
from tornado.web import HTTPError, RequestHandler, StaticFileHandler

from swarm.client.failures import Refusal
from swarm.core.settings import Settings
from swarm.web.guard import check_site
from swarm.web.handlers import Guarded, check_login, has_login

LOOPBACK = "127.0.0.1"
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+))(?::\d+)?")
_MISDIRECTED = 421


def is_known_host(header: str, names: frozenset[str]) -> bool:
    """Whether a `Host` header names this Flower: an address, `localhost`, or one of the set names.

    No other name server can point an address here.
    """
    found = _HOST.fullmatch(header)
    if found is None:
        return False
    name = (found[1] or found[2]).lower().removesuffix(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name in names
    return True


def known_names(settings: Settings, address: str) -> frozenset[str]:
    """Return the names in the setting, and the name that Flower serves on."""
    named = (*settings.flower_hosts.split(","), address)
    return frozenset(name.strip().lower().removesuffix(".") for name in named if name.strip())


def default_address(given: str) -> str:
    """Return the address to serve on: this machine alone, unless an address or a socket was given."""
    return given or ("" if given_options.unix_socket else LOOPBACK)


def guard_routes(handlers: list[Any], options: dict[str, Any], settings: Settings, address: str, token: str) -> None:
    """Put Flower's routes behind the guard, and also Tornado's routes for Flower's static files."""
    names = known_names(settings, address)
    open_ones = {part.strip() for part in settings.flower_open.split(",")}
    opened = {kind for kind, name in ((Healthcheck, "healthcheck"), (Metrics, "metrics")) if name in open_ones}

    def check(handler: RequestHandler) -> None:
        if not is_known_host(handler.request.host, names):
            raise HTTPError(
                _MISDIRECTED, "This host name is not known here. Set SWARM_FLOWER_HOSTS to Flower's host names."
            )
        # The page's handlers check more.
        if not isinstance(handler, BaseHandler) or isinstance(handler, Guarded) or opened & set(type(handler).__mro__):
            return
        # With a login, Flower's own handlers ask for it, except these two.
        if not has_login(handler) or isinstance(handler, Healthcheck | Metrics):
            _check_visitor(handler, token)

    routes = [route if isinstance(route, URLSpec) else URLSpec(*route) for route in handlers]
    handlers[:] = [
        URLSpec(route.regex.pattern, _guarded(route.handler_class, check), route.kwargs, route.name) for route in routes
    ]
    options["static_handler_class"] = _guarded(StaticFileHandler, check)


def _check_visitor(handler: BaseHandler, token: str) -> None:
    try:
        check_login(handler, token)
        if not has_login(handler) and handler.request.method not in ("GET", "HEAD"):
            check_site(handler.request.headers, handler.request.host, acts=True)
    except Refusal as refusal:
        raise HTTPError(refusal.status, "%s", refusal) from refusal


def _guarded(kind: Any, check: Callable[[RequestHandler], None]) -> Any:
    def prepare(self: Any) -> Any:
        check(self)
        return kind.prepare(self)

    return type(kind.__name__, (kind,), {"prepare": prepare, "__module__": kind.__module__})
