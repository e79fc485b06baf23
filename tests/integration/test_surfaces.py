"""HTTP, the page and the MCP server mount the same operations, and refuse in the same words.

Tests of swarm/client/failures.py, swarm/client/operations.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from swarm.api import application
from swarm.api.mcp import tools
from swarm.client.acts import ACTS
from swarm.client.operations import Operation
from swarm.client.reads import READS
from swarm.store.api_keys import SCOPES, ApiKeys
from swarm.web import operations as page
from swarm.web.stream import LIVE
from tests.fleet import Fleet
from tests.flower import running_flower
from tests.serving import serving

SHARED: dict[str, Operation] = {one.name: one for one in (*ACTS, *READS, *LIVE)}
SURFACES: dict[str, tuple[Sequence[Operation], Mapping[str, str]]] = {
    "http": (application.MOUNTED, {}),
    "page": (page.MOUNTED, page.LEFT_OUT),
    "mcp": (tools.TOOLS, tools.LEFT_OUT),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_mounts_each_operation_or_says_why_not(surface: str) -> None:
    mounted, left_out = SURFACES[surface]
    names = {one.name for one in mounted}
    assert len(names) == len(mounted)
    assert SHARED.keys() - names == left_out.keys(), "name what is left out, with a reason"
    assert all(left_out.values())
    for one in mounted:
        if one.name in SHARED:
            same = SHARED[one.name]
            assert one.takes.model_fields.keys() == same.takes.model_fields.keys(), one.name
            assert (one.function, one.scope, one.returns) == (same.function, same.scope, same.returns), one.name


def test_every_operation_tells_what_it_does_and_has_a_path_of_its_own() -> None:
    assert len({(one.method, one.path) for one in SHARED.values()}) == len(SHARED)
    for one in SHARED.values():
        assert one.description and set(one.parameters) <= one.takes.model_fields.keys(), one.name


def test_an_error_has_the_same_code_and_words_everywhere() -> None:
    with closing(Fleet()) as fleet, serving(fleet) as api, running_flower(fleet) as flower:
        token = ApiKeys(fleet.swarm.store.keyspace).create("tester", SCOPES)
        job = fleet.swarm.submit("go", workspace=fleet.workspace)
        wrong: list[tuple[str, dict[str, str], dict[str, Any]]] = [
            ("cancel_agent", {"agent": "agent-none"}, {}),
            ("answer_question", {"question": "question-none"}, {"answer": "allow"}),
            ("send_message", {"job": job.id}, {"to": "nobody", "text": "x"}),
            ("send_message", {"job": job.id}, {"txt": "x"}),
            ("mark_read", {"job": job.id}, {"up_to": "never"}),
            ("start_job", {}, {"prompt": "x", "workspace": "/no/such/folder"}),
        ]

        async def call_tools(url: str) -> list[dict[str, Any]]:
            http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
            async with http, Client(streamable_http_client(url, http_client=http)) as client:
                found = [await client.call_tool(name, {**path, **body}) for name, path, body in wrong]
            return [dict(one.meta or {})["error"] for one in found]

        with serving(fleet, "swarm", "mcp", "serve", "--http") as server:
            by_tool = asyncio.run(call_tools(f"{server}/mcp"))
        for (name, path, body), told in zip(wrong, by_tool, strict=True):
            address = SHARED[name].path.format(**path)
            by_http = httpx.post(f"{api}/v1{address}", json=body, headers={"Authorization": f"Bearer {token}"})
            by_page = flower.post(f"/api{address}", body)
            assert by_http.status_code == by_page.status >= 400
            assert by_http.json()["error"] == by_page.json()["error"], name
            assert told["code"] == by_page.code
            assert told["message"].removeprefix("the arguments") == by_page.json()["error"]["message"].removeprefix(
                "the body"
            )
