"""Servers that let nobody in without a login: a person makes one, agents on the fleet use it, and hosts renew it one at a time.

Tests of swarm/capabilities/mcp/broker/admission.py, swarm/capabilities/mcp/broker/oauth.py,
swarm/capabilities/mcp/broker/redirect.py, swarm/capabilities/mcp/broker/server_session.py, swarm/capabilities/mcp/logins.py.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from swarm.agent.entries import Started, ToolFinished
from swarm.capabilities.mcp.broker.oauth import NotGranted, log_in_as_client, renew
from swarm.capabilities.mcp.broker.server_session import ServerSession
from swarm.capabilities.mcp.logins import way_to
from tests.e2e.prepared import prepared_swarm
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
    """Workers, and a person with a locked server that nobody is known to yet."""
    with closing(Vault()) as vault:
        configure(
            monkeypatch, tmp_path, {"vault": {"type": "http", "url": f"{vault.url}/mcp", "oauth": {"scopes": []}}}
        )
        wait_for("the server is there", vault.is_up)
        yield at_work, vault


def swarm_mcp(fleet: Fleet, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [prepared_swarm(), "mcp", *arguments],
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
        assert "continues where it was begun" in httpx2.get(address, follow_redirects=True).text
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


def test_hosts_that_find_a_login_expired_renew_it_once_and_those_connected_are_told_of_its_end(
    world: tuple[Fleet, Vault],
) -> None:
    fleet, vault = world
    log_in(fleet, paste=True)
    place = f"{vault.url}/mcp"
    way = way_to(fleet.settings, fleet.swarm.store, getpass.getuser(), place)
    launch = {"transport": "http", "name": "vault", "url": place, "headers": {}, "login": way, "start_seconds": 30}
    call = {"tool": "look", "given": {}, "seconds": 30}

    async def use_it() -> None:
        hosts = [ServerSession(str(number), launch) for number in range(4)]
        await asyncio.gather(*(host.ready() for host in hosts))
        vault.post("expire")
        said = [await each.next_event() for each in [host.begin_call("1", call) for host in hosts]]
        assert [each["result"]["text"] for each in said] == ["gold"] * 4
        assert vault.counts() == {"registered": 1, "renewed": 1}
        swarm_mcp(fleet, "logout", "vault").communicate(timeout=30)
        said = [await hosts[0].begin_call("2", call).next_event()]
        assert said[0]["failed"] == "refused" and "has no login" in said[0]["why"]
        await asyncio.gather(*(host.end() for host in hosts))

    asyncio.run(use_it())


def test_a_client_with_a_secret_logs_in_without_a_person_and_again_when_it_expires(world: tuple[Fleet, Vault]) -> None:
    _, vault = world

    async def grant() -> list[str]:
        first = await log_in_as_client(f"{vault.url}/mcp", "robot", "s3cret", issuer=vault.url)
        second = await renew(f"{vault.url}/mcp", first)
        for secret, issuer, why in (("wrong", vault.url, "invalid_client"), ("s3cret", "http://x.example", "issuer")):
            with pytest.raises(NotGranted, match=why):
                await log_in_as_client(f"{vault.url}/mcp", "robot", secret, issuer=issuer)
        return [granted["tokens"]["access_token"] for granted in (first, second)]

    assert asyncio.run(grant()) == httpx2.get(f"{vault.url}/granted").json()[::2]


def dump(fleet: Fleet) -> str:
    """All that Redis holds."""
    client = fleet.swarm.store.keyspace.client
    kinds = {"string": client.get, "hash": client.hgetall, "set": client.smembers}
    kinds |= {"list": lambda key: client.lrange(key, 0, -1), "stream": client.xrange}
    return str([kinds[kind](key) for key in client.scan_iter() if (kind := client.type(key)) in kinds])
