"""The table of tools: each row has its tool, every name leads to one row, and nothing else in the project names a tool.

Tests of swarm/definitions/names.py, swarm/definitions/tools.py, swarm/tools/registry.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import swarm
from swarm.core.errors import ConfigurationError
from swarm.definitions.names import canonical_tool
from swarm.definitions.tools import Kind, ToolRow, all_rows, declare, find_alias, known_tools, row_of
from swarm.tools.registry import load_tool
from tests.code import nodes
from tests.tool_world import tool_named

PACKAGE = Path(swarm.__file__).parent
OFFERED = [row for row in all_rows() if row.home and not row.origin]
OWN = {row.name for row in all_rows() if not row.origin}
"""What other tests declare is not the project's."""


@pytest.mark.parametrize("row", OFFERED, ids=lambda row: row.name)
def test_every_row_leads_to_its_tool_and_that_can_do_what_its_kind_asks(row: ToolRow) -> None:
    tool = tool_named(row.name)
    Draft202012Validator.check_schema(tool.input_schema)
    assert tool.name == row.name and tool.row is row
    assert set(tool.required) <= set(tool.parameters)
    by_runtime = row.kind in (Kind.SPAWN, Kind.SEND, Kind.ASK) or row.sets_mode != ""
    assert (tool.run is None) is by_runtime
    assert (tool.wait is not None) is (row.kind is Kind.WAIT)
    assert (tool.ask is not None) is (row.kind is Kind.ASK)
    # Nobody could be asked about what a call is about if the call did not say it.
    assert {row.subject, row.inner} - {""} <= set(tool.parameters)


def test_every_name_of_a_tool_leads_to_it_however_it_is_spelt() -> None:
    for row in all_rows():
        for name in (row.name, row.name.lower(), *row.aliases.split()):
            assert canonical_tool(name) == row.name, name
    aliases = [alias for row in all_rows() for alias in row.aliases.split()]
    assert len(aliases) == len(set(aliases))
    assert canonical_tool("Read_File(~/.ssh/**)") == "Read(~/.ssh/**)"
    assert find_alias("powershell") is None, "another shell with another language"


def test_a_tool_that_nobody_knows_counts_as_one_with_effects() -> None:
    row = row_of("Telepathy")
    assert row.kind is Kind.EFFECT and row.has_effects and not row.is_internal
    assert not row.in_background and row_of("mcp__github__merge").in_background


@pytest.mark.parametrize("name", ["Read", "read_file", "ReadFile", "mcp__x__y", "", "a b", "9lives", "x" * 65])
def test_a_row_from_outside_cannot_take_a_name_that_means_something(name: str) -> None:
    before = known_tools()
    with pytest.raises(ConfigurationError, match=r"cannot be a tool's name|another name"):
        declare(ToolRow(name, home="elsewhere:TOOL"))
    assert known_tools() == before


@pytest.mark.parametrize("home", ["", "nowhere:TOOL", "swarm.tools.read:NOTHING", "swarm.tools.read:DEFAULT_LINES"])
def test_a_home_without_a_tool_is_named(home: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no tool is at|not a tool"):
        load_tool(home)


# -- nothing else names a tool ---------------------------------------------------------------------------------


def _modules() -> Iterator[Path]:
    for folder in (PACKAGE, PACKAGE / "tasks", PACKAGE / "mailbox"):
        yield from folder.rglob("*.py")


def _tools_named(module: Path) -> set[str]:
    """The tools whose names stand in a module as whole strings, or as `Tool(…)`; sentences about them are words, not knowledge."""
    strings = {node.value for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text.partition("(")[0] for text in strings if " " not in text} & OWN


def test_nothing_but_the_table_and_the_tool_itself_knows_a_tool_by_its_name() -> None:
    homes = {row.name: row.home.partition(":")[0] for row in all_rows()}
    modules = {path.resolve(): path for path in _modules()}.values()
    assert len(modules) > 150
    for module in modules:
        dotted = ".".join(("swarm", *module.relative_to(PACKAGE).with_suffix("").parts))
        if dotted == "swarm.definitions.tools" or dotted.startswith("swarm.rehearsal."):
            continue  # a rehearsal speaks as a model does, and models call tools by name
        strange = {
            name
            for name in _tools_named(module)
            if not f"{homes[name]}.".startswith(f"{dotted.removesuffix('.__init__')}.")
        }
        assert not strange, f"{dotted} names {', '.join(sorted(strange))}"
