"""Tables of the pages that name all of a kind: what they name is what there is, neither less nor more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

import pytest

from swarm.api.application import ENDPOINTS
from swarm.definitions.hooks import EVENTS
from swarm.definitions.model import Execution, Isolation, MemoryScope, PermissionMode
from swarm.mcp.fleet.tools import TOOLS
from tests.documents import ROOT, rows

DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("page", "heading", "known"),
    [
        ("permissions.md", "Modes", get_args(PermissionMode)),
        ("files.md", "Copies", get_args(Isolation)),
        ("peers.md", "How an agent runs", get_args(Execution)),
        ("memory.md", "Memory", get_args(MemoryScope)),
        ("hooks.md", "Events", EVENTS),
        ("mcp-server.md", "The fleet as an MCP server", [tool.name for tool in TOOLS]),
    ],
)
def test_a_table_names_all_there_is(page: str, heading: str, known: Iterable[str]) -> None:
    named = [span for first, *_ in rows(DOCS / page, heading) for span in first]
    assert sorted(named) == sorted(known)


def test_the_page_about_http_has_every_endpoint_and_no_other() -> None:
    named = set()
    for cells in rows(DOCS / "http.md", "Calls"):
        method = "GET"
        for span in cells[0]:
            if found := re.match(r"(?:(GET|POST) )?(/v1/[^?` ]+)", span):
                method = found[1] or method
                named.add((method, re.sub(r"[A-Z]{2,}", "{}", found[2])))
    besides = {("GET", "/v1/health"), ("GET", "/v1/openapi.json")}
    assert named == besides | {(one.method, re.sub(r"{[\w:]+}", "{}", one.path)) for one in ENDPOINTS}
