"""Which plugins are found in people's and workspaces' files, what each is read as, and what a hostile one gets.

Tests of swarm/definitions/plugins/enabled.py, swarm/definitions/plugins/manifest.py, swarm/definitions/plugins/marketplaces.py,
swarm/definitions/plugins/model.py, swarm/definitions/plugins/known.py, swarm/definitions/plugins/content.py,
swarm/definitions/plugins/words.py, swarm/definitions/carried_files.py,
swarm/capabilities/plugins/parts.py, swarm/runtime/plugins.py.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from swarm.capabilities.hooks.files import find_hooks
from swarm.capabilities.plugins.parts import count_parts, list_parts
from swarm.capabilities.skills.model import Package
from swarm.capabilities.skills.places import load_skills
from swarm.core.settings import Settings
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.mcp.reader import load_servers
from swarm.definitions.mentions import split_address
from swarm.definitions.plugins.content import MAX_BUNDLE_BYTES
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.installed import PinnedPlugin, write_pinned
from swarm.definitions.plugins.manifest import read_plugin
from swarm.definitions.plugins.marketplaces import read_marketplace
from swarm.definitions.plugins.model import PluginBundle, Plugins
from swarm.definitions.sources import Unusable
from swarm.runtime.plugins import place_plugins, plugins_folder

AGENT = "---\nname: {}\ndescription: Does.\n{}---\nDo it in ${{CLAUDE_PLUGIN_ROOT}}."
HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/guard"}]}]}
SERVERS = {"mcpServers": {"db": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/db.py"]}}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def write(folder: Path, path: str, content: Any) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def make_plugin(folder: Path, manifest: dict[str, Any] | None = None, place: str = ".claude-plugin") -> Path:
    write(folder, f"{place}/plugin.json", {"name": "kit", "version": "1.0.0"} if manifest is None else manifest)
    write(folder, "agents/helper.md", AGENT.format("helper", "permissionMode: plan\nhooks: {}\n"))
    write(folder, "agents/review/deep.md", AGENT.format("deep", ""))
    write(folder, "skills/pdf/SKILL.md", "---\nname: Other\ndescription: Fills.\n---\nRun ${CLAUDE_PLUGIN_ROOT}/x.")
    write(folder, "commands/git/push.md", "Push $ARGUMENTS")
    write(folder, "hooks/hooks.json", {"description": "d", "hooks": HOOKS})
    write(folder, ".mcp.json", SERVERS)
    write(folder, "guard", "#!/bin/sh\n").chmod(0o755)
    return folder


def install(
    home: Path, name: str = "kit@shop", *, on: bool | None = True, folder: Path | None = None, **more: Any
) -> Path:
    """Install a plugin as Claude Code does."""
    at = folder or make_plugin(home / ".claude/plugins/cache/shop" / name.partition("@")[0] / "1.0.0")
    record = home / ".claude/plugins/installed_plugins.json"
    known = json.loads(record.read_text())["plugins"] if record.exists() else {}
    known[name] = [{"scope": "user", "installPath": str(at), "gitCommitSha": "c" * 40, **more}]
    write(home, ".claude/plugins/installed_plugins.json", {"version": 2, "plugins": known})
    if on is not None:
        write(home, ".claude/settings.json", {"enabledPlugins": dict.fromkeys(known, on)})
    return at


def ids(found: Plugins, *, trusted: bool = False) -> list[str]:
    return [one.id for one in found.counting(trusted=trusted)]


def test_all_five_kinds_come_in_under_the_plugins_name(home: Path, project: Path) -> None:
    folder = install(home)
    [plugin] = load_plugins(project, home).all
    assert plugin.id == "kit@shop" and plugin.commit == "c" * 40 and plugin.bundle
    place = f"$SWARM_PLUGINS/{plugin.place}"
    catalogue = load_catalogue(project, home)
    helper = catalogue.get("kit:helper")
    assert helper.prompt == f"Do it in {place}." and helper.permission_mode == "default"
    assert any("has no permission_mode of its own" in warning for warning in helper.warnings)
    assert split_address("@kit:review:deep look", catalogue) == ("kit:review:deep", "look")
    skills = load_skills(project, home)
    assert [one.name for one in skills.skills] == ["kit:git:push", "kit:pdf"]
    pdf = skills.find("pdf")
    assert pdf is not None and {"kit:pdf", "pdf"} <= set(pdf.names)
    assert Package.model_validate_json(skills.packages[pdf.digest]).body == f"Run {place}/x."
    [hook] = find_hooks(project, home).holding(trusted=False).hooks
    assert hook.plugin == plugin.place and hook.origin == "user"
    assert hook.at("/there").command == f"/there/{plugin.place}/guard"
    [server] = load_servers(project, home).servers
    assert server.name == "plugin:kit:db" and server.key == "plugin_kit_db" and not server.needed_variables
    assert server.args == (f"${{SWARM_PLUGINS}}/{plugin.place}/db.py",)
    assert server.env["CLAUDE_PLUGIN_ROOT"] == f"${{SWARM_PLUGINS}}/{plugin.place}"
    assert count_parts(list_parts(plugin)) == "2 agents, 1 hook, 1 skill, 1 command, 1 server"

    settings = Settings(state_dir=home / "state")
    [unpacked] = place_plugins([plugin], settings)
    assert unpacked.parent == plugins_folder(settings) and os.access(unpacked / "guard", os.X_OK)
    assert not (unpacked / "db.py").exists() and (unpacked / "guard").stat().st_mode & 0o222 == 0
    write(folder, "guard", "#!/bin/sh\nfalse\n")
    [changed] = load_plugins(project, home).all
    assert changed.place != plugin.place, "other content lies in another place"
    old = time.time() - 30 * 24 * 3_600
    os.utime(unpacked, (old, old))
    assert place_plugins([changed], settings)[0].exists() and not unpacked.exists()


def test_what_is_disabled_removed_or_installed_for_another_project_is_not_loaded(home: Path, project: Path) -> None:
    install(home, on=False)
    found = load_plugins(project, home)
    assert not found.all and found.off == (("kit@shop", "~/.claude/settings.json"),)
    install(home, on=None)
    (home / ".claude/settings.json").unlink()
    assert not load_plugins(project, home).all
    install(home, scope="project", projectPath="/elsewhere")
    found = load_plugins(project, home)
    assert not found.all and found.absent == (("kit@shop", "~/.claude/settings.json"),)
    install(home, scope="local", projectPath=str(project))
    assert ids(load_plugins(project, home)) == ["kit@shop"]


def test_a_marketplace_that_is_a_folder_is_read_where_it_lies(home: Path, project: Path, tmp_path: Path) -> None:
    install(home)
    live = make_plugin(tmp_path / "shop" / "kit", {"name": "kit", "version": "2.0.0"})
    table = {"name": "shop", "owner": {"name": "x"}, "plugins": [{"name": "kit", "source": "./kit"}]}
    write(tmp_path / "shop", ".claude-plugin/marketplace.json", table)
    for kind, version in {"github": "1.0.0", "directory": "2.0.0"}.items():
        known = {"shop": {"source": {"source": kind}, "installLocation": str(tmp_path / "shop")}}
        write(home, ".claude/plugins/known_marketplaces.json", known)
        [plugin] = load_plugins(project, home).all
        assert plugin.version == version and (plugin.folder == live) is (kind == "directory")


def test_a_workspaces_choice_of_plugins_counts_once_its_content_is_trusted(home: Path, project: Path) -> None:
    folder = install(home, on=None)
    write(project, ".claude/settings.json", {"enabledPlugins": {"kit@shop": True, "none@shop": True, "../x": True}})
    found = load_plugins(project, home)
    assert ids(found) == [] and ids(found, trusted=True) == ["kit@shop"]
    assert found.absent == (("none@shop", ".claude/settings.json"),) and "'../x'" in found.problems[0].message
    [grant] = found.grants
    assert "is enabled; it runs ${CLAUDE_PLUGIN_ROOT}/guard, python3 ${CLAUDE_PLUGIN_ROOT}/db.py" in grant.text
    assert "kit:helper" not in load_catalogue(project, home).definitions and not load_skills(project, home).skills
    assert not find_hooks(project, home).holding(trusted=False).hooks and not load_servers(project, home).servers
    assert load_servers(project, home, trusted=True).servers and find_hooks(project, home).holding(trusted=True).hooks
    write(folder, "guard", "#!/bin/sh\nother\n")
    assert load_plugins(project, home).grants != (grant,)

    write(project, ".claude/settings.local.json", {"enabledPlugins": {"kit@shop": False}})
    install(home)
    found = load_plugins(project, home)
    assert ids(found) == ["kit@shop"] and ids(found, trusted=True) == []
    assert found.grants[0].text == "your plugin kit@shop is switched off"


def test_a_plugin_in_the_repository_itself_is_the_repositorys(home: Path, project: Path) -> None:
    make_plugin(project / "plugins" / "kit")
    table = {"name": "shop", "owner": {"name": "x"}, "plugins": [{"name": "kit", "source": "./plugins/kit"}]}
    write(project, ".claude-plugin/marketplace.json", table)
    write(project, ".claude/settings.json", {"enabledPlugins": {"kit@shop": True}})
    found = load_plugins(project, home)
    assert ids(found) == [] and ids(found, trusted=True) == ["kit@shop"] and found.all[0].in_workspace
    [hook] = find_hooks(project, home).holding(trusted=True).hooks
    assert hook.origin == "project"
    # What the person has enabled or installed elsewhere gives it no more.
    (project / ".claude/settings.json").unlink()
    write(home, ".claude/settings.json", {"enabledPlugins": {"kit@shop": True}})
    found = load_plugins(project, home)
    assert (
        ids(found) == []
        and ids(found, trusted=True) == ["kit@shop"]
        and found.grants[0].source == "~/.claude/settings.json"
    )
    install(home)
    entry = {**table["plugins"][0], "mcpServers": {"evil": {"command": "evil"}}}  # type: ignore[index]
    write(project, ".claude-plugin/marketplace.json", {**table, "plugins": [entry]})
    [plugin] = load_plugins(project, home).all
    assert not plugin.in_workspace and not plugin.enabled_by
    assert [one.name for one in load_servers(project, home).servers] == ["plugin:kit:db"]


@pytest.mark.parametrize(
    ("files", "system", "agents"),
    [
        ({".codex/config.toml": '[plugins."kit@shop"]\nenabled = true\n'}, "codex", 2),
        ({".copilot/settings.json": {"enabledPlugins": {"kit@shop": True}}}, "copilot", 2),
    ],
)
def test_plugins_of_codex_and_copilot_are_found_where_they_put_them(
    home: Path, project: Path, files: dict[str, Any], system: str, agents: int
) -> None:
    places = {"codex": ".codex/plugins/cache/shop/kit/0.1.0", "copilot": ".copilot/installed-plugins/shop/kit"}
    make_plugin(home / places[system], place={"codex": ".codex-plugin", "copilot": ".github/plugin"}[system])
    for path, content in files.items():
        write(home, path, content)
    [plugin] = load_plugins(project, home).all
    assert plugin.system == system and len(list_parts(plugin).names["agents"]) == agents


def test_a_manifests_paths_replace_or_add_as_published(tmp_path: Path) -> None:
    manifest = {
        "name": "kit",
        "agents": ["./agents/review/deep.md"],
        "skills": "./more",
        "commands": {"say": {"content": "Say it"}, "go": {"source": "./agents/helper.md"}},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
        "mcpServers": ["./far.json", {"near": {"command": "near"}}],
    }
    folder = make_plugin(tmp_path / "kit", manifest)
    write(folder, "more/csv/SKILL.md", "---\ndescription: c\n---\nc")
    write(folder, "far.json", {"far": {"type": "http", "url": "https://example.com/mcp"}})
    parts = list_parts(read_plugin(folder))
    assert parts.names["agents"] == ["kit:deep"] and parts.names["skills"] == ["kit:csv", "kit:pdf"]
    assert parts.names["commands"] == ["kit:helper", "kit:say"] and len(parts.names["hooks"]) == 2
    assert parts.names["servers"] == ["plugin:kit:db", "plugin:kit:far", "plugin:kit:near"] and not parts.problems
    make_plugin(tmp_path / "odd", {"name": "odd", "commands": {"say": {"content": "Say it"}, "lost": 3}})
    [problem] = list_parts(read_plugin(tmp_path / "odd")).problems
    assert "the command 'lost' has neither source nor content" in problem.message


def test_a_marketplace_that_is_one_folder_gives_each_plugin_the_skills_it_names(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, f"skills/{name}/SKILL.md", f"---\ndescription: {name}\n---\n{name}")
    entries = [{"name": "ab", "source": "./", "strict": False, "skills": ["./skills/a", "./skills/b"]}]
    table = {
        "name": "shop",
        "owner": {"name": "x"},
        "metadata": {"pluginRoot": "./p"},
        "plugins": [*entries, {"name": "q", "source": "q"}],
    }
    write(tmp_path, ".claude-plugin/marketplace.json", table)
    market = read_marketplace(tmp_path)
    folder = market.find("ab").folder
    assert folder is not None and market.find("q").folder == tmp_path / "p" / "q"
    assert list_parts(read_plugin(folder, name="ab", entry=market.entries["ab"])).names["skills"] == ["ab:a", "ab:b"]


@pytest.mark.parametrize(
    "source",
    [
        "../out",
        "/etc",
        "~/x",
        "./link",
        {"source": "npm", "package": "x"},
        {"source": "url", "url": 3},
        {"source": "github", "repo": "a/b", "ref": "--upload-pack=x"},
        None,
    ],
)
def test_a_marketplace_leads_nowhere_else(tmp_path: Path, source: Any) -> None:
    (tmp_path / "link").symlink_to("/etc")
    write(tmp_path, "marketplace.json", {"name": "shop", "plugins": [{"name": "kit", "source": source}]})
    with pytest.raises(Unusable):
        read_marketplace(tmp_path).find("kit")


def test_a_hostile_plugin_gets_nothing_from_outside_its_folder(home: Path, project: Path) -> None:
    write(home, "secret.md", AGENT.format("secret", ""))
    manifest = {
        "name": "kit",
        "agents": ["../../../secret.md", "./linked.md", "/etc/passwd", "./agents/", 7],
        "skills": ["./out", "./sk"],
        "hooks": "./out/hooks.json",
        "mcpServers": [{"../x": {"command": "x", "args": ["${user_config.key}"]}}, 3],
    }
    folder = make_plugin(home / "hostile", manifest)
    (folder / "linked.md").symlink_to(home / "secret.md")
    (folder / "agents" / "hidden.md").symlink_to(home / "secret.md")
    (folder / "out").symlink_to(home)
    (folder / "same").symlink_to("guard")
    (folder / "sk" / "s").mkdir(parents=True)
    (folder / "sk" / "s" / "SKILL.md").symlink_to(home / "secret.md")
    write(folder, "agents/alien.md", AGENT.format("other:boss", ""))
    install(home, folder=folder)
    [plugin] = load_plugins(project, home).all
    parts = list_parts(plugin)
    assert parts.names["agents"] == ["kit:helper", "kit:review:deep"] and parts.names["skills"] == ["kit:pdf"]
    told = " ".join(problem.message for problem in parts.problems)
    for word in (
        "'../../../secret.md' leads out",
        "'./linked.md' is a link",
        "'/etc/passwd' leads out",
        "'./out' is a link",
    ):
        assert word in told, told
    assert "'other:boss' cannot be a name" in told and "`userConfig`" in told
    carried = PluginBundle.model_validate_json(plugin.bundle).files
    assert {"guard", "same"} <= set(carried) and not {
        "linked.md",
        "agents/hidden.md",
        "sk/s/SKILL.md",
        "out/secret.md",
    } & set(carried)


def test_a_folder_that_is_too_large_to_carry_is_refused_and_the_others_load(home: Path, project: Path) -> None:
    folder = install(home, "big@shop")
    install(home, "small@shop")
    write(folder, "blob.bin", "x" * (MAX_BUNDLE_BYTES + 1))
    found = load_plugins(project, home)
    assert ids(found) == ["small@shop"]
    assert "big@shop is left out: its parts need its folder, which has 8.0 MiB" in found.problems[0].message
    for name in (
        "guard",
        "hooks/hooks.json",
        ".mcp.json",
        "agents/helper.md",
        "agents/review/deep.md",
        "skills/pdf/SKILL.md",
    ):
        (folder / name).unlink()
    assert ids(load_plugins(project, home)) == ["big@shop", "small@shop"], "nothing needs its folder"


@pytest.mark.parametrize("name", ["../evil", "a:b", "a/b", "", "-x", "x" * 80])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unusable):
        read_plugin(make_plugin(tmp_path / "k:", {"name": name}))


def test_pins_hold_only_for_their_content_and_the_first_of_a_name_wins(home: Path, project: Path) -> None:
    base = home / ".config/swarm/plugins"
    good = read_plugin(make_plugin(base / "kit-1"))
    pin = PinnedPlugin(folder="kit-1", digest=good.digest, origin="x")
    forged = PinnedPlugin(folder="../../../.claude", digest="0" * 64, origin="x")
    write_pinned(home, {"kit": pin, "evil": forged, "bad": pin.model_copy(update={"digest": "0" * 64})})
    install(home)
    found = load_plugins(project, home)
    assert ids(found) == ["kit"]
    told = " ".join(problem.message for problem in found.problems)
    assert "evil is left out: there is no such folder" in told and "bad is left out: its content has changed" in told
    assert "kit@shop is hidden by another one of its name" in told
    write(base, "installed.json", '{"plugins": 3}')
    found = load_plugins(project, home)
    assert ids(found) == ["kit@shop"] and "its content is not valid" in found.problems[0].message


def test_a_server_of_a_plugin_that_the_person_has_already_is_not_started_twice(home: Path, project: Path) -> None:
    folder = install(home)
    same = {"command": "npx", "args": ["-y", "one"]}
    write(folder, ".mcp.json", {"one": same, "two": {"command": "two"}, "three": "x", "four": {"args": 7}})
    write(home, ".config/swarm/mcp.json", {"mcpServers": {"mine": same}})
    configured = load_servers(project, home)
    assert [one.name for one in configured.servers] == ["mine", "plugin:kit:two"]
    assert len(configured.problems) == 2
