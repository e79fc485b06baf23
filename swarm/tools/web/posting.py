"""One document sent to an address, over a connection whose address was looked at; redirects are not followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import httpx2

from swarm.tools.web.fetching import MAX_BYTES, Looking, parse
from swarm.tools.web.reach import Reach


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    reach: Reach | None,
    seconds: float,
    check: Callable[[], None] = lambda: None,
) -> tuple[int, bytes]:
    """Send `body`; returns the status and the answer, cut at `MAX_BYTES`. `reach` None: wherever the address leads.

    Raises `ToolError` for an address that is none, or out of reach, and httpx2's errors.
    """
    at, deadline = parse(url), time.monotonic() + seconds
    looking = Looking(reach)
    with (
        httpx2.Client(transport=looking, timeout=min(seconds, 30.0), follow_redirects=False) as client,
        looking.ending(seconds),
        client.stream("POST", at, content=body, headers=dict(headers)) as answer,
    ):
        found = bytearray()
        for piece in answer.iter_bytes():
            check()
            found += piece
            if len(found) > MAX_BYTES:
                break
        if time.monotonic() >= deadline:  # an end without a length looks whole
            raise httpx2.ReadTimeout(f"{url} took longer than {seconds:g} s")
        return answer.status_code, bytes(found[:MAX_BYTES])
