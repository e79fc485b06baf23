"""Servers that let nobody in without a login: a person makes one, agents on the fleet use it, and hosts renew it one at a time."""

from __future__ import annotations

import asyncio
import getpass
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from swarm.agent.entries import Started, ToolFinished
from swarm.mcp.broker.admission import Admission
from swarm.mcp.logins import way_to
from tests.fleet import Fleet
from tests.flower import free_port
from tests.mcp_world import configure
from tests.waiting import wait_for

CALLS = """
name: calls
rules:
  - {when: {turn: 0}, reply: {tools: [{name: mcp__vault__look, input: {}}]}}
  - {reply: {text: done}}
"""


class Vault:
    """The locked server."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([sys.executable, "-m", "tests.mcp_locked", str(port)])

    def post(self, what: str) -> None:
        httpx2.post(f"{self.url}/{what}").raise_for_status()

    def counts(self) -> dict[str, int]:
        return dict(httpx2.get(f"{self.url}/counts").json())

    def is_up(self) -> bool:
        try:
            return bool(self.counts() is not None)
        except httpx2.HTTPError:
            return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def world(at_work: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Fleet, Vault]]:
    """Workers, and a person with a locked server."""
    with closing(Vault()) as vault:
        configure(
            monkeypatch, tmp_path, {"vault": {"type": "http", "url": f"{vault.url}/mcp", "oauth": {"scopes": []}}}
        )
        wait_for("the server is there", vault.is_up)
        yield at_work, vault


def swarm_mcp(fleet: Fleet, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "swarm", "mcp", *arguments],
        cwd=fleet.workspace,
        env=fleet.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def log_in(fleet: Fleet, *, paste: bool = False) -> None:
    """What a person does: opens the address, agrees, and is sent back."""
    command = swarm_mcp(fleet, "login", "vault")
    assert command.stdout is not None
    address = command.stdout.readline().strip()
    assert "code_challenge_method=S256" in address, command.communicate()
    if paste:
        back = httpx2.get(address).headers["location"]
        _, told = command.communicate(f"nonsense\n{back}\n", timeout=30)
    else:
        assert "goes on where it was begun" in httpx2.get(address, follow_redirects=True).text
        _, told = command.communicate(timeout=30)
    assert command.returncode == 0 and "vault: logged in, renewed from" in told, told


def run(fleet: Fleet) -> tuple[list[ToolFinished], str]:
    """The results of a job that calls the server once, and what its agent was told at the beginning."""
    url, allow = fleet.rehearse(CALLS).url, ("mcp__vault__look",)
    job = fleet.swarm.submit("Look", workspace=fleet.workspace, base_url=url, ask_seconds=0, allow=allow)
    assert job.wait(60).state == "completed"
    entries = list(fleet.swarm.journal(job.view().root_id))
    begun = next(entry for entry in entries if isinstance(entry, Started))
    return [entry for entry in entries if isinstance(entry, ToolFinished)], begun.system


def test_a_persons_login_serves_agents_is_renewed_and_its_end_is_told(world: tuple[Fleet, Vault]) -> None:
    fleet, vault = world
    _, system = run(fleet)
    assert "it wants a login" in system and "swarm mcp login vault" in system
    log_in(fleet)
    assert "gold" in str(run(fleet)[0])
    vault.post("expire")
    assert "gold" in str(run(fleet)[0])
    assert vault.counts() == {"registered": 1, "renewed": 1}
    everything, tokens = dump(fleet), httpx2.get(f"{vault.url}/granted").json()
    assert len(tokens) == 4 and not [token for token in tokens if token in everything]
    vault.post("expire")
    vault.post("revoke")
    _, system = run(fleet)
    assert "the login has ended: its renewal was refused (invalid_grant" in system and "swarm mcp login vault" in system
    listed, told = swarm_mcp(fleet, "list", "--json").communicate(timeout=30)
    assert "login ended: its renewal was refused" in json.loads(listed)["servers"][0]["login"], told


def test_hosts_that_find_a_login_expired_renew_it_once(world: tuple[Fleet, Vault]) -> None:
    fleet, vault = world
    log_in(fleet, paste=True)
    person = getpass.getuser()

    async def ask(admission: Admission) -> int:
        async with httpx2.AsyncClient(auth=admission) as http:
            reply = await http.post(f"{vault.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await admission.close()
        return reply.status_code

    async def ask_all() -> list[int]:
        way = way_to(fleet.settings, fleet.swarm.store, person, f"{vault.url}/mcp")
        launch: dict[str, Any] = {"name": "vault", "url": f"{vault.url}/mcp", "headers": {}, "login": way}
        return await asyncio.gather(*(ask(Admission(launch)) for _ in range(8)))

    vault.post("expire")
    assert 401 not in asyncio.run(ask_all())
    assert vault.counts() == {"registered": 1, "renewed": 1}
    _, told = swarm_mcp(fleet, "logout", "vault").communicate(timeout=30)
    assert "vault: logged out" in told
    assert way_to(fleet.settings, fleet.swarm.store, person, f"{vault.url}/mcp") is None


def dump(fleet: Fleet) -> str:
    """All that Redis holds."""
    client = fleet.swarm.store.client
    kinds = {"string": client.get, "hash": client.hgetall, "set": client.smembers}
    kinds |= {"list": lambda key: client.lrange(key, 0, -1), "stream": client.xrange}
    return str([kinds[kind](key) for key in client.scan_iter() if (kind := client.type(key)) in kinds])
