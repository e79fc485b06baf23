"""What must work in a sandbox as it does without one, and the shell tools on top of it.

Tests of swarm/permissions/sandbox/backend.py, swarm/permissions/sandbox/policy.py, swarm/permissions/sandbox/probe.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from swarm.core.errors import ToolError
from swarm.permissions.sandbox import Backend, NoSandbox, SandboxPolicy, choose_backend, confine_argv, toolchain_folders
from swarm.tools import ToolContext
from swarm.tools.background import kill_shells, list_shells
from tests.integration.sandbox_world import DRIVER, IS_ROOT, JAILS, SandboxWorld, find_user, open_world
from tests.needs import need_program, need_sandbox
from tests.tool_world import World, make_world
from tests.waiting import wait_for


@pytest.fixture(params=JAILS, ids=lambda jail: f"{jail[0]}, {jail[1]}")
def world(request: pytest.FixtureRequest) -> Iterator[SandboxWorld]:
    with open_world(*request.param) as world:
        yield world


# -- ordinary work -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo one; echo two >&2; exit 3", "one\ntwo\n"),
        ("seq 1 100000 | grep 7 | sort -rn | head -2", "99997\n99987\n"),
        ("cat <(echo sub) - < /dev/null; cat <<< here", "sub\nhere\n"),
        ("python3 -c 'import os, tempfile; print(tempfile.gettempdir() == os.environ[\"TMPDIR\"])'", "True\n"),
        ('f=$(mktemp) && echo x > "$f" && cat "$f" && test "$HOME" = "$TMPDIR" && test -O "$HOME" && echo own', "x\nown\n"),
        ("mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && ln -s d a/e && ln a/d a/f && cat a/e a/f && rm -r a", "x\nx\n"),
        ("printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s && touch -d 2001-01-01 s && date -r s +%Y", "ran\n2001\n"),
        ("sleep 60 & kill %1; wait %1; echo $?", "143\n"),
        ("trap 'echo caught' USR1; kill -USR1 $$; (exit 5); echo $?", "caught\n5\n"),
        ("id -u > /dev/null && getent passwd root | cut -d: -f1 && nproc > /dev/null && date > /dev/null", "root\n"),
        ("head -c 5 /dev/urandom | wc -c; echo x > /dev/null; echo out > /dev/stdout; echo > /dev/full || echo full", None),
        ("ulimit -c; ls /proc/self/fd > /dev/null && cat /proc/self/comm", "0\ncat\n"),
    ],
    ids=["order", "pipes", "substitution", "python", "temporary", "files", "modes", "jobs", "traps", "users", "devices", "proc"],
)  # fmt: skip
def test_ordinary_commands_work(world: SandboxWorld, command: str, expected: str | None) -> None:
    ran = world.run(command)
    assert expected is None or ran.output == expected, ran
    assert ran.exit_code == (3 if "exit 3" in command else 0), ran


def test_git_works_up_to_a_commit(world: SandboxWorld) -> None:
    script = "git -c init.defaultBranch=main init -q . && git config user.name A && git config user.email a@b"
    assert world.run(script).exit_code == 0
    ran = world.run(
        "git add . && git commit -qm one && git switch -qc side && echo x > new && git add new && git commit -qm two && "
        "git switch -q main && git merge -q side && git stash list && git status --short && git log --oneline | wc -l"
    )
    assert (ran.exit_code, ran.output) == (0, "2\n")
    ran = world.run(
        "git log --oneline | wc -l && git diff HEAD~1 --stat | tail -1 && git status --short", read_only=True
    )
    assert (ran.exit_code, ran.output) == (0, "2\n 1 file changed, 1 insertion(+)\n")


def test_a_folder_that_the_user_may_not_write_can_be_read(world: SandboxWorld) -> None:
    assert world.run("git init -q . && rm -r .git/hooks").exit_code == 0
    for folder in (world.workspace / ".git", world.workspace):
        for made in folder.glob(".[cos]*"):  # what was mounted over in the first run
            made.rmdir()
        folder.chmod(0o555)
        if IS_ROOT:
            os.chown(folder, 0, 0)
    assert world.run("cat kept; ls").output == "kepthere\nkept\n"


def test_a_build_works(world: SandboxWorld) -> None:
    need_program("make")
    need_program("cc")
    world.file(world.workspace / "p.c", '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    world.file(world.workspace / "Makefile", "p: p.c\n\tcc -o p p.c\n")
    assert world.run("make -s -j2 && ./p").output == "built\n"


def test_a_large_output_arrives_whole(world: SandboxWorld) -> None:
    assert len(world.run("head -c 20000000 /dev/zero | tr '\\0' x").output) == 20_000_000


@pytest.mark.parametrize(
    ("command", "code"), [("exit 42", 42), ("kill -SEGV $$", 139), ("kill -KILL $$", 137), ("nonsense-1", 127)]
)
def test_exit_codes_are_the_commands_own(world: SandboxWorld, command: str, code: int) -> None:
    assert world.run(command).exit_code == code


def test_a_command_may_clean_up_at_its_time_limit(world: SandboxWorld) -> None:
    ran = world.run("trap 'echo bye > bye; exit 0' TERM; while :; do sleep 0.05; done", limit=1)
    assert ran.timed_out and (world.workspace / "bye").read_text() == "bye\n"
    ran = world.run("trap '' TERM; while :; do sleep 0.05; done", limit=0.5)
    assert ran.timed_out and ran.exit_code == 137


def test_what_a_command_leaves_in_its_folders_is_there_for_the_next(world: SandboxWorld) -> None:
    world.run('echo one > "$TMPDIR/f"; echo two > f')
    assert world.run('cat "$TMPDIR/f" f').output == "one\ntwo\n"
    if world.backend["name"] == "bubblewrap":
        world.run("echo three > /tmp/g; python3 -c 'import multiprocessing; multiprocessing.Lock()'")
        assert world.run("cat /tmp/g").output == "three\n"


def test_further_folders_are_given(world: SandboxWorld) -> None:
    world.file(world.root / "tools" / "t", "tool")
    world.file(world.root / "more" / "m", "more")
    given = {"readable": [str(world.root / "tools")], "writable": [str(world.root / "more")]}
    command = f"cat {world.root}/tools/t; echo x > {world.root}/tools/t; echo x > {world.root}/more/m; cat {world.root}/more/m"
    assert world.run(command, **given).output.splitlines()[-1] == "x"
    assert (world.root / "tools" / "t").read_text() == "tool"
    assert "more" in world.run(f"echo y > {world.root}/more/m; echo more", read_only=True, **given).output
    assert (world.root / "more" / "m").read_text() == "x\n"


CLOSED = """
import ctypes, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from swarm.permissions.sandbox import close_to_others
close_to_others()
if os.fork() == 0:
    pid = os.getppid()
    for place in (f"/proc/{pid}/environ", f"/proc/{os.getpid()}/environ"):
        ran = subprocess.run(["cat", place], capture_output=True)
        print(ran.returncode != 0 and not ran.stdout, flush=True)
    command = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={"SWARM_SHELL_ID": "shell_1"})
    command.stdin.write(b"it has begun\\n")
    command.stdout.readline()
    with open(f"/proc/{command.pid}/environ") as file:
        print("shell_1" in file.read(), flush=True)
    command.kill()
    command.wait()
    os._exit(0)
