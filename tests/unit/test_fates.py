"""The table of other systems' files and keys says the truth: each one that is applied changes what a job is given.

Tests of swarm/capabilities/variables/step.py, swarm/client/fates.py, swarm/client/preferred.py, swarm/core/secrets.py,
swarm/definitions/foreign_keys.py, swarm/permissions/preferences.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm.client.fates import list_entries
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.project import Project, gather
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.foreign_keys import FILES, KEYS
from swarm.permissions.preferences import load_preferences

HOOKS = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
SHOP = {"shop": {"source": {"source": "directory", "path": "shop"}}}
AGENT = {"other": {"description": "d", "prompt": "p"}}
FILE_OF = {
    "claude": ".claude/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "codex": ".codex/config.toml",
}
EXAMPLES: dict[str, dict[str, tuple[dict[str, Any], Any]]] = {
    "claude": {
        "permissions": ({}, {"deny": ["Bash(x)"]}),
        "mcpServers": ({}, {"a": {"command": "x"}}),
        "disabledMcpjsonServers": ({}, ["mine"]),
        "deniedMcpServers": ({}, [{"serverName": "mine"}]),
        "disableAllHooks": ({"hooks": HOOKS}, True),
        "claudeMdExcludes": ({}, ["**/CLAUDE.md"]),
        "hooks": ({}, HOOKS),
        "availableModels": ({}, ["haiku"]),
        "skillOverrides": ({}, {"mine": "off"}),
        "env": ({}, {"GREETING": "hello"}),
        "model": ({}, "haiku"),
        "agent": ({}, "explore"),
        "effortLevel": ({}, "low"),
        "enabledPlugins": ({"extraKnownMarketplaces": SHOP}, {"kit@shop": True}),
        "extraKnownMarketplaces": ({"enabledPlugins": {"kit@shop": True}}, SHOP),
    },
    "opencode": {
        "permission": ({}, {"bash": {"x": "deny"}}),
        "permissions": ({}, [{"action": "shell", "resource": "x", "effect": "deny"}]),
        "tools": ({"agent": AGENT}, {"write": False}),
        **dict.fromkeys(("agent", "agents", "mode"), ({}, AGENT)),
        "mcp": ({}, {"a": {"type": "local", "command": ["x"]}}),
        **dict.fromkeys(("command", "commands"), ({}, {"c": {"template": "t"}})),
        "instructions": ({}, ["~/texts/*.md"]),
        "skills": ({}, {"paths": ["~/texts"]}),
        "model": ({}, "anthropic/claude-haiku-5-5"),
        "default_agent": ({}, "explore"),
    },
    "codex": {
        "agents": ({}, {"other": {"description": "d", "developer_instructions": "p"}}),
        "mcp_servers": ({}, {"a": {"command": "x"}}),
        "hooks": ({}, HOOKS),
        "profile": ({"profiles": {"p": {"sandbox_mode": "read-only"}}}, "p"),
        "profiles": ({"profile": "p"}, {"p": {"sandbox_mode": "read-only"}}),
        "features": ({"hooks": HOOKS}, {"hooks": False}),
        "sandbox_mode": ({}, "read-only"),
        "approval_policy": ({}, "untrusted"),
        "model": ({}, "claude-haiku-5-5"),
        "model_reasoning_effort": ({}, "low"),
        "developer_instructions": ({}, "be kind"),
        "plugins": ({}, {'"kit@shop"': {"enabled": True}}),
    },
}
"""For each applied key: other keys that it needs, and a value of it."""
SKILL = "---\nname: one\ndescription: d\n---\nbody\n"
TYPE = "---\nname: one\ndescription: d\n---\nbody\n"
CONTENTS = {
    "settings.json": {"permissions": {"deny": ["Bash(x)"]}},
    "settings.local.json": {"permissions": {"deny": ["Bash(x)"]}},
    ".mcp.json": {"mcpServers": {"a": {"command": "x"}}},
    **{name: {"agent": AGENT} for name in ("opencode.json", "opencode.jsonc")},
    **dict.fromkeys(("agent/one.md", "agents/one.md", "mode/one.md", "modes/one.md"), TYPE),
    **dict.fromkeys(("command/one.md", "commands/one.md", "rules/one.md"), "do it"),
    **dict.fromkeys(("skill/one/SKILL.md", "skills/one/SKILL.md"), SKILL),
    **dict.fromkeys(("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md"), "be kind"),
    "config.toml": 'developer_instructions = "be kind"',
    "agents/one.toml": 'name = "one"\ndescription = "d"\ndeveloper_instructions = "p"',
    "rules/one.rules": 'prefix_rule(pattern=["x"], decision="forbidden")',
    "hooks.json": {"hooks": HOOKS},
}
"""What makes a known file, or a file in a known folder, mean something."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    workspace, home = tmp_path / "home/w", tmp_path / "home"
    workspace.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return workspace, home


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state")


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def as_toml(content: dict[str, Any], name: str = "") -> str:
    plain = [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict)]
    tables = [
        f"[{name}{key}]\n{as_toml(value, f'{name}{key}.')}" for key, value in content.items() if isinstance(value, dict)
    ]
    return (
        "\n".join((*plain, *tables))
        if name != "hooks."
        else "Stop = [{hooks = [{type = 'command', command = 'true'}]}]"
    )


