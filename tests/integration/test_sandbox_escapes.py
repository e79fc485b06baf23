"""What a shell tries to get out of its sandbox; each attempt works without one and must fail in every one.

Tests of swarm/permissions/sandbox/bubblewrap.py, swarm/permissions/sandbox/enter.py, swarm/permissions/sandbox/landlock.py,
swarm/permissions/sandbox/seccomp.py, swarm/permissions/sandbox/arguments.py.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.integration.sandbox_world import JAILS, SECRET, Ran, SandboxWorld, open_world
from tests.needs import need_network, need_program
from tests.waiting import wait_for


@pytest.fixture(params=JAILS, ids=lambda jail: f"{jail[0]}, {jail[1]}")
def jail(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def world(jail: tuple[str, str]) -> Iterator[SandboxWorld]:
    with open_world(*jail) as world:
        yield world


@dataclass(frozen=True)
class Attempt:
    """A command, and whether it had its effect, as seen from outside."""

    command: str
    worked: Callable[[SandboxWorld, Ran], bool]
    promise: str = "files"
    """A backend that does not give it is not tried, except where the agent is read-only and `strict` says so."""
    strict: bool = False
    control: bool = True
    """Whether the attempt works without a sandbox on any machine."""


def python(code: str) -> str:
    return f"/usr/bin/env python3 -c {shlex.quote(code)}"


def made(world: SandboxWorld, ran: Ran) -> bool:
    return any((folder / "made").exists() for folder in (world.other, world.home))


def spoiled(world: SandboxWorld, ran: Ran) -> bool:
    path = world.other / "secret"
    return not path.exists() or path.read_text() != SECRET


def told(world: SandboxWorld, ran: Ran) -> bool:
    return SECRET in ran.output


def says_yes(world: SandboxWorld, ran: Ran) -> bool:
    return "yes-it-did" in ran.output


def hit(world: SandboxWorld, ran: Ran) -> bool:
    try:
        return world.victim.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return True


def opened_up(world: SandboxWorld, ran: Ran) -> bool:
    return stat.S_IMODE((world.other / "secret").stat().st_mode) == 0o777


def limited(world: SandboxWorld, ran: Ran) -> bool:
    limits = Path(f"/proc/{world.victim.pid}/limits").read_text()
    return re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE) is not None


def slowed(world: SandboxWorld, ran: Ran) -> bool:
    scheduled = os.sched_getscheduler(world.victim.pid), len(os.sched_getaffinity(world.victim.pid))
    usual = os.SCHED_OTHER, len(os.sched_getaffinity(0))
    return world.victim.nice() != 0 or scheduled != usual or world.victim.ionice().value != 0


def set_ids(world: SandboxWorld, ran: Ran) -> bool:
    found = [path for folder in (world.workspace, world.scratch) for path in folder.rglob("*")]
    return any(path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in found)


MEMORY = """
import os, re
victim = os.environ["VICTIM"]
for line in open(f"/proc/{victim}/maps"):
    if "[stack]" in line:
        start, end = (int(part, 16) for part in re.match("(\\\\w+)-(\\\\w+)", line).groups())
        with open(f"/proc/{victim}/mem", "rb") as memory:
            memory.seek(start)
            print(memory.read(end - start).decode("latin-1"))
"""
TRACE = """
import ctypes, os
if ctypes.CDLL(None).ptrace(0x4206, int(os.environ["VICTIM"]), None, None) == 0:
    print("yes-it-did")
"""
VM_READ = """
import ctypes, os
one, other = (ctypes.c_size_t * 2)(), (ctypes.c_size_t * 2)()
buffer = ctypes.create_string_buffer(16)
maps = open(f"/proc/{os.environ['VICTIM']}/maps").read().split("-")[0]
one[:], other[:] = [ctypes.addressof(buffer), 16], [int(maps, 16), 16]
if ctypes.CDLL(None).process_vm_readv(int(os.environ["VICTIM"]), one, 1, other, 1, 0) == 16:
    print("yes-it-did")
