"""Whether a URL is of the domain that a rule names: `domain:example.com`, `domain:*.example.com`, `domain:example.*`, `domain:*`.

A star at the front stands for any domains above; elsewhere for one part of the name, or, where a rule denies or asks, for any text.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_ODD = re.compile(r"[\x00-\x20\x7f\\]")


def matches_domain(spec: str, url: object, *, broad: bool) -> bool:
    """Whether a call's URL matches; `broad` (rules that deny or ask) takes in subdomains and URLs that cannot be read."""
    pattern = spec.removeprefix("domain:").strip().lower().rstrip(".")
    host = host_of(url)
    if host is None:
        return broad
    if pattern == "*":
        return True
    if pattern.startswith("*.") and "*" not in pattern[2:]:
        return host.endswith(pattern[1:]) or (broad and host == pattern[2:])
    if "*" not in pattern:
        return host == pattern or (broad and host.endswith(f".{pattern}"))
    form = re.escape(pattern).replace(r"\*", ".*" if broad else "[^.]+")
    return re.fullmatch(rf"(.*\.)?{form}" if broad else form, host) is not None


def host_of(url: object) -> str | None:
    """The host of a URL in one spelling, or None if different programs may read it differently."""
    if not isinstance(url, str) or _ODD.search(url):
        return None
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host = (parts.hostname or "").rstrip(".")
        return host.encode("idna").decode().lower() if host else None
    except (ValueError, UnicodeError):
        return None
