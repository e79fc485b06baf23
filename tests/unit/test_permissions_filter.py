"""The pipeline that decides which tools an agent gets.

Tests of swarm/permissions/filter.py.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.model import AgentDefinition, PermissionMode
from swarm.definitions.tools import all_rows
from swarm.permissions.filter import LAYERS, Situation, explain_tools, filter_tools

FILES = ["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "LS"]
SHELL = ["Bash", "BashOutput", "KillShell"]
AGENTS = ["Agent", "WaitAgents", "ListAgents", "ReadAgent", "StopAgent", "MergeAgent", "SendMessage"]
ROOT_ONLY = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TeamCreate", "TeamDelete"]
BOARD = ["BoardAdd", "BoardList", "BoardClaim", "BoardUpdate", "BoardComplete", "BoardWait"]
SHARED = ["ScratchpadWrite", "ScratchpadRead", "ScratchpadAppend", "ScratchpadList", *BOARD]
WEB = ["WebFetch", "WebSearch", "Skill", "SlashCommand"]
MCP = ["mcp__github__list", "mcp__github__merge", "mcp__slack__post"]
ALL = [*FILES, *SHELL, "TodoWrite", "WaitFor", *WEB, *AGENTS, *ROOT_ONLY, *SHARED, *MCP]
ROOT_TOOLS = {row.name for row in all_rows() if row.root_only}
SHELL_TOOLS = {row.name for row in all_rows() if row.needs_shell}
SHIPPED_ONLY_TOOLS = {row.name for row in all_rows() if row.shipped_only}
SPAWNING_TOOLS = {row.name for row in all_rows() if row.adds_agents}
WRITING_TOOLS = {row.name for row in all_rows() if row.writes_files}


def define(
    tools: list[str] | None = None,
    disallowed: list[str] | None = None,
    *,
    source: str = "shipped",
    read_only: bool = False,
    permission_mode: PermissionMode = "default",
) -> AgentDefinition:
    return AgentDefinition(
        name="x",
        description="d",
        prompt="p",
        tools=tools,
        disallowed_tools=disallowed or [],
        source=source,
        read_only=read_only,
        permission_mode=permission_mode,
    )


def kept(
    definition: AgentDefinition,
    *,
    depth: int = 1,
    max_depth: int = 2,
    is_root: bool = False,
    background: bool = False,
    mode: PermissionMode | None = None,
    sandbox: bool = False,
) -> list[str]:
    situation = Situation(definition, depth, max_depth, is_root, background, mode, sandbox)
    return filter_tools(ALL, situation)


def without(*removed: str) -> list[str]:
    return [tool for tool in ALL if tool not in removed]


def test_the_tools_here_are_all_there_are() -> None:
    on_condition = {row.name for row in all_rows() if row.needs in ("servers", "program", "listed", "flow")}
    assert {*ALL, "Memory", *on_condition} - set(MCP) == {row.name for row in all_rows() if not row.origin}


@pytest.mark.parametrize("read_only", [False, True])
def test_memory_is_for_those_whose_definition_has_one_whatever_they_list(read_only: bool) -> None:
    listing = define(["Read"], read_only=read_only)
    assert filter_tools(["Read", "Memory"], Situation(listing, 1, 2, False)) == ["Read"]
    keeping = listing.model_copy(update={"memory": "project"})
    assert filter_tools(["Read", "Memory"], Situation(keeping, 1, 2, False)) == ["Read", "Memory"]
    forbidden = keeping.model_copy(update={"disallowed_tools": ["Memory"]})
    assert filter_tools(["Read", "Memory"], Situation(forbidden, 1, 2, False)) == ["Read"]


def test_a_shipped_root_has_everything() -> None:
    assert kept(define(), depth=0, is_root=True) == ALL


def test_no_sub_agent_speaks_to_the_person_or_arranges_teams() -> None:
    assert kept(define()) == without(*ROOT_ONLY)


def test_a_sub_agent_in_plan_mode_can_hand_its_plan_in() -> None:
    tools = kept(define(permission_mode="plan"))
    assert "ExitPlanMode" in tools and not {"AskUserQuestion", "EnterPlanMode"} & set(tools)


def test_a_root_from_a_file_does_not_get_what_only_shipped_ones_get() -> None:
    assert kept(define(source="agents/x.md"), depth=0, is_root=True) == without(*SHIPPED_ONLY_TOOLS)


def test_in_the_background_nothing_asks_and_the_shared_tools_stay() -> None:
    assert kept(define(), depth=0, is_root=True, background=True) == without(
        *("AskUserQuestion", "EnterPlanMode", "TeamCreate", "TeamDelete")
    )
    assert "Unlisted" not in filter_tools(
        ["Unlisted"], Situation(define(), depth=1, max_depth=2, is_root=False, background=True)
    )


@pytest.mark.parametrize(
    ("tools", "disallowed", "expected"),
    [
        (["Read", "Grep"], [], ["Read", "Grep"]),
        (["Grep", "Read"], [], ["Read", "Grep"]),
        ([], [], []),
        (["Read", "Read(src/**)"], [], ["Read"]),
        (["Bash(git log:*)"], [], ["Bash"]),
        (["Bash*"], [], ["Bash", "BashOutput"]),
        (["bash", "list_dir", "task"], [], ["LS", "Bash", "Agent", "ReadAgent", "MergeAgent"]),
        (["Scratchpad*", "Board*"], [], SHARED),
        (["mcp__github__*"], [], MCP[:2]),
        (["mcp__github"], [], MCP[:2]),
        (["mcp__*"], ["mcp__slack"], MCP[:2]),
        (["mcp__github__list"], [], MCP[:1]),
        (None, ["*"], []),
        (["*"], ["mcp__*", *FILES, *SHELL, *WEB, *SHARED, *AGENTS], ["TodoWrite", "WaitFor"]),
        (["Read", "Write"], ["Write"], ["Read"]),
        (["Read", "Bash"], ["Bash(rm *)"], ["Read", "Bash"]),
        (["Read", "Bash"], ["Bash(*)"], ["Read"]),
        (["Unknown"], [], []),
        (["AskUserQuestion", "TeamCreate"], [], []),
    ],
)
def test_a_definitions_lists_choose_among_what_is_left(
    tools: list[str] | None, disallowed: list[str], expected: list[str]
) -> None:
    assert kept(define(tools, disallowed)) == expected


@pytest.mark.parametrize("sandbox", [False, True])
def test_a_read_only_agent_has_no_tool_that_writes_whatever_it_lists(sandbox: bool) -> None:
    definition = define(["Read", *sorted(WRITING_TOOLS | SHELL_TOOLS)], read_only=True)
    assert kept(definition, sandbox=sandbox) == (["Read", *SHELL] if sandbox else ["Read"])


@pytest.mark.parametrize("sandbox", [False, True])
def test_in_plan_mode_there_is_a_shell_only_in_a_sandbox_and_the_plan_can_be_written(sandbox: bool) -> None:
    for tools in (kept(define(permission_mode="plan"), sandbox=sandbox), kept(define(), mode="plan", sandbox=sandbox)):
        assert SHELL_TOOLS.intersection(tools) == (SHELL_TOOLS.intersection(ALL) if sandbox else set())
        assert {"Write", "Edit", "ExitPlanMode"} <= set(tools)


def test_the_mode_in_force_counts_and_not_the_definitions_own() -> None:
    assert "Bash" in kept(define(permission_mode="plan"), mode="default")
    assert "ExitPlanMode" not in kept(define(permission_mode="plan"), mode="default")


def test_in_the_background_agents_still_write_to_each_other_and_share_work() -> None:
    for definition in (define(), define(source="agents/x.md"), define(permission_mode="dontAsk")):
        assert {*AGENTS, *SHARED} <= set(kept(definition, background=True))


@pytest.mark.parametrize(("depth", "spawns"), [(0, True), (1, True), (2, False), (3, False)])
def test_at_the_nesting_limit_nothing_that_spawns_is_left(depth: int, spawns: bool) -> None:
    tools = kept(define(["Agent", "WaitAgents", "TeamCreate"]), depth=depth, is_root=depth == 0)
    assert ("Agent" in tools) is spawns
    assert "WaitAgents" in tools


def test_a_limit_of_zero_leaves_the_root_alone() -> None:
    assert not SPAWNING_TOOLS & set(kept(define(), depth=0, max_depth=0, is_root=True))


def test_the_order_of_the_layers_is_the_documented_one() -> None:
    assert [name for name, _ in LAYERS] == [
        "no sub-agent has it",
        "only shipped definitions get it",
        "not in the background",
        "in disallowedTools",
        "not in tools",
        "read-only",
        "no sandbox",
        "nesting limit",
    ]


def test_an_explanation_names_the_first_layer_that_took_a_tool_away() -> None:
    definition = define(
        ["Read", "Write", "Bash", "Agent", "TeamCreate"], ["Grep", "TeamCreate"], source="x.md", read_only=True
    )
    removed = explain_tools(
        ["Read", "Write", "Bash", "Agent", "Grep", "LS", "TeamCreate", "AskUserQuestion", "Odd"],
        Situation(definition, depth=2, max_depth=2, is_root=True, background=True),
    )
    assert removed == [
        ("Write", "read-only"),
        ("Bash", "no sandbox"),
        ("Agent", "nesting limit"),
        ("Grep", "in disallowedTools"),
        ("LS", "not in tools"),
        ("TeamCreate", "only shipped definitions get it"),
        ("AskUserQuestion", "not in the background"),
        ("Odd", "not in the background"),
    ]


# -- the whole matrix, against a second, plain statement of the rules -------------------------------------

SOURCES = ("shipped", "agents/x.md")
MODES: tuple[PermissionMode, ...] = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "bubble")
BACKGROUND_SAFE = {*FILES, *SHELL, "TodoWrite", "WaitFor", *WEB, *AGENTS, "ExitPlanMode", *SHARED, *MCP}
LISTS: dict[str, tuple[list[str] | None, list[str], set[str]]] = {
    "no lists": (None, [], set(ALL)),
    "nothing": ([], [], set()),
    "some": (
        ["Read", "Bash(git:*)", "Agent", "TeamCreate", "ExitPlanMode"],
        [],
        {"Read", "Bash", "Agent", "ReadAgent", "MergeAgent", "TeamCreate", "ExitPlanMode"},
    ),
    "all but some": (None, ["Bash", "Task", "Board*", "Bash(rm *)"], set(ALL) - {"Bash", "Agent", *BOARD}),
    "both": (["*", "AskUserQuestion"], ["Read", "mcp__*"], set(ALL) - {"Read", *MCP}),
}
"""Per name: `tools`, `disallowedTools`, and what the two leave over of everything."""


def may_have(
    tool: str, source: str, mode: str, read_only: bool, depth: int, background: bool, sandbox: bool, listed: bool
) -> bool:
    forbidden = [
        depth > 0 and tool in ROOT_ONLY and not (tool == "ExitPlanMode" and mode == "plan"),
        source != "shipped" and tool in ("EnterPlanMode", "TeamCreate", "TeamDelete"),
        background and tool not in BACKGROUND_SAFE,
        not listed,
        read_only and tool in ("Write", "Edit", "NotebookEdit"),
        (read_only or mode == "plan") and not sandbox and tool in ("Bash", "BashOutput", "KillShell"),
        depth >= 2 and tool in ("Agent", "TeamCreate"),
    ]
    return not any(forbidden)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lists", sorted(LISTS))
def test_the_whole_matrix_of_situations(lists: str, mode: PermissionMode) -> None:
    tools, disallowed, listed = LISTS[lists]
    both = (False, True)
    for source, read_only, depth, background, sandbox, inherited in itertools.product(
        SOURCES, both, (0, 1, 2, 3), both, both, both
    ):
        own: PermissionMode = "default" if inherited else mode
        definition = define(tools, disallowed, source=source, read_only=read_only, permission_mode=own)
        expected = [
            tool for tool in ALL if may_have(tool, source, mode, read_only, depth, background, sandbox, tool in listed)
        ]
        assert expected == kept(
            definition,
            depth=depth,
            is_root=depth == 0,
            background=background,
            mode=mode if inherited else None,
            sandbox=sandbox,
        )


# -- what each shipped type ends up with ------------------------------------------------------------------

COLUMNS = ("Bash", "Read", "Write", "Edit", "Glob", "Grep", "LS", "TodoWrite", "Agent")
SHIPPED_MATRIX = {
    # bash, read, write, edit, glob, grep, list, todo, agent; "s": only in a sandbox
    "answer": "---------",
    "build": "+++++++++",
    "improver": "+++++++--",
    "general-purpose": "+++++++++",
    "worker": "+++++++++",
    "explore": "s+--+++--",
    "plan": "s+--++++-",
    "code-reviewer": "s+--++++-",
    "verification": "s+--++++-",
    "researcher": "-+--++++-",
    "coordinator": "--------+",
    "flow-planner": "-+--+++--",
}


def test_the_matrix_of_the_shipped_types_is_complete(tmp_path: Path) -> None:
    assert set(SHIPPED_MATRIX) == set(load_catalogue(None, tmp_path).definitions)


@pytest.mark.parametrize("sandbox", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("name", sorted(SHIPPED_MATRIX))
def test_each_shipped_type_ends_up_with_its_tools(
    name: str, background: bool, depth: int, sandbox: bool, tmp_path: Path
) -> None:
    definition = load_catalogue(None, tmp_path).get(name)
    tools = kept(definition, depth=depth, is_root=depth == 0, background=background, sandbox=sandbox)
    for tool, mark in zip(COLUMNS, SHIPPED_MATRIX[name], strict=True):
        expected = mark == "+" or (mark == "s" and sandbox)
        assert (tool in tools) is (expected and not (tool == "Agent" and depth == 2)), tool


def test_the_coordinator_is_held_to_its_own_kind_of_tools(tmp_path: Path) -> None:
    coordinator = load_catalogue(None, tmp_path).get("coordinator")
    assert set(kept(coordinator, depth=0, is_root=True)) == {*AGENTS, *SHARED}


# -- laws -------------------------------------------------------------------------------------------------

entries = st.sampled_from([*ALL, "*", "mcp__*", "Bash(git log:*)", "Task", "Team*", "[A-Z]*"]) | st.text(max_size=8)
lists = st.lists(entries, max_size=8)
definitions = st.builds(
    define,
    st.none() | lists,
    lists,
    source=st.sampled_from(SOURCES),
    read_only=st.booleans(),
    permission_mode=st.sampled_from(MODES),
)
situations = st.fixed_dictionaries(
    {
        "depth": st.integers(0, 4),
        "max_depth": st.integers(0, 4),
        "is_root": st.booleans(),
        "background": st.booleans(),
        "mode": st.none() | st.sampled_from(MODES),
        "sandbox": st.booleans(),
    }
)
offers = st.lists(st.sampled_from(ALL) | st.text(max_size=8), max_size=30)


@given(offers, definitions, situations)
def test_the_result_is_a_part_of_what_is_available_in_its_order(
    available: list[str], definition: AgentDefinition, situation: dict[str, Any]
) -> None:
    tools = filter_tools(available, Situation(definition, **situation))
    rest = iter(available)
    assert all(tool in rest for tool in tools)
    removed = [tool for tool, _ in explain_tools(available, Situation(definition, **situation))]
    assert sorted([*tools, *removed]) == sorted(available)


@given(offers, definitions, situations)
def test_no_list_brings_back_what_a_layer_or_the_depth_took_away(
    available: list[str], definition: AgentDefinition, situation: dict[str, Any]
) -> None:
    unlisted = definition.model_copy(update={"tools": None, "disallowed_tools": []})
    tools = set(filter_tools(available, Situation(definition, **situation)))
    assert tools <= set(filter_tools(available, Situation(unlisted, **situation)))
    if situation["depth"] >= situation["max_depth"]:
        assert not tools & SPAWNING_TOOLS
    if definition.read_only:
        assert not tools & WRITING_TOOLS
    mode = situation["mode"] or definition.permission_mode
    if (definition.read_only or mode == "plan") and not situation["sandbox"]:
        assert not tools & SHELL_TOOLS
    if not situation["is_root"]:
        assert tools & ROOT_TOOLS <= ({"ExitPlanMode"} if mode == "plan" else set())


@given(offers, definitions, situations)
def test_filtering_twice_changes_nothing(
    available: list[str], definition: AgentDefinition, situation: dict[str, Any]
) -> None:
    once = filter_tools(available, Situation(definition, **situation))
    assert filter_tools(once, Situation(definition, **situation)) == once