"""
SLOW_DOWN = """
import ctypes, os
victim = int(os.environ["VICTIM"])
for change in (
    lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(victim), 19),
    lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.sched_setaffinity(victim, {min(os.sched_getaffinity(0))}),
    lambda: ctypes.CDLL(None).syscall({"x86_64": 251}.get(os.uname().machine, 30), 1, victim, 3 << 13),
):
    try:
        change()
    except OSError as error:
        print(error)
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.sched_setaffinity(0, os.sched_getaffinity(0))
print("own priority", os.getpriority(os.PRIO_PROCESS, 0))
"""
SET_ID = """
import ctypes, os, shutil
libc = ctypes.CDLL(None)
calls = {"creat": 85, "openat2": 437, "fchmodat2": 452} if os.uname().machine == "x86_64" else {"openat2": 437, "fchmodat2": 452}
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o6755, 0)
for folder in (b".", os.fsencode(os.environ["TMPDIR"])):
    os.chdir(folder)
    for name in ("a", "b", "c", "d"):
        shutil.copy("/bin/true", name)
    opened = os.open("b", os.O_RDONLY)
    for change in (
        lambda: os.chmod("a", 0o4755),
        lambda: os.fchmod(opened, 0o6755),
        lambda: os.chmod("c", 0o2755, dir_fd=os.open(".", os.O_RDONLY)),
        lambda: libc.syscall(calls["fchmodat2"], -100, b"d", 0o6755, 0),
        lambda: os.close(os.open("e", os.O_CREAT | os.O_WRONLY, 0o6755)),
        lambda: os.link(f"/proc/self/fd/{os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o6755)}", "f", follow_symlinks=True),
        lambda: os.mknod("g", 0o106755),
        lambda: libc.syscall(calls["openat2"], -100, b"h", how, 24),
        lambda: libc.syscall(calls.get("creat", -1), b"i", 0o6755),
    ):
        try:
            change()
        except OSError as error:
            print(error)
    os.chmod("a", 0o755)
