# ruff: noqa: E501
"""What a writer's shell leaves in its workspace for others to run or to obey later, outside of the sandbox.

Tests of swarm/permissions/sandbox/backend.py, swarm/permissions/sandbox/guard.py, swarm/permissions/sandbox/obeyed.py,
swarm/tools/background.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from swarm.permissions.sandbox import Backend, SandboxPolicy, confine_argv
from swarm.permissions.sandbox.obeyed import look, running_settings
from swarm.tools import ToolContext
from swarm.tools.background import kill_shells, list_shells
from tests.documents import ROOT
from tests.integration.sandbox_world import JAILS, Ran, SandboxWorld, open_world
from tests.needs import need_program, need_sandbox
from tests.tool_world import World, make_world
from tests.waiting import wait_for


@pytest.fixture(params=JAILS, ids=lambda jail: f"{jail[0]}, {jail[1]}")
def world(request: pytest.FixtureRequest) -> Iterator[SandboxWorld]:
    need_program("git")
    with open_world(*request.param) as world:
        world.file(world.home / ".gitconfig", "[safe]\n\tdirectory = *\n")
        yield world


@dataclass(frozen=True)
class Plant:
    """What the person had set up, what the shell does then, and what the person does after it."""

    attack: str
    trigger: str
    setup: str = ""


OWN = "git config user.name a && git config user.email a@b"
INIT = f"git -c init.defaultBranch=main init -q . && {OWN} && git add kept && git commit -qm one"
SUBMODULE = (
    f'{INIT} && git init -q "$OTHER/up" && (cd "$OTHER/up" && {OWN} && git commit -q --allow-empty -m u) && '
    'git -c protocol.file.allow=always submodule --quiet add "$OTHER/up" sub && git commit -qm sub'
)
NESTED = f"mkdir sub && cd sub && git init -q . && {OWN} && git commit -q --allow-empty -m x; git config core.fsmonitor $WORK/evil"
STATUS = "git status --short"
COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
PLANTS = {
    "a nested repository that the outer one looks into": Plant(f"{NESTED}; cd ..; git add sub", STATUS, INIT),
    "a nested repository": Plant(NESTED, f"cd sub && {STATUS}", INIT),
    "a repository where there was none": Plant("git init -q . && git config core.fsmonitor $WORK/evil", STATUS),
    "a hook where there was no repository": Plant("git init -q . && cp evil .git/hooks/pre-commit", f"git add -A; {COMMIT}"),
    "a submodule's git folder replaced": Plant(
        "mv .git/modules/sub .git/modules/old; mv .git/modules .git/m; mkdir -p .git/modules; "
        "cp -r .git/m*/old .git/modules/sub; git config -f .git/modules/sub/config core.fsmonitor $WORK/evil",
        STATUS,
        SUBMODULE,
    ),
    "a submodule's link replaced by a repository": Plant(
        "rm -f sub/.git; mv sub old; mkdir sub; cp -r .git/modules/sub sub/.git; "
        "git config -f sub/.git/config --unset core.worktree; git config -f sub/.git/config core.fsmonitor $WORK/evil",
        STATUS,
        SUBMODULE,
    ),
    "a link to a git folder within another's objects": Plant(
        "mkdir sub && cp -r .git copy && mv copy .git/objects/evil; git config -f .git/objects/evil/config core.fsmonitor $WORK/evil; "
        "echo gitdir: ../.git/objects/evil > sub/.git",
        f"cd sub && {STATUS}",
        INIT,
    ),
    "a link to a git folder outside": Plant(
        'cp -r .git "$TMPDIR/evil"; git config -f "$TMPDIR/evil/config" core.fsmonitor $WORK/evil; '
        'mkdir sub; echo "gitdir: $SCRATCH/evil" > sub/.git; ln -s "$SCRATCH/evil" here/.git; mkdir l; ln -s "$SCRATCH/evil" l/.git',
        f"(cd sub && {STATUS}); cd l && {STATUS}",
        INIT,
    ),
    "a folder that looks like a bare repository": Plant(
        "mkdir -p x/objects x/refs; cp .git/HEAD x/; git config -f x/config core.repositoryformatversion 0; git config -f x/config core.worktree .; git config -f x/config core.bare false; "
        "git config -f x/config core.fsmonitor $WORK/evil",
        f"cd x && {STATUS}",
        INIT,
    ),
    "settings of worktrees": Plant(
        "git config -f .git/config.worktree core.fsmonitor $WORK/evil", STATUS, f"{INIT} && git config extensions.worktreeConfig true"
    ),
    "a hook in the folder that the settings name": Plant(
        "cp evil .husky/pre-commit; mv .husky h; mkdir .husky; cp evil .husky/pre-commit",
        COMMIT,
        f"{INIT} && mkdir .husky && cp /bin/true .husky/pre-commit && git config core.hooksPath .husky",
    ),
    "a hook in a folder that the settings name and that is not there": Plant(
        "mkdir -p tools/hooks; cp evil tools/hooks/pre-commit", COMMIT, f"{INIT} && git config core.hooksPath tools/hooks"
    ),
    "a file that the settings include": Plant(
        "git config -f .shared core.fsmonitor $WORK/evil; git config -f s core.fsmonitor $WORK/evil; mv s .shared",
        STATUS,
        f"{INIT} && git config -f .shared alias.st status && git config include.path ../.shared",
    ),
    "a script that the settings run": Plant(
        "cp evil tools/clean.sh; rm -f tools/clean.sh; cp evil tools/clean.sh",
        "echo y > kept; git add kept",
        f"{INIT} && mkdir tools && cp /bin/cat tools/clean.sh && git config filter.x.clean tools/clean.sh && echo '* filter=x' > .gitattributes",
    ),
    "another common folder": Plant(
        "cp -r .git alt; git config -f alt/config core.fsmonitor $WORK/evil; rm -f .git/commondir; echo ../alt > .git/commondir; chmod 555 .git",
        f"chmod 755 .git; {STATUS}",
        INIT,
    ),
    "hooks where the folder is missing": Plant("mkdir -p .git/hooks; cp evil .git/hooks/pre-commit", COMMIT, f"{INIT} && rm -rf .git/hooks"),
    "settings and hooks": Plant(
        "cp evil .git/hooks/pre-commit; git config core.fsmonitor $WORK/evil", f"{STATUS}; {COMMIT}", INIT
    ),
    "a git folder that may not be written": Plant(
        f"{NESTED}; chmod 555 .git .", f"cd sub && {STATUS}", INIT
    ),
}  # fmt: skip


def person(world: SandboxWorld, command: str) -> Ran:
    """What the person does in the workspace, with a git of their own."""
    return world.run(f"export HOME={world.home}; {command}", open=True)


def import_past(world: SandboxWorld, attack: str, **given: str) -> Ran:
    marker = world.home / "planted"
    return world.run(f'printf "#!/bin/sh\\ntouch {marker}\\n" > $WORK/evil; chmod +x $WORK/evil; {attack}', **given)


@pytest.mark.parametrize("name", PLANTS)
def test_git_runs_nothing_that_a_shell_planted(world: SandboxWorld, name: str) -> None:
    case = PLANTS[name]
    if case.setup:
        assert (ran := person(world, case.setup)).exit_code == 0, ran
    ran = import_past(world, case.attack)
    person(world, case.trigger)
    assert not (world.home / "planted").exists(), ran
    assert not (world.workspace / ".git" / "commondir").exists()


def test_each_way_of_planting_works_where_nothing_holds(world: SandboxWorld) -> None:
    """Or they prove nothing; without a sandbox it is the same for every one and every user."""
    if world.backend["name"] == "landlock" or world.user.uid != os.geteuid():
        pytest.skip("said once")
    for name, case in PLANTS.items():
        with open_world("bubblewrap", "this user") as free:
            free.file(free.home / ".gitconfig", "[safe]\n\tdirectory = *\n")
            person(free, case.setup or "true")
            marker = free.home / "planted"
            make = f'printf "#!/bin/sh\\ntouch {marker}\\n" > $WORK/evil; chmod +x $WORK/evil; '
            person(free, make + case.attack)
            person(free, case.trigger)
            assert marker.exists(), name


OBEYED = (
    *("opencode.json", "opencode.jsonc", ".mcp.json", ".envrc", ".vscode/tasks.json", ".gitmodules", ".npmrc", ".husky/pre-push"),
    *("sub/.claude/settings.json", "sub/.swarm/agents/a.md", "sub/opencode.json", ".idea/workspace.xml", ".codex/config.toml"),
    *(".cursor/hooks.json", ".cursor/mcp.json", ".gemini/settings.json", ".devcontainer/devcontainer.json", ".zed/tasks.json"),
    *(".kiro/settings/mcp.json", ".roo/mcp.json", ".continue/config.yaml", ".Windsurf/hooks.json", ".junie/mcp/mcp.json", ".mise.toml"),
    *(".amazonq/mcp.json", ".aider.conf.yml", ".exrc", ".nvim.lua", ".dir-locals.el", ".hg/hgrc", ".jj/repo/config.toml", "sub/MISE.toml"),
    *(".bash_login", ".zlogin", ".github/hooks/on.json", ".gdbinit", ".lldbinit", ".devcontainer.json", ".clinerules/hooks/PreToolUse"),
)  # fmt: skip
TOLD = (
    *("AGENTS.override.md", "CLAUDE.MD", "sub/agents.md", ".github/copilot-instructions.md", ".yarnrc.yml", ".pnpmfile.cjs"),
    *(".cargo/config.toml", ".bundle/config", ".bazelrc", ".pre-commit-config.yaml", "lefthook.yml", ".tool-versions"),
)  # fmt: skip


@pytest.mark.parametrize("there", [False, True], ids=["new", "changed"])
def test_files_that_programs_obey_are_held(world: SandboxWorld, there: bool) -> None:
    if there:
        for name in OBEYED:
            world.file(world.workspace / name, "mine")
    ran = world.run(
        f'for f in {" ".join(OBEYED)}; do mkdir -p "$(dirname $f)"; echo planted > $f; rm -f $f; echo planted > $f; done; echo x > plain'
    )
    for name in OBEYED:
        path = world.workspace / name
        assert (path.read_text() == "mine") if there else not path.exists(), (name, ran)
    assert (world.workspace / "plain").read_text() == "x\n"
    if not there:
        assert (world.workspace / ".envrc.swarm-held").read_text() == "planted\n"
        assert any(line.startswith(str(world.workspace / ".envrc is now .envrc.swarm-held")) for line in ran.held)


def test_files_that_are_written_in_ordinary_work_are_only_told_of(world: SandboxWorld) -> None:
    ran = world.run(
        f'for f in {" ".join(TOLD)}; do mkdir -p "$(dirname $f)"; echo new > $f; done; echo x > config.toml'
    )
    assert all((world.workspace / name).read_text() == "new\n" for name in TOLD)
    assert [line for line in ran.held if "was changed, and stays so" not in line] == []
    assert {line.partition(" was changed")[0] for line in ran.held} == {str(world.workspace / name) for name in TOLD}
    ran = world.run(
        "touch AGENTS.override.md; mkdir -p node_modules/a/.cargo && echo x > node_modules/a/.cargo/config.toml"
    )
    assert ran.held == ()


def test_what_a_hook_runs_is_kept_however_large_it_is(world: SandboxWorld) -> None:
    script = world.file(world.workspace / "h" / "check.sh", "true\n" + "# long\n" * 300_000)
    small = world.file(world.workspace / "h" / "small.sh", "true\n")
    given = {"hooks": [str(script), str(small)]}
    ran = world.run(
        "echo evil >> h/check.sh; echo evil > h/small.sh; rm -f h/small.sh; mv h g; mkdir h; echo evil > h/check.sh",
        **given,
    )
    left = script.read_text() if script.exists() else ""
    assert "evil" not in left and ran.held, "a large one is not put back, but it is not the new one either"
    if (world.workspace / "h" / "small.sh").exists():
        assert small.read_text() == "true\n"


@pytest.mark.parametrize("where", ["its own git", "every repository"])
def test_the_folder_of_hooks_that_a_persons_git_is_set_to_is_held_in_every_repository(
    world: SandboxWorld, where: str
) -> None:
    person(world, f"{INIT} && mkdir tools && git config --global core.hooksPath tools/hooks")
    place = "tools" if where == "its own git" else "sub/tools"
    make = "true" if where == "its own git" else "git init -q sub"
    ran = import_past(world, f"{make}; mkdir -p {place}/hooks && cp evil {place}/hooks/pre-commit")
    person(world, f"cd {place}/..; {COMMIT}")
    assert not (world.home / "planted").exists(), ran
    assert any("pre-commit is now" in line for line in ran.held)


def test_looking_opens_each_folder_once_and_no_file_that_nobody_obeys(tmp_path: Path) -> None:
    """It is done before and after each command."""
    for number in range(40):
        (tmp_path / f"src{number}").mkdir()
        for name in ("a.py", "Makefile", "config.toml", "README.md", ".gitattributes", ".env"):
            (tmp_path / f"src{number}" / name).write_text("x")
    (tmp_path / "AGENTS.md").write_text("x")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import obeyed; opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(given[0]) if event == 'open' else None)\n"
        "obeyed.look(sys.argv[2]); print(len(opened))"
    )
    folder = ROOT / "swarm" / "permissions" / "sandbox"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code, folder, tmp_path], capture_output=True, text=True)
    # The root twice (it is what paths begin at), each folder, the one file, which is given as a descriptor once more.
    assert int(ran.stdout) <= 1 + 40 + 2, ran


def test_a_folder_above_a_guarded_file_may_be_moved_but_nothing_takes_its_place(world: SandboxWorld) -> None:
    world.file(world.workspace / "sub" / ".envrc", "mine")
    ran = world.run("mv sub other && mkdir sub && echo planted > sub/.envrc")
    assert (world.workspace / "sub" / ".envrc").read_text() == "mine", ran
    assert any("and its earlier content is back" in line for line in ran.held)


def test_what_a_repository_may_be_given_stays(world: SandboxWorld) -> None:
    person(world, INIT)
    script = "mkdir new && cd new && git init -q . && git config user.name b && git config user.email b@c && git config remote.o.url x && git commit -q --allow-empty -m x"
    ran = world.run(
        f"{script}; cd .. && git worktree add -q tree && cd tree && git commit -q --allow-empty -m y && git log --oneline | wc -l"
    )
    assert (ran.exit_code, ran.output, ran.held) == (0, "2\n", ())
    ran = world.run(
        "git -C new log --oneline | wc -l; git -C tree status --short; git worktree list | wc -l; git gc -q"
    )
    assert (ran.exit_code, ran.output, ran.held) == (0, "1\n2\n", ())


def test_a_command_that_runs_is_kept_from_another_common_folder(world: SandboxWorld) -> None:
    if world.backend["name"] == "landlock":
        pytest.skip("Landlock cannot keep a command from it while it runs")
    person(world, INIT)
    attack = "cp -r .git alt; git config -f alt/config core.fsmonitor $WORK/evil; echo ../alt > .git/commondir; echo up > up; sleep 60"
    marker = world.home / "planted"
    make = f'printf "#!/bin/sh\\ntouch {marker}\\n" > $WORK/evil; chmod +x $WORK/evil; '
    process = world.start(make + attack)
    wait_for("it goes on", (world.workspace / "up").exists)
    assert person(world, "git status --short --untracked-files=no && git commit -q --allow-empty -m two").exit_code == 0
    process.kill()
    process.wait()
    assert person(world, STATUS).exit_code == 0 and not marker.exists()
    assert world.run("git log --oneline | wc -l").output == "2\n"
    assert not (world.workspace / ".git" / "commondir").exists(), "the next command takes it away"


def test_nothing_outside_is_touched_through_a_link_in_a_git_folder(world: SandboxWorld) -> None:
    person(world, SUBMODULE)
    world.file(world.other / "commondir", "precious")
    world.file(world.other / "config", "[core]\n\tfsmonitor = mine\n")
    world.run(
        'mv .git/modules/sub .git/modules/old; ln -s "$OTHER" .git/modules/sub; mv .git/modules m; ln -s "$OTHER" .git/modules'
    )
    assert (world.other / "commondir").read_text() == "precious"
    assert (world.other / "config").read_text() == "[core]\n\tfsmonitor = mine\n"


# -- what the tools say --------------------------------------------------------------------------------------


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return need_sandbox(request.param)


def call(world: World, backend: Backend, **given: object) -> tuple[str, tuple[str, ...]]:
    def confine(ctx: ToolContext, argv: list[str]) -> list[str]:
        assert ctx.scratch is not None
        own = ctx.scratch / "files"
        own.mkdir(exist_ok=True)
        return confine_argv(SandboxPolicy(workspace=ctx.workspace, scratch=own, read_only=False), backend, argv)

    world.ctx.confine = confine
    result = world.call("Bash", **given)
    return result.text, result.held


def test_the_agent_is_told_what_was_held(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    text, held = call(world, backend, command="echo x > .envrc; echo done")
    assert held == (f"{world.root}/.envrc is now .envrc.swarm-held",)
    assert text.startswith("done\n[held: ") and held[0] in text and "Say so in your answer" in text
    assert call(world, backend, command="echo done") == ("done", ())


def test_a_background_command_is_looked_at_when_it_is_ended(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    text, _ = call(world, backend, command="echo x > .envrc; echo > up; sleep 600", run_in_background=True)
    shell_id = next(word.rstrip(";.") for word in text.split() if word.startswith("shell_"))
    wait_for("it goes on", (world.root / "up").exists)
    result = world.call("KillShell", shell_id=shell_id)
    assert not (world.root / ".envrc").exists() and result.held and "[held: " in result.text
    assert world.call("BashOutput", bash_id=shell_id).held == result.held


def test_a_background_command_whose_supervisor_is_killed_is_looked_at_with_its_agents_end(
    tmp_path: Path, backend: Backend
) -> None:
    world = make_world(tmp_path)
    call(world, backend, command="echo x > .envrc; echo > up; sleep 600", run_in_background=True)
    wait_for("it goes on", (world.root / "up").exists)
    scratch = world.ctx.scratch
    assert scratch is not None
    supervisor = psutil.Process(list_shells(scratch)[0].pid)
    supervisor.send_signal(signal.SIGKILL)
    wait_for("it goes on", lambda: not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE)
    kill_shells(scratch)
    assert not (world.root / ".envrc").exists() and (world.root / ".envrc.swarm-held").exists()


def test_a_command_line_does_not_show_what_a_shell_runs(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    call(world, backend, command=": hidden-words; echo > up; sleep 600; :", run_in_background=True)
    wait_for("it goes on", (world.root / "up").exists)
    scratch = world.ctx.scratch
    assert scratch is not None
    supervisor = psutil.Process(list_shells(scratch)[0].pid)
    shown = [process.cmdline() for process in (supervisor, *supervisor.children(recursive=True))]
    assert len(shown) > 1 and "hidden-words" not in str(shown)
    assert kill_shells(scratch) == 1


# -- what counts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[core]\n\tbare = false\n[user]\n\tname = a\n[remote \"o\"]\n\turl = x\n", []),
        ("[core]\n\tfsmonitor = evil\n", [("core.fsmonitor", "evil")]),
        ("[remote \"o\"]\n\turl = ext::sh\n\tuploadpack = x\n", [("remote.url", "ext::sh"), ("remote.uploadpack", "x")]),
        ("[CORE]\n\tFSMonitor = evil\n", [("core.fsmonitor", "evil")]),
        ("[core] fsmonitor = evil\n", None),
        ("[core\n]\nfsmonitor = evil\n", None),
        ("[user]\n\tname = a \\\n[core]\n\tfsmonitor = evil\n", None),
        ("[user]\r[core]\rfsmonitor = evil\n", None),
        ("[remote \"a\"] fsmonitor=\"]\n", None),
        ("\ufeff[core]\nfsmonitor = evil\n", None),
        ("[core.x]\nfsmonitor = evil\n", None),
    ],
)  # fmt: skip
def test_settings_that_may_run_something_are_told_from_others(
    text: str, expected: list[tuple[str, str]] | None
) -> None:
    assert running_settings(text) == expected


def test_what_cannot_be_looked_into_is_said(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*("d" for _ in range(100)))
    deep.mkdir(parents=True)
    assert list(look(str(tmp_path)).digests.values()) == ["unseen"]


def test_held_files_can_be_had_back_by_a_person(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    call(world, backend, command="echo x > .envrc")
    os.rename(world.root / ".envrc.swarm-held", world.root / ".envrc")
    assert call(world, backend, command="cat .envrc") == ("x", ())
    subprocess.run(["rm", ".envrc"], cwd=world.root, check=True)