os.wait()
"""


def test_a_worker_is_closed_to_processes_of_its_user_and_sees_the_commands_that_it_started() -> None:
    nobody = find_user("nobody" if IS_ROOT else "this user")
    argv = [*nobody.prefix, nobody.python, "-c", CLOSED, str(DRIVER.parents[2])]
    ran = subprocess.run(
        argv, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "KEY": "hidden"}, cwd="/"
    )
    assert ran.stdout == "True\nTrue\nTrue\n", ran


def test_a_closed_worker_starts_sandboxes_as_any_other(world: SandboxWorld) -> None:
    ran = world.run("echo x > new && cat new && test -r /proc/self/environ && echo own", closed=True)
    assert (ran.exit_code, ran.output) == (0, "x\nown\n")


DUMPABLE = """
import ctypes, os
from swarm.tasks import process
libc = ctypes.CDLL(None)
process.prepare_main()
print(libc.prctl(3, 0, 0, 0, 0), flush=True)
if os.fork() == 0:
    libc.prctl(4, 1, 0, 0, 0)
    process.prepare_child()
    print(libc.prctl(3, 0, 0, 0, 0), flush=True)
    os._exit(0)
os.wait()
"""


def test_a_workers_processes_close_themselves() -> None:
    ran = subprocess.run([sys.executable, "-c", DUMPABLE], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["0", "0"], ran


# -- the shell tools in it -----------------------------------------------------------------------------------


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return need_sandbox(request.param)


def call(world: World, backend: Backend, **given: object) -> str:
    def confine(ctx: ToolContext, argv: list[str]) -> list[str]:
        assert ctx.scratch is not None
        own = ctx.scratch / "files"
        own.mkdir(exist_ok=True)
        policy = SandboxPolicy(workspace=ctx.workspace, scratch=own, read_only=ctx.read_only)
        return confine_argv(policy, backend, argv)

    world.ctx.confine = confine
    return world.call("Bash", **given).text


def test_the_shell_of_a_read_only_agent_runs_and_does_not_write(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path, read_only=True)
    world.file("a.txt", "hello\n")
    assert call(world, backend, command="cat a.txt").startswith("hello")
    assert "[exit code 1]" in call(world, backend, command="echo x > a.txt")
    assert world.root.joinpath("a.txt").read_text() == "hello\n"


def test_the_workers_key_is_not_in_the_environment_nor_in_any_process(tmp_path: Path, backend: Backend) -> None:
    os.environ["ANTHROPIC_API_KEY"] = "hidden-key"
    keeper = subprocess.Popen(["sleep", "600"])
    try:
        text = call(make_world(tmp_path), backend, command="env; cat /proc/*/environ")
    finally:
        del os.environ["ANTHROPIC_API_KEY"]
        keeper.kill()
        keeper.wait()
    assert "PATH=" in text and "hidden-key" not in text


def test_a_shell_can_forge_no_record_of_a_background_command(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    call(world, backend, command="sleep 600", run_in_background=True)
    scratch = world.ctx.scratch
    assert scratch is not None
    record = list_shells(scratch)[0]
    call(world, backend, command=f'for f in "{scratch}/shells" "$TMPDIR/../shells"; do rm -rf "$f"; ln -s / "$f"; done')
    assert list_shells(scratch) == [record] and not (scratch / "shells").is_symlink()
    assert kill_shells(scratch) == 1


def test_a_background_command_lives_until_it_is_killed(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    number = f"6{time.monotonic_ns() % 10**9}"
    text = call(world, backend, command=f"echo up > up; setsid sleep {number} & wait", run_in_background=True)
    shell_id = next(word.rstrip(";.") for word in text.split() if word.startswith("shell_"))

    def running() -> bool:
        return any(
            number in process.info["cmdline"] or ()
            for process in psutil.process_iter(["cmdline"])
            if process.info["cmdline"]
        )

    wait_for("it runs", lambda: (world.root / "up").exists() and running())
    assert call(world, backend, command="true") == "(no output)"
    assert running(), "another call's end must not end it"
    assert world.call("KillShell", shell_id=shell_id).text == f"Killed {shell_id}."
    wait_for("it is gone", lambda: not running())


# -- the choice ----------------------------------------------------------------------------------------------


def probe_with(path: str, wanted: str = "auto") -> dict[str, object]:
    argv = [sys.executable, str(DRIVER), json.dumps({"probe": wanted})]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PATH": path}, timeout=60)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_bubblewrap_comes_first_and_landlock_after_it(tmp_path: Path, backend: Backend) -> None:
    found = probe_with(str(tmp_path))
    if backend.name == "landlock":
        assert found["name"] == "landlock" and "bubblewrap is not installed" in str(found["note"])
    else:
        assert probe_with(os.environ["PATH"])["name"] == "bubblewrap"


def test_a_bubblewrap_that_does_not_hold_is_not_chosen(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    found = probe_with(f"{tmp_path}:{os.environ['PATH']}", "bubblewrap")
    assert not found["works"] and "bubblewrap does not work here" in str(found["reason"])


def test_switched_off_there_is_none_and_a_read_only_agent_is_told() -> None:
    found = choose_backend("off")
    assert isinstance(found, NoSandbox)
    assert found.refusal.startswith("This agent is read-only and gets no shell") and "switched off" in found.refusal


def test_a_sandbox_that_cannot_be_entered_runs_nothing(tmp_path: Path, backend: Backend) -> None:
    world = make_world(tmp_path)
    world.ctx.scratch = tmp_path / "scratch"
    policy = SandboxPolicy(workspace=tmp_path / "gone", scratch=tmp_path / "missing", read_only=True)
    if backend.name == "landlock":
        argv = confine_argv(policy, backend, ["/bin/sh", "-c", f"echo x > {tmp_path}/made"])
        argv = [*argv[:4], "landlock=99999", "limit=99:1", *argv[4:]]
    else:
        argv = confine_argv(policy, backend, ["/bin/sh", "-c", f"echo x > {tmp_path}/made"])
    assert subprocess.run(argv, capture_output=True, check=False).returncode != 0
    assert not (tmp_path / "made").exists()


def test_a_link_in_the_place_of_protected_settings_is_refused(tmp_path: Path) -> None:
    found = need_sandbox("bubblewrap")
    (tmp_path / ".claude").symlink_to(tmp_path / "elsewhere")
    policy = SandboxPolicy(workspace=tmp_path, scratch=tmp_path, read_only=False)
    with pytest.raises(ToolError, match=r"\.claude is a symbolic link"):
        confine_argv(policy, found, ["true"])


def test_toolchains_are_found_and_the_home_is_not_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in ("node/bin", "node/lib", "home/bin", "home/.cargo/bin", "home/lib"):
        (tmp_path / folder).mkdir(parents=True)
    path = f"{tmp_path}/node/bin:{home}/.cargo/bin:/usr/bin:{home}:/:relative:{tmp_path}"
    found = toolchain_folders({"PATH": path, "GOROOT": str(home)}, home)
    assert found == (tmp_path / "node", home / ".cargo" / "bin")
    assert toolchain_folders({"PATH": f"{home}/bin"}, home) == ()