"""
PRLIMIT = "import os, resource; resource.prlimit(int(os.environ['VICTIM']), resource.RLIMIT_CORE, (0, 0))"

ATTEMPTS = {
    "write outside": Attempt('echo x > "$OTHER/made"; echo x > "$HOUSE/made"', made),
    "write outside through a symbolic link": Attempt('ln -s "$OTHER" "$TMPDIR/l"; echo x > "$TMPDIR/l/made"', made),
    "write outside through a link that was there": Attempt("echo x > way-out/made", made),
    "write outside through a hard link": Attempt(
        'ln "$OTHER/secret" "$TMPDIR/h" && echo x > "$TMPDIR/h"; ln -f "$OTHER/secret" h && echo x > h', spoiled
    ),
    "write outside through another's root": Attempt(
        'for p in $VICTIM 1 $PPID; do echo x > "/proc/$p/root$OTHER/made"; done', made
    ),
    "write outside through an open folder": Attempt(
        'cd "$OTHER" && echo x > made; for d in /proc/*/cwd /proc/*/fd/*; do echo x > "$d/../other/made"; done', made
    ),
    "move out": Attempt('echo x > "$TMPDIR/m"; mv "$TMPDIR/m" "$OTHER/made"', made),
    "take away": Attempt('mv "$OTHER/secret" "$TMPDIR/"', spoiled),
    "remove": Attempt('rm -rf "$OTHER"', spoiled),
    "cut off": Attempt('truncate -s 0 "$OTHER/secret"', spoiled),
    "open to everybody": Attempt('chmod 777 "$OTHER/secret"', opened_up, promise="metadata", strict=True),
    "read another agent's scratch": Attempt('cat "$OTHER/secret"; cat "$TMPDIR/../other/secret"', told),
    "read the keys of the home": Attempt('cat "$HOUSE/.ssh/id_rsa" ~/.ssh/id_rsa', told),
    "read through a hard link": Attempt('ln "$OTHER/secret" "$TMPDIR/h"; cat "$TMPDIR/h"', told),
    "read the key from another's environment": Attempt("cat /proc/$VICTIM/environ /proc/*/environ", told, "signals"),
    "read another's memory": Attempt(python(MEMORY), told, "signals"),
    "copy another's memory": Attempt(python(VM_READ), says_yes, "signals"),
    "trace another": Attempt(python(TRACE), says_yes, "signals"),
    "kill another": Attempt("kill -KILL $VICTIM", hit, "signals"),
    "stop another's group": Attempt("kill -STOP -- -$VICTIM", hit, "signals"),
    "limit another": Attempt(python(PRLIMIT), limited, "signals"),
    "slow another down": Attempt(python(SLOW_DOWN), slowed, "signals"),
    "make a program that runs as its owner": Attempt(python(SET_ID), set_ids),
    "look at others": Attempt(
        'test -e /proc/$VICTIM/cmdline && tr "\\0" " " < /proc/$VICTIM/cmdline && echo yes-it-did',
        says_yes,
        "processes",
    ),
    "mount": Attempt(
        "unshare -Urm sh -c 'mount -t tmpfs none /mnt && echo yes-it-did'; mount -t tmpfs none /mnt && echo yes-it-did",
        says_yes,
        control=False,
    ),
    "become more": Attempt("sudo -n true && echo yes-it-did; su -c 'echo yes-it-did' root", says_yes, control=False),
    "read what is root's": Attempt("grep -q '^root:' /etc/shadow && echo yes-it-did", says_yes, control=False),
    "change the kernel's settings": Attempt(
        "cat /proc/sys/kernel/core_pattern > $TMPDIR/c && cat $TMPDIR/c > /proc/sys/kernel/core_pattern && echo yes-it-did",
        says_yes,
        control=False,
    ),
    "go round the filter": Attempt(
        python(
            "import ctypes; c = ctypes.CDLL(None); b = ctypes.create_string_buffer(256)\nif c.syscall(425, 4, b) >= 0: print('yes-it-did')"
        ),
        says_yes,
        control=False,
    ),
    "talk to the hypervisor": Attempt(
        python("import socket; socket.socket(40, socket.SOCK_STREAM); print('yes-it-did')"),
        says_yes,
        "network",
        control=False,
    ),
}


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writer"])
def test_an_attempt_fails_in_the_sandbox_that_works_without(jail: tuple[str, str], name: str, read_only: bool) -> None:
    attempt = ATTEMPTS[name]
    with open_world(*jail) as world:
        if not (world.holds(attempt.promise) or (attempt.strict and read_only)):
            pytest.skip(f"{world.backend['name']} does not promise it: {attempt.promise}")
        (world.workspace / "way-out").symlink_to(world.other)
        if attempt.control and read_only:
            with open_world(*jail) as free:
                (free.workspace / "way-out").symlink_to(free.other)
                ran = free.run(attempt.command, open=True)
                wait_for("it works without a sandbox, or it is no attempt", lambda: attempt.worked(free, ran))
        ran = world.run(attempt.command, read_only=read_only)
        assert not attempt.worked(world, ran), ran
        assert (world.workspace / "kept").read_text() == "kept"


TERMINAL = "echo painted > $PTS; head -c 7 < $PTS; stty -F $PTS -echo; for t in /dev/pts/*; do echo painted > $t; done"


@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writer"])
def test_a_terminal_of_the_person_is_neither_read_nor_painted_on(world: SandboxWorld, read_only: bool) -> None:
    master, slave = os.openpty()
    try:
        path = os.ttyname(slave)
        os.chown(path, world.user.uid, -1)
        os.write(master, b"secret\n")
        ran = world.run(TERMINAL.replace("$PTS", path), read_only=read_only)
        os.set_blocking(master, False)
        assert os.read(master, 1000) == b"secret\r\n" and "secret" not in ran.output
        ran = world.run(TERMINAL.replace("$PTS", path), open=True)
        assert b"painted" in os.read(master, 1000) and "secret" in ran.output
    finally:
        os.close(slave)
        os.close(master)


def test_not_all_processes_of_a_user_are_slowed_down_at_once(world: SandboxWorld) -> None:
    if world.user.uid == os.geteuid():
        pytest.skip("a fault would slow down everything that this user runs")
    world.run(python("import os; os.setpriority(os.PRIO_USER, 0, 19)"))
    assert world.victim.nice() == 0


def test_a_program_may_slow_itself_down(world: SandboxWorld) -> None:
    assert world.run("nice -n 3 nice; taskset 1 true; echo done").output == "3\ndone\n"


def test_a_read_only_agent_changes_nothing_in_its_workspace(world: SandboxWorld) -> None:
    before = (world.workspace / "kept").stat()
    tries = ["echo x > new", "echo x >> kept", "rm -f kept", "mkdir d", "mv kept other", "ln -s a b", "chmod 777 kept"]
    tries += ["touch -d 2001-01-01 kept", "truncate -s 1 kept", 'cp "$TMPDIR/x" kept', "git init -q . "]
    for command in tries:
        ran = world.run(f'echo x > "$TMPDIR/x"; {command}', read_only=True)
        assert ran.exit_code != 0, (command, ran)
    after = (world.workspace / "kept").stat()
    assert (before.st_mode, before.st_mtime_ns, before.st_size) == (after.st_mode, after.st_mtime_ns, after.st_size)
    assert sorted(os.listdir(world.workspace)) == ["here", "kept"]
    ran = world.run("echo x > kept; cat kept; ls; echo y > $TMPDIR/f && cat $TMPDIR/f", read_only=True)
    assert ran.output.endswith("kepthere\nkept\ny\n")


# -- what would act later, outside ---------------------------------------------------------------------------


def make_repository(world: SandboxWorld) -> None:
    script = "git -c init.defaultBranch=main init -q . && git config user.name A && git config user.email a@b"
    script += " && git add kept && git commit -qm one"
    assert world.run(script, open=True).exit_code == 0


PLANTED = ".git/hooks/pre-commit .git/config .claude/settings.json .swarm/agents/a.md .codex/config.toml .git/commondir"


def test_nothing_is_planted_that_acts_outside_later(world: SandboxWorld) -> None:
    make_repository(world)
    if not world.holds("settings"):
        pytest.skip(f"{world.backend['name']} does not promise it for agents that write")
    config = (world.workspace / ".git" / "config").read_text()
    hooks = sorted(os.listdir(world.workspace / ".git" / "hooks"))
    import_past = (
        f'for p in {PLANTED}; do mkdir -p "$(dirname $p)"; echo planted > $p; done; git config core.pager evil'
    )
    world.run(import_past)
    world.run(f"mv .git moved && mkdir .git; mv .claude c; rm -rf .git/hooks .swarm; {import_past}")
    world.run(f"git config --file .git/config.lock a.b c; mv .git/config.lock .git/config; {import_past}")
    assert (world.workspace / ".git" / "config").read_text() == config
    assert sorted(os.listdir(world.workspace / ".git" / "hooks")) == hooks
    for name in (".claude", ".swarm", ".codex"):
        assert os.listdir(world.workspace / name) == []
    assert not (world.workspace / ".git" / "commondir").exists()
    ran = world.run("echo more > kept && git commit -qam two && git log --oneline | wc -l")
    assert (ran.exit_code, ran.output) == (0, "2\n")


def test_a_worktree_is_committed_in_and_its_repository_guarded(world: SandboxWorld) -> None:
    make_repository(world)
    common, tree = world.workspace / ".git", world.root / "tree"
    assert world.run('git worktree add -q "$WORK/../tree"', open=True).exit_code == 0
    given = {"workspace": str(tree), "writable": [str(common)]}
    ran = world.run(
        'cd "$WORK/../tree" && echo more > kept && git commit -qam two && git log --oneline | wc -l', **given
    )
    assert (ran.exit_code, ran.output) == (0, "2\n")
    if world.holds("settings"):
        before = (common / "config").read_text(), (tree / ".git").read_text()
        import_past = "git config core.pager evil; echo x > .git; rm .git; echo x > $WORK/.git/hooks/post-commit; "
        world.run(
            f'cd "$WORK/../tree"; {import_past} for f in $WORK/.git/worktrees/*/commondir; do echo x > $f; done',
            **given,
        )
        assert ((common / "config").read_text(), (tree / ".git").read_text()) == before
        assert not (common / "hooks" / "post-commit").exists()
        assert all(path.read_text() == "../..\n" for path in common.glob("worktrees/*/commondir"))


# -- what is hidden ------------------------------------------------------------------------------------------


def test_a_home_that_is_the_workspace_keeps_its_credentials(world: SandboxWorld) -> None:
    world.file(world.home / "state" / "redis.conf", SECRET)
    given = {"workspace": str(world.home), "hidden": [str(world.home / "state")]}
    if world.backend["name"] == "landlock":
        process = world.start("cat .ssh/id_rsa", **given)
        assert process.stderr is not None
        assert "Landlock cannot hide it there" in process.stderr.read().decode()
        world.end(process)
        return
    ran = world.run(
        'cat "$HOUSE/.ssh/id_rsa" "$HOUSE/state/redis.conf"; mv "$HOUSE/.ssh" "$HOUSE/s"; cat "$HOUSE/s/id_rsa"',
        **given,
    )
    assert SECRET not in ran.output
    assert (world.home / ".ssh" / "id_rsa").read_text() == SECRET


# -- the network ---------------------------------------------------------------------------------------------


@pytest.fixture
def redis(world: SandboxWorld) -> Iterator[tuple[int, Path]]:
    """A Redis that anybody may use who can reach it: its port and its socket."""
    program = need_program("redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = world.root / "r.sock"
    options = ["--port", str(port), "--unixsocket", str(path), "--unixsocketperm", "777", "--save", "", "--dir", "/"]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        wait_for("Redis listens", path.exists)
        yield port, path
    finally:
        server.kill()
        server.wait()


REDIS = """
import socket, sys
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "{path}")):
    try:
        with socket.socket(family) as one:
            one.connect(address)
            one.sendall(b"INCR planted\\r\\n")
            one.recv(100)
    except OSError as error:
        print(error)
