"""A job's configuration is read once, and again as soon as any file that it came from changes, appears or is gone.

Tests of swarm/core/memo.py, swarm/client/project.py.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from swarm.client.project import Project, gather
from swarm.core.memo import Memo, look_at
from swarm.core.settings import Settings
from swarm.permissions.trust import TrustStore
from tests.waiting import wait_for

MARK = "m4rk"
AGENT = f"---\nname: NAME\ndescription: {MARK}\nmemory: project\n---\nWork.\n"
FILES = {
    "repo/CLAUDE.md": f"From above: {MARK}",
    "repo/.claude/agents/above.md": AGENT.replace("NAME", "above"),
    "repo/work/CLAUDE.md": f"{MARK}, and @docs/more.md",
    "repo/work/docs/more.md": MARK,
    "repo/work/docs/extra.md": MARK,
    "repo/work/prompt.txt": MARK,
    "repo/work/.claude/rules/tests.md": f"---\npaths: tests/**\n---\n{MARK}",
    "repo/work/.claude/settings.json": '{"permissions": {"deny": ["Bash(m4rk:*)"]}, "hooks": {"Stop": [{"hooks": '
    '[{"type": "command", "command": "$CLAUDE_PROJECT_DIR/hook.sh"}]}]}}',
    "repo/work/.claude/settings.local.json": '{"permissions": {"ask": ["Bash(m4rk:*)"]}}',
    "repo/work/.swarm/settings.json": '{"permissions": {"ask": ["Bash(m4rk:*)"]}, "claudeMdExcludes": ["m4rk.md"]}',
    "repo/work/hook.sh": f"#!/bin/sh\n# {MARK}\n",
    "repo/work/.claude/agents/near.md": AGENT.replace("NAME", "near"),
    "repo/work/.claude/agent-memory/near/page.md": MARK,
    "repo/work/.opencode/agent/open.md": f"---\ndescription: {MARK}\n---\nWork.\n",
    "repo/work/opencode.json": '{"agent": {"table": {"description": "m4rk", "prompt": "{file:prompt.txt}"}}, '
    '"instructions": ["docs/extra.md"], "permission": {"bash": {"m4rk": "deny"}}}',
    "repo/work/.codex/config.toml": f'[agents.role]\ndescription = "{MARK}"\nconfig_file = "role.toml"\n',
    "repo/work/.codex/role.toml": f'developer_instructions = "{MARK}"\n',
    "repo/work/.codex/agents/own.toml": f'name = "own"\ndescription = "d"\ndeveloper_instructions = "{MARK}"\n',
    "repo/work/.codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "m4rk"}]}]}}',
    "repo/work/.claude/skills/skill/SKILL.md": f"---\ndescription: {MARK}\n---\nDo it.\n",
    "repo/work/.claude/skills/skill/lib/run.py": f"print('{MARK}')\n",
    "repo/work/.claude/commands/tell.md": f"Tell {MARK}.",
    "repo/work/.mcp.json": '{"mcpServers": {"files": {"command": "m4rk"}}}',
    "repo/work/.swarm/setup": f"#!/bin/sh\necho {MARK}\n",
    "home/.claude/CLAUDE.md": MARK,
    "home/.claude/rules/mine.md": MARK,
    "home/.claude/settings.json": '{"permissions": {"allow": ["Bash(m4rk:*)"]}}',
    "home/.config/swarm/settings.json": '{"permissions": {"allow": ["Bash(m4rk:*)"]}}',
    "home/.config/swarm/mcp.json": '{"mcpServers": {"own": {"command": "m4rk"}}}',
    "home/.claude.json": '{"mcpServers": {"state": {"command": "m4rk"}}}',
    "home/.swarm/agents/mine.md": AGENT.replace("NAME", "mine"),
    "home/.claude/skills/mine/SKILL.md": f"---\ndescription: {MARK}\n---\nDo it.\n",
    "home/.codex/prompts/ask.md": f"Ask {MARK}.",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a person's home and a repository, whose subfolder `work` is the workspace."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/work").mkdir()
    return tmp_path


def write(place: Path, name: str, mark: str = MARK) -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(FILES[name].replace(MARK, mark))


def read(place: Path) -> Project:
    return gather(place / "repo/work", Settings(state_dir=place / "state", hub="http://hub"))


def settled(place: Path) -> Project:
    """The configuration once it is kept: what has changed just now is read again each time."""
    wait_for("the last change has settled", lambda: read(place) is read(place))
    return read(place)


def shown(project: Project) -> str:
    """All of its content."""
    return repr((replace(project, parts={}), [vars(part) for part in project.parts.values()]))


def test_a_change_of_any_file_is_seen_at_once_even_if_its_size_stays(place: Path) -> None:
    for name in FILES:
        write(place, name)
    for name in FILES:
        whole = settled(place)
        write(place, name, MARK[::-1])
        assert shown(read(place)) != shown(whole), f"{name} has changed"
        write(place, name)
        assert shown(read(place)) == shown(settled(place)) == shown(whole), f"{name} is as it was"
        (place / name).unlink()
        assert shown(read(place)) != shown(whole), f"{name} is gone"
        write(place, name)


def test_each_new_file_is_seen_also_in_a_new_folder(place: Path) -> None:
    named = ("more.md", "extra.md", "prompt.txt", "role.toml", "hook.sh", "page.md")
    # Files that another one names come after it.
    for name in sorted(FILES, key=lambda name: name.endswith(named)):
        before = settled(place)
        write(place, name)
        assert shown(read(place)) != shown(before), f"{name} is new"


def test_a_repository_that_ends_above_the_workspace_is_seen(place: Path) -> None:
    for name in FILES:
        write(place, name)
    assert "above" in settled(place).catalogue.definitions
    (place / "repo/.git").rmdir()
    assert "above" not in read(place).catalogue.definitions


def test_trust_counts_from_the_next_submission_on(place: Path) -> None:
    for name in FILES:
        write(place, name)
    found = settled(place)
    assert not found.trusted
    store = TrustStore(place / "state")
    store.trust(place / "repo/work", found.grants)
    assert settled(place).trusted
    store.revoke(place / "repo/work")
    assert not read(place).trusted


def test_another_home_is_another_configuration(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FILES:
        write(place, name)
    assert "mine" in settled(place).catalogue.definitions
    monkeypatch.setenv("HOME", str(place / "nowhere"))
    assert "mine" not in read(place).catalogue.definitions


def test_nothing_is_read_again_while_no_file_changes_whatever_git_does(place: Path) -> None:
    for name in FILES:
        write(place, name)
    kept = settled(place)
    (place / "repo/.git/index.lock").touch()
    (place / "repo/work/result.txt").write_text("An agent's work.")
    assert read(place) is kept


def test_a_result_whose_file_changed_while_it_was_made_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("first")
    os.utime(file)
    memo = Memo[str](10)

    def make() -> str:
        look_at(file)
        text = file.read_text()
        if text == "first":
            file.write_text("other")
        return text

    assert memo.get("key", make) == "first"
    assert memo.get("key", make) == "other"


def test_an_outer_result_depends_on_what_an_inner_one_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "file"
    inner, outer = Memo[str](10), Memo[str](10)

    def look() -> str:
        look_at(file)
        return file.read_text() if file.exists() else "none"

    def nested() -> str:
        return outer.get("outer", lambda: inner.get("inner", look))

    inner.get("inner", look)
    assert nested() == "none"
    file.write_text("there")
    assert nested() == "there"
