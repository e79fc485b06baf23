"""Files that programs outside of the sandbox obey: writing them is asked about, whatever their name's case and wherever they are named.

Tests of swarm/permissions/sandbox/names.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.permissions.calls import JudgedCall
from swarm.permissions.judge import judge
from swarm.permissions.path_rules import is_protected
from swarm.permissions.rules import Rules
from swarm.permissions.sandbox.names import INSTRUCTIONS, TOLD, who_obeys

NAMES = (
    *(".cursor/hooks.json", ".CURSOR/mcp.json", ".gemini/settings.json", ".devcontainer/devcontainer.json", ".zed/tasks.json"),
    *(".kiro/settings/mcp.json", ".roo/mcp.json", ".continue/config.yaml", ".yarnrc.yml", ".pnpmfile.cjs", ".cargo/config.toml"),
    *(".mise.toml", ".bundle/config", ".bazelrc", ".exrc", ".nvim.lua", ".dir-locals.el", ".hg/hgrc", ".jj/repo/config.toml"),
    *(".bash_login", ".zlogin", "AGENTS.override.md", "CLAUDE.MD", "a/b/gemini.md", ".github/hooks/x.json", "lefthook.yml", ".vimrc"),
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_writing_what_programs_obey_is_asked_about(name: str, tmp_path: Path) -> None:
    call = JudgedCall("Write", {"file_path": name, "content": ""}, Rules(), "acceptEdits", tmp_path, sandboxed=True)
    assert judge(call).action == "ask"


@pytest.mark.parametrize(
    "name", ["config.toml", ".gitattributes", "repo/config.toml", ".github/workflows/ci.yml", ".env"]
)
def test_what_nobody_obeys_by_its_name_is_not(name: str, tmp_path: Path) -> None:
    assert not is_protected(name, tmp_path)


def test_all_instruction_files_that_agents_are_given_are_known() -> None:
    for name in (name for names in INSTRUCTIONS for name in names):
        assert who_obeys(name) in TOLD
