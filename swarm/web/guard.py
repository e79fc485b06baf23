"""Permissions to see the page and to act in it. Pure.

Without a login, Flower accepts every request. Any web page opened on this machine could then approve a command in the person's name, and
so could any other user of the machine. So the page requires a token, which only the user who started Flower can read. Acts must come from
the page itself, with any login.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from swarm.client.failures import BadRequest, Refusal

ACT_HEADER = "X-Swarm"
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


def cookie_for(token: str) -> tuple[str, str]:
    """Return the name and value of the cookie for a token; neither reveals it. All ports of a host share cookies."""
    digest = hashlib.sha256(f"swarm page {token}".encode()).hexdigest()
    return f"swarm_{digest[:8]}", digest[8:]


def is_same(given: str, right: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return hmac.compare_digest(given.encode(), right.encode())


def check_site(headers: Mapping[str, str], host: str, *, acts: bool) -> None:
    """Raise `Refusal` for a request from a page of another site."""
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if site is not None:
        # `none`: a person typed the address.
        foreign = site != "same-origin" and (acts or site != "none")
    else:
        foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
    if foreign:
        raise Refusal(403, "foreign", "a page of another site asked for this; open the page itself")


def check_act(headers: Mapping[str, str], *, read_only: bool) -> None:
    """Raise `Refusal` or `BadRequest` for an act that is not allowed, or that another page's form could have sent."""
    if read_only:
        raise Refusal(403, "read_only", "this Flower is read-only; start it without --read-only to act here")
    if headers.get(ACT_HEADER) != "1":
        raise BadRequest(f"an act needs the header {ACT_HEADER}: 1", ACT_HEADER)
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("an act needs a body of the type application/json", "Content-Type")
