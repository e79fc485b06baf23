"""What belongs to the swarm that runs, and to the person, when a workspace holds it.

Tests of swarm/permissions/path_rules.py, swarm/permissions/sandbox/host.py, swarm/workspace/home.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.core.errors import ConfigurationError
from swarm.permissions.path_rules import is_protected
from swarm.permissions.sandbox import Backend, CannotConfine, SandboxPolicy, confine_argv
from swarm.permissions.sandbox.host import own_folders, package_folders
from swarm.workspace.home import find_home, refuse_home
from tests.integration.sandbox_world import SECRET, open_world
from tests.needs import need_sandbox
from tests.tool_world import make_world

ROOT = package_folders()[0].parent
COPIED = """
import json, subprocess, sys
from pathlib import Path
from swarm.permissions.sandbox import SandboxPolicy, choose_backend, confine_argv
from swarm.permissions.sandbox.host import package_folders
workspace, scratch = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
assert package_folders()[0].is_relative_to(workspace), package_folders()
try:
    argv = confine_argv(SandboxPolicy(workspace, scratch, read_only=False), choose_backend(sys.argv[3]), ["/bin/sh", "-c", sys.argv[4]])
    print(subprocess.run(argv, cwd=workspace, capture_output=True, text=True))
except Exception as error:
    print(type(error).__name__, error)
"""


def chosen(name: str) -> Backend:
    return need_sandbox(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("below", ["", "src"])
def test_the_swarm_that_runs_is_not_changed_by_its_agents(tmp_path: Path, backend: str, below: str) -> None:
    chosen(backend)
    checkout = tmp_path / "checkout" / below
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for name in ("swarm", "tasks", "mailbox"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    before = (checkout / "swarm" / "tools" / "launcher.py").read_bytes()
    attack = (
        f"cd ./{below}; for f in swarm/tools/launcher.py tasks/app.py mailbox/__init__.py; do echo planted > $f; done; "
        f"mv swarm s; mkdir -p swarm/tools; echo planted > swarm/tools/launcher.py; cd ..; mv src s; mkdir -p src/swarm/tools; "
        "echo planted > src/swarm/tools/launcher.py; echo over"
    )
    argv = [sys.executable, "-c", COPIED, str(tmp_path / "checkout"), str(scratch), backend, attack]
    ran = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True, cwd=tmp_path
    )
    assert (checkout / "swarm" / "tools" / "launcher.py").read_bytes() == before, ran
    assert (
        "planted"
        not in (checkout / "tasks" / "app.py").read_text() + (checkout / "mailbox" / "__init__.py").read_text()
    )
    if backend == "landlock":
        assert "CannotConfine" in ran.stdout and "give them another checkout" in ran.stdout, ran
    else:
        assert "over" in ran.stdout and "Read-only file system" in ran.stdout, ran


def test_an_agent_that_only_reads_looks_at_the_swarm_that_runs(tmp_path: Path) -> None:
    policy = SandboxPolicy(ROOT, tmp_path, read_only=True)
    argv = confine_argv(policy, chosen("landlock"), ["/bin/sh", "-c", "head -c 3 swarm/tools/launcher.py"])
    assert subprocess.run(argv, cwd=ROOT, capture_output=True, check=False).stdout == b'"""'


def test_edits_of_the_swarm_that_runs_are_asked_about() -> None:
    assert is_protected("swarm/tools/launcher.py", ROOT) and is_protected("tasks/app.py", ROOT)
    assert not is_protected("docs/permissions.md", ROOT)
    assert own_folders([ROOT])


def test_the_agent_is_told_where_to_work_on_swarm_instead(tmp_path: Path) -> None:
    backend = chosen("bubblewrap")
    world = make_world(tmp_path)
    world.ctx.workspace = ROOT
    world.ctx.confine = lambda ctx, argv: confine_argv(SandboxPolicy(ROOT, tmp_path, read_only=False), backend, argv)
    text = world.call("Bash", command="echo x > swarm/x").text
    assert "read-only here, because it is what runs this agent: " in text and "git worktree add" in text


# -- a home --------------------------------------------------------------------------------------------------


def test_a_home_and_what_it_lies_in_are_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "me"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(ConfigurationError, match="--home-workspace"):
            refuse_home(folder)
    refuse_home(home / "project")
    assert find_home(Path("/srv"), [Path("/home/me")]) is None


@pytest.mark.parametrize("user", ["this user", "nobody"])
def test_a_home_that_is_allowed_keeps_its_credentials_and_what_its_programs_obey(user: str) -> None:
    secrets = (
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".m2/settings.xml",
        ".config/hub",
        ".boto",
        ".config/rclone/rclone.conf",
    )
    obeyed = (
        ".bashrc",
        ".profile",
        ".gitconfig",
        ".ssh/authorized_keys",
        ".config/git/config",
        ".config/new/x",
        ".local/bin/git",
    )
    with open_world("bubblewrap", user) as world:
        shutil.rmtree(world.home / ".ssh")
        for name in secrets:
            world.file(world.home / name, SECRET)
        read = f"cat {' '.join(secrets)}"
        write = f'for f in {" ".join(obeyed)}; do mkdir -p "$(dirname $f)"; echo planted > $f; done'
        ran = world.run(f"cd {world.home}; {read}; {write}; echo x > notes", workspace=str(world.home))
        assert SECRET not in ran.output, ran
        assert [name for name in obeyed if (world.home / name).exists()] == []
        assert (world.home / "notes").exists(), ran


def test_landlock_does_not_confine_in_such_a_home() -> None:
    with open_world("landlock", "this user") as world:
        os.environ["HOME"], before = str(world.home), os.environ["HOME"]
        try:
            with pytest.raises(CannotConfine, match="must stay hidden"):
                confine_argv(SandboxPolicy(world.home, world.scratch, read_only=False), chosen("landlock"), ["true"])
        finally:
            os.environ["HOME"] = before
