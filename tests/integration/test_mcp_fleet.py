"""The fleet as an MCP server, driven by the official clients of npm and PyPI, over stdio and HTTP, with real workers.

Tests of swarm/api/mcp/server.py, swarm/api/mcp/transcripts.py, swarm/api/mcp/views.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from swarm.permissions.ceiling import Ceiling
from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.needs import need, need_program
from tests.waiting import wait_for

SCENARIO = """
name: mcp
rules:
  - when: {turn: 0, prompt: "ask me"}
    reply: {tools: [{name: Bash, input: {command: "git push", description: "push"}}]}
  - when: {last_text: "hello again"}
    reply: {text: "and hello to you"}
  - when: {prompt: "count"}
    reply: {text: "three files"}
  - when: {prompt: "brief"}
    reply: {text: soon, latency_seconds: 1}
  - when: {prompt: "slow"}
    reply: {text: late, latency_seconds: 60}
  - reply: {text: over}
"""
FOLDER = os.environ.get("SWARM_TEST_MCP_SERVERS") or Path(__file__).parents[2] / "build/mcp-servers"
PACKAGES = Path(FOLDER) / "node_modules"
DRIVER = Path(__file__).parents[1] / "mcp_client.mjs"
Call = Callable[..., dict[str, Any]]


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "swarm", "mcp", "serve", *options]


@contextmanager
def over_http(fleet: Fleet) -> Iterator[str]:
    """A server of its own; yields its URL."""
    log = fleet.folder / "mcp.log"
    with log.open("wb") as file:
        running = subprocess.Popen(
            command("--http", "--port", "0"), cwd=fleet.workspace, env=fleet.environment(), stdout=file, stderr=file
        )
    try:
        wait_for("it serves", lambda: "running on http" in log.read_text() or running.poll() is not None)
        found = re.search(r"running on (http://[\d.:]+)", log.read_text())
        assert found, log.read_text()
        yield f"{found[1]}/mcp"
    finally:
        running.terminate()
        running.wait(20)


class FromNpm:
    """A client of npm that is told what to call, line by line."""

    def __init__(self, fleet: Fleet, *arguments: str) -> None:
        there = (PACKAGES / "@modelcontextprotocol/sdk").is_dir()
        need(
            there,
            "the MCP client of npm",
            "npm install --prefix build/mcp-servers @modelcontextprotocol/sdk was not run",
        )
        self._running = subprocess.Popen(
            [need_program("node"), str(DRIVER), str(PACKAGES), *arguments],
            cwd=fleet.workspace,
            env=fleet.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, tool: str = "", **given: Any) -> dict[str, Any]:
        assert self._running.stdin is not None and self._running.stdout is not None
        self._running.stdin.write(json.dumps({"tool": tool, "given": given} if tool else {"list": True}) + "\n")
        self._running.stdin.flush()
        found: dict[str, Any] = json.loads(self._running.stdout.readline())
        return found

    def close(self) -> None:
        assert self._running.stdin is not None
        self._running.stdin.close()
        assert self._running.wait(20) == 0


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Workers whose model is the scenario."""
    with closing(Fleet()) as fleet:
        fleet.start_worker(4, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
        yield fleet


@pytest.fixture(params=["stdio", "http"])
def npm(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[FromNpm]:
    if request.param == "stdio":
        client = FromNpm(fleet, "stdio", *command())
        yield client
        client.close()
        return
    key = ApiKeys(fleet.swarm.store.keyspace).create("npm", SCOPES)
    with over_http(fleet) as url:
        client = FromNpm(fleet, "http", url, key)
        yield client
        client.close()
    ApiKeys(fleet.swarm.store.keyspace).remove("npm")


def test_a_client_of_npm_starts_waits_writes_answers_and_cancels(npm: FromNpm, fleet: Fleet) -> None:
    def do(tool: str, **given: Any) -> Any:
        found = npm.call(tool, **given)
        assert not found.get("isError"), found
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
        return found["structuredContent"]

    tools = {tool["name"]: tool for tool in npm.call()["tools"]}
    assert {"start_job", "send_message"} <= tools.keys() and tools["get_job"]["annotations"]["readOnlyHint"]
    begun = do("start_job", prompt="count the files", title="A count")
    assert begun["title"] == "A count"
    found = npm.call("get_job", job=begun["id"], wait_seconds=40)
    ended = found["structuredContent"]
    assert (ended["state"], ended["answer"]) == ("completed", "three files")
    assert fleet.swarm.job(begun["id"]).view().workspace == str(fleet.workspace)
    events = do("follow_job", job=begun["id"])
    assert events["ended"] and events["events"][-1]["kind"] == "job_ended"
    assert do("follow_job", job=begun["id"], after=events["next"])["events"] == []
    do("send_message", job=begun["id"], text="hello again")
    wait_for("it has gone on", lambda: do("get_job", job=begun["id"], wait_seconds=5)["answer"] == "and hello to you")
    transcript = do("read_transcript", agent=begun["id"])
    assert (
        "count the files" in transcript["text"] and "said: three files" in transcript["text"] and not transcript["more"]
    )

    asking = do("start_job", prompt="ask me", ask=["Bash(git push:*)"], wait_seconds=40)
    [question] = asking["questions"]
    assert question["kind"] == "permission" and "git push" in question["detail"] and not asking["ended"]
    assert do("list_questions", job=asking["id"])["questions"][0]["id"] == question["id"]
    do("answer_question", question=question["id"], answer="deny", reason="not today")
    assert do("get_job", job=asking["id"], wait_seconds=40, until="end")["state"] == "completed"

    slow = do("start_job", prompt="slow")
    assert not slow["ended"] and slow["answer"] == ""
    # Waiting is bounded, and does not keep the next call waiting.
    assert do("get_job", job=slow["id"], wait_seconds=0.5)["state"] == "running"
    assert do("cancel_job", job=slow["id"], reason="enough")["state"] == "cancelled"
    assert [job["id"] for job in do("list_jobs", state="cancelled")["jobs"]][:1] == [slow["id"]]
    assert do("forget_job", job=slow["id"]) == {"job_id": slow["id"]}
    assert slow["id"] not in [job["id"] for job in do("list_jobs")["jobs"]]


@pytest.mark.long
def test_the_client_of_pypi_is_told_clearly_what_cannot_be_done(fleet: Fleet) -> None:
    async def drive(client: Client) -> None:
        async def refused(tool: str, **given: Any) -> str:
            found = await client.call_tool(tool, given)
            assert found.is_error, found
            return str(found.content[0].text)  # type: ignore[union-attr]

        assert "job-nothing" in await refused("get_job", job="job-nothing")
        assert await refused("get_job", job="x", wait=3) == "the arguments: wait: Extra inputs are not permitted"
        assert "less than or equal to 50" in await refused("get_job", job="x", wait_seconds=600)
        assert await refused("get_job") == "the arguments: job: Field required"
        assert "there is no tool 'run'; there are start_job," in await refused("run")
        assert "is not a folder" in await refused("start_job", prompt="x", workspace="/no/such/place")
        assert "only folders below" in await refused("start_job", prompt="x", workspace="/")
        assert "unknown agent type 'nobody'" in await refused("start_job", prompt="x", agent="nobody")
        assert "no question" in await refused("answer_question", question="q-nothing", answer="allow")
        assert "needs the scope 'cancel'" in await refused("cancel_job", job="x")
        assert "cancel_job" not in [tool.name for tool in (await client.list_tools()).tools]
        told: list[str | None] = []

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        begun = await client.call_tool("start_job", {"prompt": "brief", "wait_seconds": 30}, progress_callback=tell)
        assert begun.structured_content is not None and begun.structured_content["answer"] == "soon"
        assert any(message and message.startswith("running") for message in told)

    async def over_stdio() -> None:
        scopes = [word for scope in SCOPES if scope != "cancel" for word in ("--scope", scope)]
        program, *arguments = command("--only", str(fleet.workspace), *scopes)
        started = StdioServerParameters(
            command=program, args=arguments, env=fleet.environment(), cwd=str(fleet.workspace)
        )
        async with Client(started) as client:
            await drive(client)

    async def over_url(url: str, key: str) -> None:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
        async with http, Client(streamable_http_client(url, http_client=http)) as client:
            await drive(client)

    async def without_a_key(url: str) -> None:
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer swarm_wrong"}) as http:
            said = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert said.status_code == 401 and "swarm keys add" in said.text

    asyncio.run(over_stdio())
    keys = ApiKeys(fleet.swarm.store.keyspace)
    key = keys.create("pypi", [scope for scope in SCOPES if scope != "cancel"], Ceiling(workspaces=(fleet.workspace,)))
    with over_http(fleet) as url:
        asyncio.run(over_url(url, key))
        asyncio.run(without_a_key(url))
    keys.remove("pypi")
