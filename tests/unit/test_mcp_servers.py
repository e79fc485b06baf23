"""A server's configuration: its digest, its variables, and what its tools are called.

Tests of swarm/definitions/mcp/servers.py.
"""

import pytest

from swarm.definitions.mcp.servers import MissingVariables, Server, expand, server_of, tool_name

FILES = Server(
    name="My files!",
    transport="stdio",
    command="files",
    args=("--root", "${ROOT:-/tmp}", "${HOME_DIR}"),
    env={"KEY": "a-${SECRET}"},
)


def test_the_digest_is_of_what_runs_and_not_of_where_it_was_written() -> None:
    assert FILES.model_copy(update={"source": "elsewhere", "scope": "project"}).digest == FILES.digest
    for change in ({"args": ()}, {"env": {"KEY": "b"}}, {"name": "other"}, {"tools": ("read",)}, {"cwd": "x"}):
        assert FILES.model_copy(update=change).digest != FILES.digest, change
    assert Server.model_validate_json(FILES.model_dump_json()) == FILES


def test_variables_are_filled_only_with_what_the_worker_gives_away() -> None:
    assert FILES.variables == {"ROOT": "/tmp", "HOME_DIR": None, "SECRET": None}
    world = {"ROOT": "/srv", "HOME_DIR": "/home/x", "SECRET": "s3"}
    full = expand(FILES, world, ["*"])
    assert (full.args, full.env) == (("--root", "/srv", "/home/x"), {"KEY": "a-s3"})
    assert expand(FILES, world, ["HOME_*", "SECRET"]).args == ("--root", "/tmp", "/home/x")
    with pytest.raises(MissingVariables, match=r"HOME_DIR not set.*; SECRET not allowed") as caught:
        expand(FILES, {"SECRET": "s3"}, ["HOME_DIR"])
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        ("github", "list_issues", "mcp__github__list_issues"),
        ("My files!", "fs.read", "mcp__My_files__fs_read"),
        ("a__b", "c__d", "mcp__a_b__c__d"),
        ("ÄÖ", "x", "mcp__server__x"),
    ],
)
def test_a_tools_name_holds_its_server(server: str, tool: str, expected: str) -> None:
    assert tool_name(server, tool) == expected
    assert server_of(expected) == Server(name=server, transport="stdio").key


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    first, second = tool_name("s", "x" * 80), tool_name("s", "x" * 81)
    assert len(first) == len(second) == 64 and first != second
    assert server_of("Bash(mcp__x)") == ""


def test_only_what_the_configuration_lets_through_is_offered() -> None:
    some = FILES.model_copy(update={"tools": ("read*", "list"), "without": ("read_secret",)})
    assert [tool for tool in ("read", "read_secret", "list", "write") if some.offers(tool)] == ["read", "list"]
    assert FILES.offers("anything")
