"""What no job can have is refused at real servers, and by the client for asyncio, in our own words.

Tests of swarm/client/order.py.
"""

from __future__ import annotations

import asyncio

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from swarm.client import aio
from swarm.core.errors import SwarmError
from swarm.permissions.ceiling import KEY_CEILING
from swarm.store.api_keys import ApiKeys
from tests.bad_orders import BAD, REMOTE
from tests.fleet import Fleet
from tests.serving import serving

FAULTS = BAD | {name: {name: value} for name, value in REMOTE.items()}


def test_http_answers_a_bad_order_with_400_and_one_sentence(unmanned: Fleet) -> None:
    token = ApiKeys(unmanned.swarm.store.keyspace).create(
        "tried", ["submit"], KEY_CEILING.model_copy(update={"check": True})
    )
    with serving(unmanned) as url, httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
        for path, more in (("/v1/jobs", {}), ("/v1/maps", {"lines": ["a"]})):
            for fault, given in FAULTS.items():
                prompt = "x" if path == "/v1/jobs" else "x {it}"
                body = {"prompt": prompt, "workspace": str(unmanned.workspace), **more, **given}
                answer = client.post(path, json=body)
                assert answer.status_code == 400, (path, fault, answer.text)
                error = answer.json()["error"]
                assert error["code"] in ("bad_request", "refused") and "\n" not in error["message"], (fault, error)
    assert unmanned.swarm.jobs() == []


def test_a_tool_of_the_mcp_server_says_what_is_wrong_with_an_order(unmanned: Fleet) -> None:
    token = ApiKeys(unmanned.swarm.store.keyspace).create(
        "client", ["submit"], KEY_CEILING.model_copy(update={"check": True})
    )

    async def drive(url: str) -> None:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            for fault, given in FAULTS.items():
                order = {"prompt": "x", "workspace": str(unmanned.workspace), **given}
                found = await client.call_tool("start_job", order)
                said = str(found.content[0].text)  # type: ignore[union-attr]
                assert found.is_error and "\n" not in said and "the server failed" not in said, (fault, said)

    worker = unmanned.start_worker(1)  # so that the server starts none
    with serving(unmanned, "swarm", "mcp", "serve", "--http", "--workspace", str(unmanned.workspace)) as url:
        asyncio.run(drive(f"{url}/mcp"))
    worker.stop()
    assert unmanned.swarm.jobs() == []


def test_the_client_for_asyncio_raises_our_errors(unmanned: Fleet) -> None:
    async def order() -> None:
        async with aio.Swarm(unmanned.swarm.settings) as swarm:
            for given in BAD.values():
                options = {"prompt": "x", "workspace": str(unmanned.workspace), **given}
                with pytest.raises(SwarmError):
                    await swarm.submit(**options)

    asyncio.run(order())
    assert unmanned.swarm.jobs() == []
