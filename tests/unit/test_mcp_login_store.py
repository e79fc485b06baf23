"""What is known of logins at MCP servers without speaking with any: their seal, their keys, their configuration.

Tests of swarm/capabilities/mcp/logins.py, swarm/cli/mcp_logins.py, swarm/definitions/mcp/formats.py, swarm/definitions/mcp/servers.py.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from swarm.capabilities.mcp.logins import Login, NotSealedHere, Seal, find_key, make_key, name_of
from swarm.cli.mcp_logins import tell_login
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.mcp.formats import Dialect, Unreadable, read_entry
from swarm.definitions.mcp.servers import JobServers, OAuth

SECRET = "s" * 32
URL = "https://docs.example/mcp"


def test_what_is_sealed_opens_only_with_its_key_for_its_person_and_address() -> None:
    sealed = Seal(SECRET, "ada", URL).close({"tokens": "t0ken"})
    assert "t0ken" not in sealed and Seal(SECRET, "ada", URL).open(sealed) == {"tokens": "t0ken"}
    for secret, person, url in (("x" * 32, "ada", URL), (SECRET, "eve", URL), (SECRET, "ada", "https://eve.example")):
        with pytest.raises(NotSealedHere):
            Seal(secret, person, url).open(sealed)
    assert name_of("a", "b,c") != name_of("a,b", "c")


def test_a_machines_own_swarm_makes_its_key_and_a_fleets_must_be_told(tmp_path: Path) -> None:
    own = Settings(state_dir=tmp_path / "state", redis_url=None, mcp_token_key=None)
    assert find_key(own) is None
    made = make_key(own)
    assert make_key(own) == made == find_key(own) and len(made) >= 32
    [file] = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    fleet = own.model_copy(update={"redis_url": "redis://x"})
    with pytest.raises(ConfigurationError, match="SWARM_MCP_TOKEN_KEY"):
        make_key(fleet)
    assert make_key(fleet.model_copy(update={"mcp_token_key": SECRET})) == SECRET
    assert SECRET not in repr(fleet.model_copy(update={"mcp_token_key": SECRET}))


@pytest.mark.parametrize(
    ("dialect", "given", "read"),
    [
        (
            "claude",
            {"oauth": {"clientId": "me", "callbackPort": 8765}},
            OAuth(client_id="me", callback_port=8765),
        ),
        (
            "opencode",
            {"oauth": {"clientId": "me", "clientSecret": "{env:KEY}", "scope": "a b"}},
            OAuth(client_id="me", client_secret="${KEY:-}", scope="a b"),
        ),
        ("opencode", {"oauth": False}, OAuth(off=True)),
        ("codex", {"scopes": ["a", "b"], "oauth": {"client_id": "me"}}, OAuth(client_id="me", scope="a b")),
        ("claude", {"oauth": {}}, None),
    ],
)
def test_every_format_says_how_to_log_in(dialect: Dialect, given: dict[str, Any], read: OAuth | None) -> None:
    entry = read_entry("docs", {"url": URL, **given}, dialect)
    assert entry.server is not None and (entry.server.oauth, entry.notes) == (read, [])


def test_what_logs_in_is_approved_and_does_not_travel() -> None:
    entries = [read_entry("docs", {"url": URL, "oauth": {"clientSecret": one}}, "claude").server for one in "xy"]
    assert entries[0] is not None and entries[1] is not None and entries[0].digest != entries[1].digest
    assert "oauth" not in JobServers(servers=[entries[0]]).model_dump_json()
    with pytest.raises(Unreadable, match="`oauth`"):
        read_entry("docs", {"url": URL, "oauth": "yes"}, "claude")
    with pytest.raises(Unreadable, match="is not a port"):
        read_entry("docs", {"url": URL, "oauth": {"callbackPort": 70_000}}, "claude")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "logged in"),
        ({"expires_at": 10.0}, "login expired"),
        ({"expires_at": 1e9}, "logged in until 2001-09-"),
        ({"expires_at": 10.0, "renewable": True}, "logged in, renewed from 1970-01-01"),
        ({"ended": "no"}, "login ended: no"),
    ],
)
def test_how_a_login_stands_is_told(given: dict[str, Any], told: str) -> None:
    assert tell_login(Login(sealed="", made_at=0.0, **given), 20.0).startswith(told)
