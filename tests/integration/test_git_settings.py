"""Files that the person's own git is set to run: writing them is asked about.

Tests of swarm/permissions/path_rules.py, swarm/workspace/git.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swarm.permissions.path_rules import is_protected
from tests.needs import need_program


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_program("git")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.mark.parametrize("set_in", ["home", "an included file", "repository"])
def test_what_git_is_set_to_run_is_asked_about_wherever_that_is_set(home: Path, tmp_path: Path, set_in: str) -> None:
    workspace = tmp_path / "work"
    subprocess.run(["git", "init", "-q", workspace], check=True)
    assert not is_protected("tools/hooks/pre-commit", workspace)
    setting = '[core]\n\thooksPath = tools/hooks\n[filter "x"]\n\tclean = ./tools/clean.sh %f\n'
    if set_in == "repository":
        with open(workspace / ".git" / "config", "a") as file:
            file.write(setting)
    elif set_in == "home":
        (home / ".gitconfig").write_text(setting)
    else:
        (home / "more").write_text(setting)
        (home / ".gitconfig").write_text("[include]\n\tpath = ~/more\n")
    for name in ("tools/hooks/pre-commit", "tools/hooks", "sub/Tools/hooks/x", "tools/clean.sh"):
        assert is_protected(name, workspace), name
    assert not is_protected("tools/other.sh", workspace) and not is_protected("src/a.py", workspace)


def test_an_absolute_folder_of_hooks_is_asked_about_where_it_lies_in_the_workspace(home: Path, tmp_path: Path) -> None:
    workspace = home / "dotfiles"
    subprocess.run(["git", "init", "-q", workspace], check=True)
    (home / ".gitconfig").write_text("[core]\n\thooksPath = ~/dotfiles/hooks\n")
    assert is_protected("hooks/pre-push", workspace) and not is_protected("sub/hooks/pre-push", workspace)
