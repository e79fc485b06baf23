"""Plugins in jobs: all that one brings is used by workers that never saw its folder, and people add them from folders and Git.

Tests of swarm/capabilities/plugins/carrying.py, swarm/capabilities/plugins/step.py, swarm/client/plugins.py,
swarm/cli/plugins.py, swarm/definitions/plugins/installed.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm.agent.entries import Hooked, Prompt, ToolFinished
from swarm.capabilities.plugins import carrying
from swarm.cli.plugins import group
from swarm.client.order import Order
from swarm.client.plugins import PluginSpec, add_plugin, remove_plugin
from swarm.client.preparation import prepare_order
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.definitions.plugins.enabled import load_plugins
from swarm.definitions.plugins.installed import plugins_home
from tests.fleet import Fleet
from tests.needs import need_sandbox

SERVER = """
import sys
from mcp.server import MCPServer
server = MCPServer("desk")
@server.tool()
def word() -> str:
    "Say the word."
    return "the word is " + open(sys.argv[1] + "/rules.md").read().strip()
server.run()
"""
GUARD = """
grep -q forbidden && { echo "the guard says no" >&2; exit 2; }
test -f "$CLAUDE_PLUGIN_ROOT/rules.md" && touch "$CLAUDE_PLUGIN_DATA/seen"
"""
KIT = {
    ".claude-plugin/plugin.json": json.dumps({"name": "kit", "version": "1.2.0"}),
    "agents/helper.md": "---\nname: helper\ndescription: Helps.\ntools: Read\npermissionMode: bypassPermissions\n---\nHelp.",
    "skills/greet/SKILL.md": "---\ndescription: Greets.\n---\nRun `sh ${CLAUDE_PLUGIN_ROOT}/bin/hello.sh`.",
    "commands/start.md": "Begin with $ARGUMENTS by ${CLAUDE_PLUGIN_ROOT}/rules.md: !`cat ${CLAUDE_PLUGIN_ROOT}/rules.md`",
    "bin/hello.sh": "echo hello from $(cat $(dirname $0)/../rules.md)\n",
    "rules.md": "swordfish\n",
    "hooks/guard.sh": GUARD,
    "hooks/hooks.json": json.dumps(
        {
            "hooks": {
                "PreToolUse": [
                    {
                        "matcher": "Bash",
                        "hooks": [{"type": "command", "command": 'sh "${CLAUDE_PLUGIN_ROOT}/hooks/guard.sh"'}],
                    }
                ]
            }
        }
    ),
    ".mcp.json": json.dumps(
        {
            "mcpServers": {
                "desk": {
                    "command": sys.executable,
                    "args": ["${CLAUDE_PLUGIN_ROOT}/server.py", "${CLAUDE_PLUGIN_ROOT}"],
                }
            }
        }
    ),
    "server.py": SERVER,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def make(folder: Path, files: dict[str, str] = KIT) -> Path:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_workers_use_all_five_kinds_of_a_plugin_whose_folder_they_never_saw(
    at_work: Fleet, home: Path, tmp_path: Path
) -> None:
    need_sandbox()
    name, plugin = add_plugin(PluginSpec(str(make(tmp_path / "kit"))), home)
    assert name == "kit" and plugin.bundle
    place = f"$SWARM_PLUGINS/{plugin.place}"
    calls: list[dict[str, Any]] = [
        {"name": "Skill", "input": {"skill": "kit:greet"}},
        {"name": "mcp__plugin_kit_desk__word", "input": {}},
        {"name": "Bash", "input": {"command": f"sh {place}/bin/hello.sh; touch {place}/mine"}},
        {"name": "Read", "input": {"file_path": f"{place}/rules.md"}},
        {"name": "Read", "input": {"file_path": f"{place}/../../etc/passwd"}},
        {"name": "Bash", "input": {"command": "echo forbidden"}},
        {"name": "Agent", "input": {"subagent_type": "kit:helper", "description": "help a bit", "prompt": "Help."}},
    ]
    for number, call in enumerate(calls):
        call["id"] = f"toolu_{number}"
    server = at_work.rehearse(
        "name: kit\nrules:\n  - {when: {definition: 'kit:helper'}, reply: {text: HELPED}}\n"
        f"  - {{when: {{turn: 0}}, reply: {{tools: {json.dumps(calls)}}}}}\n  - {{reply: {{text: DONE}}}}\n"
    )
    order = Order(
        prompt="/kit:start now",
        workspace=at_work.workspace,
        base_url=server.url,
        commands=True,
        agent="general-purpose",
        allow=("mcp__plugin_kit_desk",),
    )
    job = at_work.swarm.place(prepare_order(order, at_work.swarm.settings))
    # Workers have what travelled with the job.
    shutil.rmtree(tmp_path / "kit")
    shutil.rmtree(plugins_home(home))
    assert job.wait(90).text == "DONE"
    entries = list(at_work.swarm.journal(job.view().root_id))
    [prompt] = [one for one in entries if isinstance(one, Prompt)][:1]
    assert f"Begin with now by {place}/rules.md: swordfish" in prompt.model_dump_json()
    results = {one.tool_use_id: one for one in entries if isinstance(one, ToolFinished)}
    skill, word, ran, page, outside, refused, helped = (results[one["id"]].text for one in calls)
    assert f"Run `sh {place}/bin/hello.sh`." in skill
    assert "the word is swordfish" in word
    assert "hello from swordfish" in ran and "cannot touch" in ran
    assert "swordfish" in page and "no file" in outside
    assert "the guard says no" in refused
    assert "HELPED" in helped
    hooked = [one for one in entries if isinstance(one, Hooked)]
    assert [run.outcome for one in hooked for run in one.runs] == ["ok", "refused"]


def test_a_person_adds_lists_and_removes_plugins_of_git_and_of_a_marketplace(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = tmp_path / "market"
    make(market / "plugins" / "kit")
    make(market, {".claude-plugin/marketplace.json": json.dumps({"name": "shop", "owner": {"name": "x"}, "plugins": [
        {"name": "kit", "source": "./plugins/kit"},
        {"name": "far", "source": {"source": "git-subdir", "url": f"file://{market}", "path": "plugins/kit", "sha": "0" * 40}},
    ]})})  # fmt: skip
    git = ["git", "-C", str(market), "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "made"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()

    name, plugin = add_plugin(PluginSpec(f"file://{market}", "main", "plugins/kit"), home)
    [found] = load_plugins(tmp_path, home).all
    assert (name, found.commit, found.digest) == ("kit", commit, plugin.digest)
    assert remove_plugin("kit", home) == "kit" and not load_plugins(tmp_path, home).all

    name, _ = add_plugin(PluginSpec(f"kit@{market}"), home)
    assert name == "kit@shop"
    shutil.rmtree(market / "plugins")
    listed = json.loads(CliRunner().invoke(group, ["list", "--json", "-w", str(tmp_path)]).stdout)
    [told] = listed["plugins"]
    assert told["id"] == "kit@shop" and told["agents"] == ["kit:helper"] and told["servers"] == ["plugin:kit:desk"]
    assert told["skills"] == ["kit:greet"] and told["commands"] == ["kit:start"] and len(told["hooks"]) == 1

    write = tmp_path / "w" / ".claude" / "settings.json"
    write.parent.mkdir(parents=True)
    write.write_text(json.dumps({"enabledPlugins": {"none@shop": True}}))
    settings = Settings(state_dir=tmp_path / "state")
    prepared = prepare_order(Order(prompt="x", workspace=tmp_path / "w"), settings)
    absent = ".claude/settings.json: it enables plugins that are not installed: none@shop. `swarm plugins add none@shop` installs one."
    assert absent in prepared.warnings and "plugins" in prepared.documents
    monkeypatch.setattr(carrying, "MAX_TOTAL_BYTES", 10)
    with pytest.raises(ConfigurationError, match="disable one of them, for example kit@shop"):
        _ = prepare_order(Order(prompt="y", workspace=tmp_path / "w", allow=("Read",)), settings).documents

    for wrong in (PluginSpec(f"far@{market}"), PluginSpec(f"kit@{market}"), PluginSpec(str(tmp_path / "none"))):
        with pytest.raises(ConfigurationError, match="cannot be"):
            add_plugin(wrong, home)
    with pytest.raises(ConfigurationError, match="Name a folder, a Git URL, or NAME@MARKETPLACE"):
        add_plugin(PluginSpec("none"), home)
    (Path(told["folder"]) / "rules.md").write_text("changed\n")
    after = load_plugins(tmp_path, home)
    assert not after.all and "its content has changed since it was added" in after.problems[0].message
    make(tmp_path / "kit")
    add_plugin(PluginSpec(str(tmp_path / "kit")), home)  # it has the same content, and so the same folder
    assert [one.folder for one in load_plugins(tmp_path, home).all] == [Path(told["folder"])]