def given_to_jobs(project: Project) -> tuple[object, ...]:
    """All of a project that a job, or the question for trust, takes from it."""
    chosen = project.preferences.model_dump(exclude={"problems"})
    permissions = project.permissions
    return (
        *(project.catalogue_text, project.catalogue.grants, project.documents, chosen, project.grants),
        *(permissions.rules, permissions.default_mode, project.configured.servers, project.configured.untrusted),
    )


@pytest.mark.parametrize(
    ("system", "key"),
    [(system, key) for system, keys in KEYS.items() for key, one in keys.items() if one.fate != "not applied"],
)
def test_an_applied_key_changes_what_a_job_is_given(
    places: tuple[Path, Path], settings: Settings, system: str, key: str
) -> None:
    workspace, home = places
    write(workspace / ".mcp.json", {"mcpServers": {"mine": {"command": "x"}}})
    write(workspace / "CLAUDE.md", "be kind")
    write(home / ".claude/skills/mine/SKILL.md", SKILL.replace("one", "mine"))
    write(home / "texts/one.md", "be brave")
    write(home / "texts/one/SKILL.md", SKILL)
    write(
        home / "shop/.claude-plugin/marketplace.json", {"name": "shop", "plugins": [{"name": "kit", "source": "./kit"}]}
    )
    write(home / "shop/kit/agents/one.md", TYPE)
    if system == "codex":
        write(home / ".codex/plugins/cache/shop/kit/1/agents/one.md", TYPE)
        write(home / ".codex/plugins/cache/shop/kit/1/.codex-plugin/plugin.json", {"name": "kit"})
    base, value = EXAMPLES[system][key]
    form = as_toml if system == "codex" else json.dumps
    file = home / FILE_OF[system]
    write(file, form(base))
    before = given_to_jobs(gather(workspace, settings))
    write(file, form({**base, key: value}))
    project = gather(workspace, settings)
    assert given_to_jobs(project) != before, [str(problem) for problem in project.problems]


@pytest.mark.parametrize(
    "name",
    [
        f"{folder}/{name}".lstrip("/")
        for folder, files in FILES.items()
        for name, one in files.items()
        if one.fate == "applied"
    ],
)
def test_an_applied_file_changes_what_a_job_is_given(places: tuple[Path, Path], settings: Settings, name: str) -> None:
    workspace, _ = places
    before = given_to_jobs(gather(workspace, settings))
    last = name.rpartition("/")[2]
    for path, content in CONTENTS.items():
        if path.split("/")[0] == last:
            write(workspace / name / path.partition("/")[2] if "/" in path else workspace / name, content)
    project = gather(workspace, settings)
    assert given_to_jobs(project) != before, [str(problem) for problem in project.problems]
    shown = {
        entry.place: entry.fate.fate
        for entry in list_entries(project, workspace, workspace.parent)
        if entry.kind == "file"
    }
    assert shown[name] == "applied"


