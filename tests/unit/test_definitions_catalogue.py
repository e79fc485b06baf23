"""The catalogue: what is shipped, who wins, what is hidden, and that changes of files are seen.

Tests of swarm/core/memo.py, swarm/definitions/catalogue.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from swarm.core.errors import UnknownDefinition
from swarm.definitions.catalogue import Catalogue, check_path, load_catalogue
from swarm.definitions.model import AgentDefinition
from tests.waiting import wait_for

SHIPPED = {
    "answer",
    "general-purpose",
    "explore",
    "plan",
    "code-reviewer",
    "build",
    "coordinator",
    "worker",
    "researcher",
    "verification",
    "flow-planner",
    "improver",
}


def write(path: Path, name: str, *, description: str = "d", extra: str = "", body: str = "Work.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n{extra}---\n{body}\n")
    return path


def write_role(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'name = "{name}"\ndescription = "d"\ndeveloper_instructions = "Work."\n')
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


# -- what is shipped --------------------------------------------------------------------------------------


def test_the_shipped_types_are_there_and_without_fault(home: Path) -> None:
    catalogue = load_catalogue(None, home)
    assert set(catalogue.definitions) == SHIPPED
    assert catalogue.problems == [] and catalogue.shadowed == []
    for definition in catalogue.definitions.values():
        assert definition.source == "shipped" and definition.warnings == []
        assert 800 < len(definition.prompt) < 4_000


@pytest.mark.parametrize("name", ["explore", "plan", "code-reviewer", "researcher", "verification"])
def test_types_that_only_read_have_no_tool_that_writes(home: Path, name: str) -> None:
    definition = load_catalogue(None, home).get(name)
    assert definition.read_only
    assert definition.tools is not None
    assert {"Read", "Glob", "Grep", "LS"} <= set(definition.tools)
    assert not {"Write", "Edit", "NotebookEdit", "Agent"} & set(definition.tools)


def test_the_coordinator_has_no_tool_for_files_or_commands(home: Path) -> None:
    assert load_catalogue(None, home).get("coordinator").tools == [
        *("Agent", "SendMessage", "StopAgent", "WaitAgents", "ListAgents", "Scratchpad*", "Board*")
    ]


def test_roots_and_children_are_chosen_by_mode(home: Path) -> None:
    catalogue = load_catalogue(None, home)
    assert [item.name for item in catalogue.for_spawning()] == [
        *("code-reviewer", "explore", "general-purpose", "plan", "researcher", "verification", "worker")
    ]
    primary = [name for name, definition in catalogue.definitions.items() if definition.mode != "subagent"]
    assert sorted(primary) == [
        *(
            "answer",
            "build",
            "code-reviewer",
            "coordinator",
            "flow-planner",
            "general-purpose",
            "improver",
            "plan",
            "verification",
        )
    ]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(home: Path) -> None:
    with pytest.raises(UnknownDefinition, match=r"code-reviewer.*explore.*did you mean 'explore'") as caught:
        load_catalogue(None, home).get("explorer")
    assert set(caught.value.known) == SHIPPED


def test_a_catalogue_travels_as_json(home: Path, project: Path) -> None:
    write(project / ".claude/agents/mine.md", "mine", extra="tools: Read\n")
    (project / ".claude/agents/bad.md").write_text("nothing")
    catalogue = load_catalogue(project, home, trusted=True)
    assert len(catalogue.problems) == 1
    assert Catalogue.model_validate_json(catalogue.model_dump_json()) == catalogue


# -- who wins ---------------------------------------------------------------------------------------------


def test_sources_win_in_the_documented_order(home: Path, project: Path) -> None:
    workspace = project / "packages" / "web"
    workspace.mkdir(parents=True)
    places = [
        write(workspace / ".swarm/agents/x.md", "x"),
        write(workspace / ".claude/agents/x.md", "x"),
        write(project / ".swarm/agents/x.md", "x"),
        write(project / ".claude/agents/x.md", "x"),
        write(project / ".opencode/agent/x.md", "x"),
        write_role(project / ".codex/agents/x.toml", "x"),
        write(home / ".swarm/agents/x.md", "x"),
        write(home / ".config/swarm/agents/x.md", "x"),
        write(home / ".claude/agents/x.md", "x"),
        write(home / ".config/opencode/agents/x.md", "x"),
        write_role(home / ".codex/agents/x.toml", "x"),
    ]
    for index, winner in enumerate(places):
        catalogue = load_catalogue(workspace, home, trusted=True)
        assert catalogue.get("x").source == str(winner)
        assert [item.source for item in catalogue.shadowed] == [str(place) for place in places[index + 1 :]]
        assert all(item.hidden_by == str(winner) for item in catalogue.shadowed)
        winner.unlink()
    assert "x" not in load_catalogue(workspace, home, trusted=True).definitions


def test_a_project_can_replace_a_shipped_type_and_this_is_shown(home: Path, project: Path) -> None:
    path = write(project / ".claude/agents/explore.md", "explore")
    catalogue = load_catalogue(project, home, trusted=True)
    assert catalogue.get("explore").source == str(path)
    assert [(item.name, item.source, item.hidden_by) for item in catalogue.shadowed] == [
        ("explore", "shipped", str(path))
    ]


def test_nothing_above_the_repository_is_read(home: Path, project: Path) -> None:
    write(project.parent / ".claude/agents/planted.md", "planted")
    assert "planted" not in load_catalogue(project, home, trusted=True).definitions


def test_without_a_repository_only_the_workspace_is_read(home: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "loose" / "folder"
    write(workspace / ".claude/agents/mine.md", "mine")
    write(workspace.parent / ".claude/agents/planted.md", "planted")
    definitions = load_catalogue(workspace, home, trusted=True).definitions
    assert "mine" in definitions and "planted" not in definitions


def test_a_home_that_is_also_the_project_gives_each_file_once(home: Path) -> None:
    write(home / ".claude/agents/x.md", "x")
    (home / ".claude/agents/bad.md").write_text("nothing")
    catalogue = load_catalogue(home, home, trusted=True)
    assert catalogue.shadowed == [] and len(catalogue.problems) == 1


def test_one_bad_file_keeps_no_other_from_loading(home: Path, project: Path) -> None:
    write(project / ".claude/agents/good.md", "good")
    (project / ".claude/agents/bad.md").write_text("---\nname: [bad, worse]\n---\nx")
    (project / "opencode.json").write_text("{")
    (project / ".codex").mkdir()
    (project / ".codex/config.toml").write_text("= 1")
    catalogue = load_catalogue(project, home, trusted=True)
    assert "good" in catalogue.definitions
    assert sorted(Path(problem.path).name for problem in catalogue.problems) == [
        "bad.md",
        "config.toml",
        "opencode.json",
    ]


def test_folders_inside_a_folder_of_agents_are_read_too(home: Path, project: Path) -> None:
    write(project / ".claude/agents/team/web/deep.md", "deep")
    assert "deep" in load_catalogue(project, home, trusted=True).definitions


def test_an_agent_of_opencode_is_called_as_its_path(home: Path, project: Path) -> None:
    path = project / ".opencode/agents/review/security.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\ndescription: d\n---\nWork.\n")
    definition = load_catalogue(project, home, trusted=True).get("review-security")
    assert definition.warnings == ["the name 'review/security' is written 'review-security' here"]


def test_a_disabled_name_hides_weaker_sources_and_is_shown(home: Path, project: Path) -> None:
    write(home / ".claude/agents/mine.md", "mine")
    config = project / "opencode.json"
    config.write_text('{"agent": {"mine": {"disable": true}, "worker": {"disable": true}}}')
    catalogue = load_catalogue(project, home, trusted=True)
    assert not {"mine", "worker"} & set(catalogue.definitions)
    assert {(item.name, item.hidden_by) for item in catalogue.shadowed} == {
        ("mine", str(config)),
        ("worker", str(config)),
    }


def test_a_name_that_a_file_switches_off_is_refused_with_the_file(home: Path, project: Path) -> None:
    config = project / "opencode.json"
    config.write_text('{"agent": {"build": {"disable": true}}}')
    with pytest.raises(UnknownDefinition, match=r"opencode\.json switches it off"):
        load_catalogue(project, home, trusted=True).get("build")


@pytest.mark.parametrize("name", ["README.md", "readme-tools.md", "INDEX.md", "CLAUDE.md"])
def test_documentation_among_the_agents_is_passed_over(home: Path, project: Path, name: str) -> None:
    for folder in (".claude/agents", ".opencode/agent"):
        path = project / folder / name
        path.parent.mkdir(parents=True)
        path.write_text("# About these agents\n")
    catalogue = load_catalogue(project, home, trusted=True)
    assert catalogue.problems == [] and set(catalogue.definitions) == SHIPPED
    written = write(project / ".claude/agents" / name, "x")
    assert load_catalogue(project, home, trusted=True).get("x").source == str(written)


def test_the_modes_of_older_configurations_are_primary_agents(home: Path, project: Path) -> None:
    path = project / ".opencode/mode/architect.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\ndescription: d\n---\nDesign.\n")
    assert load_catalogue(project, home, trusted=True).get("architect").mode == "primary"
    assert check_path(path).definitions == [load_catalogue(project, home, trusted=True).get("architect")]


def test_a_role_file_that_the_configuration_names_is_not_an_agent_of_its_own(home: Path, project: Path) -> None:
    write_role(project / ".codex/agents/part.toml", "part")
    write_role(project / ".codex/agents/whole.toml", "whole")
    (project / ".codex/config.toml").write_text('[agents.role]\ndescription = "d"\nconfig_file = "agents/part.toml"\n')
    definitions = load_catalogue(project, home, trusted=True).definitions
    assert {"role", "whole"} <= set(definitions) and "part" not in definitions


def test_a_project_cannot_put_a_file_from_outside_into_a_prompt_but_the_person_can(home: Path, project: Path) -> None:
    secret = home / "secret.txt"
    secret.write_text("the secret")
    config = json.dumps({"agent": {"x": {"description": "d", "prompt": f"{{file:{secret}}}"}}})
    (project / "opencode.json").write_text(config)
    catalogue = load_catalogue(project, home, trusted=True)
    assert "x" not in catalogue.definitions and "outside" in catalogue.problems[0].message
    (project / "opencode.json").unlink()
    (project / "inside.md").symlink_to(secret)
    (project / "opencode.json").write_text('{"agent": {"x": {"description": "d", "prompt": "{file:./inside.md}"}}}')
    assert "x" not in load_catalogue(project, home, trusted=True).definitions
    (home / ".config/opencode").mkdir(parents=True)
    (home / ".config/opencode/opencode.json").write_text(config)
    assert load_catalogue(None, home).get("x").prompt == "the secret"


def test_the_configuration_folder_of_the_environment_is_honoured(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write(tmp_path / "config/swarm/agents/x.md", "x")
    write(home / ".claude/agents/y.md", "y")
    assert {"x", "y"} <= set(load_catalogue(None).definitions)


# -- changes ----------------------------------------------------------------------------------------------


def test_a_changed_a_new_and_a_removed_file_are_seen_without_a_restart(home: Path, project: Path) -> None:
    path = write(project / ".claude/agents/x.md", "x", description="first")
    assert load_catalogue(project, home, trusted=True).get("x").description == "first"
    write(path, "x", description="second, longer")
    assert load_catalogue(project, home, trusted=True).get("x").description == "second, longer"
    other = write(project / ".claude/agents/y.md", "y")
    assert "y" in load_catalogue(project, home, trusted=True).definitions
    other.unlink()
    assert "y" not in load_catalogue(project, home, trusted=True).definitions


def test_an_unchanged_file_is_not_read_again(home: Path, project: Path) -> None:
    path = write(project / ".claude/agents/x.md", "x")

    def load() -> AgentDefinition:
        return load_catalogue(project, home, trusted=True).get("x")

    wait_for("the new file has settled", lambda: load() is load())
    first = load()
    os.utime(path)
    assert load() is not first


def test_a_changed_prompt_file_is_seen_although_its_configuration_is_unchanged(home: Path, project: Path) -> None:
    prompt = project / "prompt.md"
    prompt.write_text("first")
    (project / "opencode.json").write_text('{"agent": {"x": {"description": "d", "prompt": "{file:prompt.md}"}}}')
    assert load_catalogue(project, home, trusted=True).get("x").prompt == "first"
    prompt.write_text("second, longer")
    assert load_catalogue(project, home, trusted=True).get("x").prompt == "second, longer"


# -- checking a path --------------------------------------------------------------------------------------


def test_a_project_a_system_folder_and_a_bare_folder_can_be_checked(project: Path) -> None:
    write(project / ".claude/agents/x.md", "x")
    bare = project / "drafts"
    write(bare / "y.md", "y")
    write_role(bare / "z.toml", "z")
    (bare / "README.md").write_text("# Drafts\n")
    (bare / "notes.md").write_text("# Notes\n")
    assert [item.name for item in check_path(project).definitions] == ["x"]
    assert [item.name for item in check_path(project / ".claude").definitions] == ["x"]
    result = check_path(bare)
    assert [item.name for item in result.definitions] == ["y", "z"]
    assert [Path(problem.path).name for problem in result.problems] == ["notes.md"]
    assert str(result.problems[0]).startswith(f"{bare / 'notes.md'}:1: it has no frontmatter. Begin")


# -- one configuration of OpenCode ------------------------------------------------------------------------


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_agent_of_opencode_is_its_entry_with_its_file_over_it_key_by_key(home: Path, project: Path) -> None:
    put(project / "prompts/r.md", "Review.")
    put(
        project / "opencode.json",
        """{"agent": {"reviewer": {"description": "of the entry", "model": "anthropic/claude-opus-5-5", "steps": 5,
            "permission": {"edit": "deny", "bash": {"*": "deny", "git log*": "allow"}}, "prompt": "{file:./prompts/r.md}"}}}""",
    )
    put(project / ".opencode/opencode.jsonc", '{"agent": {"reviewer": {"steps": 6, "mode": "subagent"}}}')
    path = put(
        project / ".opencode/agent/reviewer.md",
        "---\ndescription: of the file\nmaxSteps: 7\npermission: {bash: {'git diff*': allow}}\n---\n",
    )
    catalogue = load_catalogue(project, home)
    found = catalogue.get("reviewer")
    assert (found.source, found.description, found.model) == (str(path), "of the file", "claude-opus-5-5")
    assert (found.prompt, found.mode, found.max_turns) == ("Review.", "subagent", 7)
    assert {"Edit", "Write"} <= set(found.disallowed_tools) and found.warnings == [] == catalogue.shadowed
    assert [entry for entry in found.permission if entry[0] == "bash"] == [
        ("bash", "*", "deny"),
        ("bash", "git log*", "allow"),
        ("bash", "git diff*", "allow"),
    ]
    put(project / "prompts/r.md", "Review it all.")
    assert load_catalogue(project, home).get("reviewer").prompt == "Review it all."
    put(project / "opencode.json", '{"agent": {"reviewer": {"disable": true}}}')
    assert "reviewer" not in load_catalogue(project, home).definitions
    put(path, "---\ndescription: d\n---\nIts own prompt.\n")
    put(project / "opencode.json", '{"agent": {"reviewer": {"prompt": "x", "tools": {"bash": false}}}}')
    found = load_catalogue(project, home).get("reviewer")
    assert found.prompt == "Its own prompt." and found.disallowed_tools == ["Bash"]


def test_what_the_configuration_says_for_all_holds_for_agents_of_files_too(home: Path, project: Path) -> None:
    put(
        project / "opencode.json",
        '{"tools": {"write": false}, "permission": {"bash": {"*": "ask", "rm *": "deny"}}, "agent": {"entry": {"prompt": "x"}}}',
    )
    put(project / ".opencode/agent/file.md", "---\ndescription: d\npermission: {bash: {'git *': allow}}\n---\nWork.\n")
    put(project / ".opencode/agent/free.md", "---\ndescription: d\ntools: {write: true, bash: true}\n---\nWork.\n")
    catalogue = load_catalogue(project, home)
    for name in ("entry", "file"):
        assert {"Edit", "Write"} <= set(catalogue.get(name).disallowed_tools), name
    assert catalogue.get("file").permission[-3:] == [
        ("bash", "*", "ask"),
        ("bash", "rm *", "deny"),
        ("bash", "git *", "allow"),
    ]
    assert catalogue.get("free").disallowed_tools == []


@pytest.mark.parametrize("name", ["oh-my-opencode.json", "package.json", "agents.jsonc", "dcp.json"])
def test_only_files_with_opencodes_own_names_are_its_configuration(home: Path, project: Path, name: str) -> None:
    put(project / ".opencode" / name, '{"agent": {"explore": {"prompt": "x"}, "other": {"prompt": "x"}}}')
    catalogue = load_catalogue(project, home, trusted=True)
    assert set(catalogue.definitions) == SHIPPED and catalogue.get("explore").source == "shipped"


def test_a_configuration_that_cannot_be_read_bounds_its_agents_whole(home: Path, project: Path) -> None:
    put(project / "opencode.json", '{"permission": {"bash": "perhaps"}}')
    put(project / ".opencode/agent/file.md", "---\ndescription: d\n---\nWork.\n")
    catalogue = load_catalogue(project, home)
    assert catalogue.get("file").tools == [] and "'perhaps'" in str(catalogue.problems)


# -- Codex, and names -------------------------------------------------------------------------------------


def test_what_codex_says_for_all_roles_holds_where_a_role_says_nothing_else(home: Path, project: Path) -> None:
    put(
        project / ".codex/config.toml",
        'sandbox_mode = "read-only"\napproval_policy = "untrusted"\n[agents]\nmax_depth = 1\n'
        '[agents.tight]\ndescription = "d"\n'
        '[agents.free]\ndescription = "d"\nconfig_file = "free.toml"\n',
    )
    put(project / ".codex/free.toml", 'sandbox_mode = "workspace-write"\napproval_policy = "on-request"\n')
    write_role(project / ".codex/agents/file.toml", "file")
    catalogue = load_catalogue(project, home)
    for name in ("tight", "file"):
        assert (catalogue.get(name).read_only, catalogue.get(name).permission_mode) == (True, "bubble"), name
    assert (catalogue.get("free").read_only, catalogue.get("free").permission_mode) == (False, "default")
    assert catalogue.max_depth == 1
    put(project / ".codex/config.toml", '[agents]\nmax_depth = "deep"\n')
    assert not load_catalogue(project, home).get("file").read_only and load_catalogue(project, home).max_depth is None


def test_other_systems_names_of_shipped_types_mean_them_unless_there_is_such_a_type(home: Path, project: Path) -> None:
    catalogue = load_catalogue(project, home)
    assert (catalogue.get("reviewer").name, catalogue.get("general").name) == ("code-reviewer", "general-purpose")
    write(project / ".claude/agents/reviewer.md", "reviewer")
    assert load_catalogue(project, home).get("reviewer").name == "reviewer"


def test_a_name_is_found_whatever_the_case_of_its_letters(home: Path, project: Path) -> None:
    catalogue = load_catalogue(project, home)
    assert catalogue.get("Explore").name == "explore" and catalogue.get_for_spawning("PLAN").name == "plan"
    write(project / ".claude/agents/mine.md", "Mine")
    write(project / ".claude/agents/other.md", "mine")
    both = load_catalogue(project, home)
    assert both.get("Mine").name == "Mine" and both.find_name("MINE") is None, "it could be either"


def test_who_names_an_unknown_type_is_told_those_that_can_be_started() -> None:
    catalogue = load_catalogue(None)
    for name in ("wizard", "build", "coordinator"):
        with pytest.raises(UnknownDefinition) as caught:
            catalogue.get_for_spawning(name)
        told = str(caught.value).partition("known types are: ")[2]
        assert "explore" in told and not {"build", "coordinator"} & set(told.replace(";", ",").split(", "))
    assert catalogue.get_for_spawning("explore").name == "explore"