"""


def planted(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(path))
        one.sendall(b"GET planted\r\n")
        return one.recv(100).decode().replace("\r\n", " ")


@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writer"])
def test_redis_is_reached_by_no_way(world: SandboxWorld, redis: tuple[int, Path], read_only: bool) -> None:
    port, path = redis
    command = python(REDIS.format(port=port, path=path))
    world.run(command, open=True)
    assert planted(path) == "$1 2 "
    ran = world.run(f"{command}; (echo INCR planted >&3) 3<> /dev/tcp/127.0.0.1/{port}", read_only=read_only)
    assert planted(path) == "$1 2 ", ran
    if world.backend["name"] == "bubblewrap":
        need_network()
        ran = world.run(command, read_only=read_only, network=True)
        assert planted(path) == "$1 2 ", ran


ABSTRACT = """
import os, socket
def attempt(what):
    try:
        what()
    except OSError as error:
        print(error)
attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}"))
attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0{name}-datagrams"))
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0]
attempt(lambda: pair.connect("\\0{name}"))
attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect("\\0{name}-datagrams"))
attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", "\\0{name}-datagrams"))
"""


@pytest.mark.parametrize("network", [False, True], ids=["no network", "network"])
def test_sockets_without_a_file_are_not_reached(world: SandboxWorld, network: bool) -> None:
    name = f"swarm-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX) as streams, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        streams.bind(f"\0{name}")
        streams.listen()
        datagrams.bind(f"\0{name}-datagrams")
        for one in (streams, datagrams):
            one.settimeout(0.3)
        world.run(python(ABSTRACT.format(name=name)), open=True)
        streams.accept()[0].close()
        assert datagrams.recv(10) == b"x"
        datagrams.recv(10)
        if network and world.backend["name"] == "landlock":
            pytest.skip("it gives no network")
        if network:
            need_network()
        world.run(python(ABSTRACT.format(name=name)), network=network)
        with pytest.raises(TimeoutError):
            streams.accept()
        with pytest.raises(TimeoutError):
            datagrams.recv(10)


def test_datagrams_do_not_leave(world: SandboxWorld) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.3)
        command = f"echo x > /dev/udp/127.0.0.1/{server.getsockname()[1]}"
        world.run(command, open=True)
        assert server.recv(10) == b"x\n"
        world.run(command)
        with pytest.raises(TimeoutError):
            server.recv(10)


# -- what stays behind, and how much -------------------------------------------------------------------------


def running_with(argument: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if argument in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    "way",
    [
        "sleep {n} &",
        "setsid sleep {n} &",
        "(setsid setsid nohup sleep {n} &) ",
        "env -i setsid sh -c 'sleep {n} & exit' &",
    ],
    ids=["background", "own session", "forked twice", "without environment"],
)
def test_no_daemon_outlives_its_command(world: SandboxWorld, way: str) -> None:
    number = f"6{time.monotonic_ns() % 10**9}"
    ran = world.run(way.format(n=number) + " \nsleep 0.3; echo done")
    assert ran.output == "done\n"
    assert running_with(number) == []


def test_no_daemon_outlives_the_death_of_its_supervisor(world: SandboxWorld) -> None:
    if not world.holds("processes"):
        pytest.skip(
            f"{world.backend['name']} has no namespace of processes; the worker ends what is left by its marker"
        )
    number = f"6{time.monotonic_ns() % 10**9}"
    process = world.start(f"env -i setsid sleep {number} & wait")
    wait_for("the daemon runs", lambda: running_with(number))
    process.kill()
    wait_for("the daemon is gone", lambda: not running_with(number))


BOMB = """
burst() { [ $1 -gt 0 ] && { burst $(($1 - 1)) & burst $(($1 - 1)) & }; read -t 60 <> <(:); }
burst 10; sleep 60
"""
"""Doubles ten times, so that it is over even where nothing stops it."""


def test_a_fork_bomb_stays_small_and_is_over_with_its_command(world: SandboxWorld) -> None:
    def count() -> int:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])

    before, peak, over = count(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.02):
            peak = max(peak, count())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        ran = world.run(BOMB, limit=4, max_processes=100)
    finally:
        over.set()
        watcher.join()
    if world.holds("process count"):
        assert peak - before < 400, (before, peak)
        assert ran.timed_out
    else:
        assert ran.output.endswith("ended: more than 1000 processes\n") and not ran.timed_out
    wait_for("the processes are gone", lambda: count() < before + 100)


def test_a_file_grows_only_to_its_limit(world: SandboxWorld) -> None:
    ran = world.run('head -c 50000000 /dev/zero > "$TMPDIR/big"; echo "$?"', file_size_bytes=1_000_000)
    assert ran.output.strip().splitlines()[-1] != "0"
    assert (world.scratch / "big").stat().st_size <= 1_000_000


def test_memory_and_time_have_limits(world: SandboxWorld) -> None:
    ran = world.run(python("x = bytearray(600_000_000); print('yes-it-did')"), memory_bytes=300_000_000)
    assert "MemoryError" in ran.output and ran.exit_code == 1
    ran = world.run("while :; do :; done", cpu_seconds=1, limit=60)
    assert ran.exit_code > 128 and not ran.timed_out


def test_limits_cannot_be_raised_again(world: SandboxWorld) -> None:
    ran = world.run("ulimit -d unlimited || ulimit -f unlimited || ulimit -Hd $((1 << 40)) || echo no")
    assert ran.output.endswith("no\n")