def test_each_entry_of_each_kind_has_a_fate(places: tuple[Path, Path], settings: Settings) -> None:
    workspace, home = places
    write(home / ".claude/settings.json", {"permissions": {"deny": ["Bash(rm:*)", "Bash(x"]}})
    write(workspace / ".claude/settings.json", {"permissions": {"allow": ["Bash(make)"]}, "model": "haiku"})
    write(workspace / ".claude/brand-new.json", "{}")
    write(workspace / ".mcp.json", {"mcpServers": {"mine": {"command": "x"}}})
    write(home / ".config/opencode/opencode.json", "{nonsense")
    told = list_entries(gather(workspace, settings), workspace, home)
    fates = {(one.kind, one.name): (one.fate.fate, one.fate.guards) for one in told if one.kind in ("rule", "server")}
    assert fates == {
        ("rule", "deny Bash(rm:*)"): ("applied", False),
        ("rule", "allow Bash(make)"): ("not applied", False),
        ("server", "mine"): ("not applied", False),
    }
    assert ("key", "model haiku", "not applied") in {(one.kind, one.name, one.fate.fate) for one in told}
    problems = {one.place: one.fate.guards for one in told if one.kind == "problem"}
    assert problems == {"~/.claude/settings.json": True, "~/.config/opencode/opencode.json:1": True}
    assert next(one for one in told if one.place == ".claude/brand-new.json").fate.told == "unknown here"


def test_choices_of_a_workspace_need_trust_and_its_limits_do_not(places: tuple[Path, Path], settings: Settings) -> None:
    workspace, home = places
    write(home / ".claude/settings.json", {"model": "fable", "effortLevel": "low", "env": {"A": "own", "B": "1"}})
    write(
        workspace / ".claude/settings.json",
        {
            "model": "haiku",
            "agent": "explore",
            "env": {"A": "theirs", "API_KEY": "x", "GIT_PAGER": "sh", "DB": "pg://u:secret@h"},
            "availableModels": ["opus", "fable"],
            "skillOverrides": {"dep": "user-invocable-only"},
        },
    )
    write(workspace / ".claude/skills/dep/SKILL.md", SKILL.replace("one", "deploy"))
    found, trusting = (load_preferences(workspace, home, trusted=trusted) for trusted in (False, True))
    assert (found.model, found.agent, found.variables) == ("fable", "", {"A": "own", "B": "1"})
    assert (trusting.model, trusting.agent, trusting.variables) == ("haiku", "explore", {"A": "theirs", "B": "1"})
    assert found.models == (("opus", "fable"),)
    assert [grant.text for grant in found.grants] == ["model haiku", "agent explore", "env {'A': 'theirs'}"]
    assert "API_KEY, DB, GIT_PAGER left out" in " ".join(map(str, found.problems))
    prepared = prepare_order(Order(prompt="x", workspace=workspace), settings)
    assert prepared.spec.model == "claude-fable-5-2" and prepared.spec.definition.effort == "low"
    assert not prepared.project.part("skills").skills.for_model()
    assert json.loads(prepared.documents["variables"])["values"] == {"A": "own", "B": "1"}
    with pytest.raises(ConfigurationError, match="claude-haiku-5-5 is not among `availableModels` of settings"):
        prepare_order(Order(prompt="x", workspace=workspace, model="haiku"), settings)
    denied = {rule.spec for rule in prepared.rules.rules if rule.action == "deny"}
    assert {"model:haiku", "model:sonnet", "model:*claude-haiku-5-5"} <= denied and "model:opus" not in denied
    write(home / ".claude/settings.json", {"model": "gpt-9", "agent": "nobody"})
    told = " ".join(map(str, gather(workspace, settings).problems))
    assert "the model 'gpt-9' is not available here" in told and "no job can start with 'nobody'" in told
    assert prepare_order(Order(prompt="x", workspace=workspace), settings).spec.model == "claude-opus-5-5"
    explicit = settings.model_copy(update={"model": "fable"})
    assert prepare_order(Order(prompt="x", workspace=workspace), explicit).spec.model == "claude-fable-5-2"
