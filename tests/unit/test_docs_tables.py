"""Tables of the pages that name all of a kind: what they name is what there is, neither less nor more.

Tests of docs, swarm/api/application.py, swarm/api/mcp/tools.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

import pytest

from swarm.api.application import MOUNTED, PREFIX
from swarm.api.mcp.tools import TOOLS
from swarm.definitions.hooks import EVENTS, NO_MOMENT
from swarm.definitions.model import Execution, Isolation, MemoryScope, PermissionMode
from swarm.definitions.tools import known_tools
from swarm.permissions.rules import parse_rule
from tests.documents import GUIDES, ROOT, rows, spans

DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("page", "heading", "known"),
    [
        ("permissions.md", "Modes", get_args(PermissionMode)),
        ("files.md", "Copies", get_args(Isolation)),
        ("peers.md", "How an agent runs", get_args(Execution)),
        ("memory.md", "Memory", get_args(MemoryScope)),
        ("hooks.md", "Events", EVENTS),
        ("hooks.md", "Events without a moment here", NO_MOMENT),
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
    assert named == besides | {(one.method, PREFIX + re.sub(r"{[\w:]+}", "{}", one.path)) for one in MOUNTED}


def test_every_rule_that_a_page_shows_is_one() -> None:
    tools = "|".join(known_tools())
    shown = {span for page in GUIDES for span in spans(page) if re.fullmatch(rf"(?:{tools})\([^…]+\)", span)}
    quoted = re.findall(r"--(?:allow|ask|deny) '([^']+)'", "\n".join(page.read_text() for page in GUIDES))
    assert len(shown) > 10 and quoted
    for rule in {*shown, *(one for one in quoted if one.partition("(")[0] in known_tools())}:
        parse_rule(rule, "deny", "a page")
