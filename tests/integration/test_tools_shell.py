"""Bash, BashOutput and KillShell with real processes, some of which do not want to die.

Tests of swarm/runtime/scratch.py, swarm/tools/background.py, swarm/tools/environment.py, swarm/tools/launcher.py,
swarm/tools/processes.py, swarm/tools/shell.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from swarm.core.errors import Interrupted, ToolError
from swarm.core.settings import Settings
from swarm.runtime.scratch import scratch_root
from swarm.tools import ToolContext
from swarm.tools.background import MAX_SHELLS, kill_orphans, kill_shells, list_shells, shell_state
from swarm.tools.environment import clean_environment
from swarm.tools.processes import MAX_OUTPUT_BYTES, run_command
from tests.tool_world import World, make_world
from tests.waiting import wait_for


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def pid_in(path: Path) -> int:
    wait_for(f"{path.name} holds a number", lambda: path.exists() and path.read_text().strip().isdigit())
    return int(path.read_text())


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# -- what a command gives back ----------------------------------------------------------------------------


def test_stdout_and_stderr_come_back_in_order(world: World) -> None:
    result = world.call("Bash", command="echo one; echo two >&2; echo three")
    assert result.text == "one\ntwo\nthree" and not result.is_error


def test_a_failure_is_an_error_with_the_exit_code(world: World) -> None:
    result = world.call("Bash", command="echo bad; exit 3")
    assert result.text == "bad\n[exit code 3]" and result.is_error
    assert world.call("Bash", command="kill -SEGV $$").text.endswith("[exit code 139]")


def test_no_output_is_said_to_be_none(world: World) -> None:
    assert world.call("Bash", command="true").text == "(no output)"


def test_a_command_runs_in_the_workspace_and_its_cd_does_not_last(world: World) -> None:
    (world.root / "sub").mkdir()
    assert world.call("Bash", command="cd sub && pwd").text == f"{world.root}/sub"
    assert world.call("Bash", command="pwd").text == str(world.root)


def test_a_command_gets_no_input_and_a_usual_broken_pipe(world: World) -> None:
    assert world.call("Bash", command="cat; yes | head -1").text == "y"


def test_output_that_is_too_long_is_kept_and_cut(world: World) -> None:
    result = world.call("Bash", command="seq 1 50000; exit 1")
    assert result.text.startswith("1\n2\n") and result.text.endswith("50000\n[exit code 1]")
    assert 'Read(file_path="output:toolu_1"' in result.text
    assert world.outputs.texts["output:toolu_1"].count("\n") == 49_999


def test_output_beyond_the_cap_is_discarded_and_the_command_goes_on(world: World) -> None:
    result = world.call("Bash", command=f"head -c {MAX_OUTPUT_BYTES + 1000} /dev/zero | tr '\\0' x; touch done")
    assert "[1,000 bytes after the first" in result.text
    assert (world.root / "done").exists()
    assert len(world.outputs.texts["output:toolu_1"]) == MAX_OUTPUT_BYTES


def test_output_that_is_no_text_does_no_harm(world: World) -> None:
    assert "\0" not in world.call("Bash", command="printf 'a\\0b\\377'").text


def test_a_command_that_cannot_be_passed_is_refused(world: World) -> None:
    with pytest.raises(ToolError, match="NUL"):
        world.call("Bash", command="echo \0")


def test_commands_run_at_the_same_time_from_several_threads(world: World) -> None:
    results: dict[int, str] = {}

    def run(number: int) -> None:
        results[number] = world.call("Bash", command=f"echo {number}").text

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: str(number) for number in range(6)}


def test_a_command_runs_while_somebody_else_removes_what_the_run_before_left(world: World) -> None:
    over = threading.Event()

    def remove() -> None:
        while not over.is_set():
            shutil.rmtree(world.ctx.scratch, ignore_errors=True)

    remover = threading.Thread(target=remove, daemon=True)
    remover.start()
    try:
        assert [world.call("Bash", command="echo there").text for _ in range(40)] == ["there"] * 40
    finally:
        over.set()
        remover.join(10)


# -- its environment --------------------------------------------------------------------------------------


def test_secrets_do_not_reach_a_command(world: World) -> None:
    secrets = {
        "ANTHROPIC_API_KEY": "hidden1",
        "GITHUB_TOKEN": "hidden2",
        "SWARM_REDIS_URL": "hidden3",
        "AWS_PROFILE": "hidden4",
        "CELERY_BROKER_URL": "hidden5",
        "DATABASE_URL": "postgres://user:hidden6@host/db",
        "PIP_INDEX_URL": "https://user:hidden7@host/simple",
        "SSH_AUTH_SOCK": "hidden8",
        "MY_OWN_VARIABLE": "hidden9",
    }
    os.environ.update(secrets)
    try:
        text = world.call("Bash", command="env; cat /proc/$PPID/environ").text
    finally:
        for name in secrets:
            del os.environ[name]
    assert "PATH=" in text and "hidden" not in text


def test_the_environment_keeps_programs_from_waiting_and_has_its_own_temporary_folder(world: World) -> None:
    world.ctx.environment = {"EXTRA": "yes"}
    text = world.call("Bash", command='echo "$TERM $GIT_TERMINAL_PROMPT $EXTRA $TMPDIR"; touch "$TMPDIR/x"').text
    assert text == f"dumb 0 yes {world.ctx.scratch}"


def test_a_url_is_kept_only_without_credentials() -> None:
    kept = clean_environment({"https_proxy": "http://proxy:3128", "http_proxy": "http://me:pw@proxy:3128"})
    assert kept["https_proxy"] == "http://proxy:3128" and "http_proxy" not in kept


# -- its end ----------------------------------------------------------------------------------------------


def test_the_time_limit_kills_grandchildren_that_ignore_the_term_signal(world: World) -> None:
    command = "bash -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.1; done' & echo started; wait"
    result = world.call("Bash", command=command, timeout=500)
    assert result.is_error and result.text.startswith("started\n[ended after 0.5 s, its time limit")
    assert gone(pid_in(world.root / "pid"))


def test_a_command_may_clean_up_at_its_time_limit(world: World) -> None:
    world.call("Bash", command="trap 'echo bye > bye; exit 0' TERM; while :; do sleep 0.05; done", timeout=300)
    assert (world.root / "bye").read_text() == "bye\n"


@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 & echo $! > pid",
        "setsid bash -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done",
        "env -i setsid bash -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done",
        "(setsid setsid nohup bash -c 'echo $$ > pid; exec sleep 600' &) ; while [ ! -s pid ]; do sleep 0.01; done",
    ],
    ids=["background", "own session", "own session and environment", "daemon"],
)
def test_nothing_that_a_command_left_running_outlives_it(world: World, command: str) -> None:
    assert not world.call("Bash", command=command).is_error
    assert gone(pid_in(world.root / "pid"))


@pytest.mark.parametrize("number", ["KILL", "STOP"])
def test_a_command_that_attacks_its_supervisor_dies_with_it(world: World, number: str) -> None:
    daemon = "setsid bash -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done"
    outcome = run_command(world.ctx, f"{daemon}; kill -{number} $PPID; sleep 600", None, 0.5, overtime_seconds=0.5)
    assert outcome.exit_code == 137
    assert gone(pid_in(world.root / "pid"))


def test_a_command_dies_when_the_agent_must_stop(world: World) -> None:
    def check() -> None:
        if (world.root / "pid").exists():
            raise Interrupted

    world.ctx.check = check
    with pytest.raises(Interrupted):
        world.call("Bash", command="setsid sleep 600 & echo $! > pid; wait")
    wait_for("it is gone", lambda: gone(pid_in(world.root / "pid")))


ROOT = Path(__file__).parents[2]
RUNNER = """
import sys
from pathlib import Path
from tests.tool_world import make_world
world = make_world(Path(sys.argv[1]))
world.call("Bash", command=sys.argv[2], run_in_background=len(sys.argv) > 3)
"""


def test_a_worker_that_is_killed_leaves_no_shell(tmp_path: Path) -> None:
    command = "setsid bash -c 'echo $$ > inner; exec sleep 600' & echo $$ > outer; wait"
    worker = subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path), command], cwd=ROOT)
    inner, outer = pid_in(tmp_path / "work" / "inner"), pid_in(tmp_path / "work" / "outer")
    supervisor = psutil.Process(outer).ppid()
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    wait_for("shell and supervisor are gone", lambda: gone(inner) and gone(outer) and gone(supervisor))


# -- the sandbox ------------------------------------------------------------------------------------------


def test_a_read_only_agent_gets_a_shell_only_inside_a_sandbox(tmp_path: Path) -> None:
    world = make_world(tmp_path, read_only=True)
    with pytest.raises(ToolError, match="no sandbox"):
        world.call("Bash", command="true")

    def confine(ctx: ToolContext, argv: list[str]) -> list[str]:
        return ["env", "CONFINED=yes", *argv]

    world.ctx.confine = confine
    assert world.call("Bash", command="echo $CONFINED").text == "yes"


def test_a_sandbox_that_cannot_be_started_is_told(world: World) -> None:
    world.ctx.confine = lambda ctx, argv: ["/no/such/sandbox", *argv]
    result = world.call("Bash", command="true")
    assert result.is_error and "cannot start /no/such/sandbox" in result.text


# -- in the background ------------------------------------------------------------------------------------


def start(world: World, command: str) -> str:
    text = world.call("Bash", command=command, run_in_background=True).text
    return next(word.rstrip(";.") for word in text.split() if word.startswith("shell_"))


def output(world: World, shell_id: str, call: str, **extra: str) -> str:
    world.ctx.tool_use_id = call
    return world.call("BashOutput", bash_id=shell_id, **extra).text


def test_a_background_command_is_read_step_by_step_to_its_end(world: World) -> None:
    shell_id = start(world, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 4")
    assert world.ctx.scratch is not None
    out = world.ctx.scratch / "shells" / f"{shell_id}.out"
    wait_for("the first line", lambda: out.read_text() == "one\n")
    assert output(world, shell_id, "call1") == f"one\n[{shell_id} is running]"
    assert output(world, shell_id, "call2") == f"(no new output)\n[{shell_id} is running]"
    (world.root / "go").touch()
    record = list_shells(world.ctx.scratch)[0]
    wait_for("it has ended", lambda: shell_state(world.ctx.scratch, record)[0] == "ended")  # type: ignore[arg-type]
    assert output(world, shell_id, "call3") == f"two\n[{shell_id} has ended: exit code 4]"
    assert output(world, shell_id, "call3").startswith("two\n"), "a call that is run again answers the same"
    assert output(world, shell_id, "call4").startswith("(no new output)")


def test_background_output_can_be_filtered(world: World) -> None:
    shell_id = start(world, "seq 1 20")
    assert world.ctx.scratch is not None
    record = list_shells(world.ctx.scratch)[0]
    wait_for("it has ended", lambda: shell_state(world.ctx.scratch, record)[0] == "ended")  # type: ignore[arg-type]
    assert output(world, shell_id, "call1", filter="^1.$").startswith("\n".join(map(str, range(10, 20))) + "\n[")


def test_kill_shell_ends_a_command_with_its_daemons(world: World) -> None:
    shell_id = start(world, "setsid bash -c 'echo $$ > pid; exec sleep 600' & wait")
    pid = pid_in(world.root / "pid")
    assert world.call("KillShell", shell_id=shell_id).text == f"Killed {shell_id}."
    wait_for("it is gone", lambda: gone(pid))
    assert world.call("KillShell", shell_id=shell_id).text == f"{shell_id} had already ended."
    assert f"[{shell_id} has ended: exit code 137]" in output(world, shell_id, "call1")


def test_a_command_that_has_hardly_begun_is_ended_by_its_own_supervisor(world: World) -> None:
    shell_id = start(world, "sleep 600")
    scratch = world.ctx.scratch
    [shell] = list_shells(scratch) if scratch else []
    world.call("KillShell", shell_id=shell_id)
    # A supervisor that never saw the end has to be killed, after ten seconds and without a report.
    assert scratch is not None and shell_state(scratch, shell)[0] == "ended"


def test_an_unknown_shell_is_an_error_that_lists_the_known(world: World) -> None:
    shell_id = start(world, "true")
    for tool, name in (("BashOutput", "bash_id"), ("KillShell", "shell_id")):
        with pytest.raises(ToolError, match=f"no background shell '../x'.*there are: {shell_id}"):
            world.call(tool, **{name: "../x"})


def test_too_many_background_commands_are_refused(world: World) -> None:
    for _ in range(MAX_SHELLS):
        start(world, "sleep 600")
    with pytest.raises(ToolError, match="run already"):
        start(world, "sleep 600")
    assert world.ctx.scratch is not None and kill_shells(world.ctx.scratch) == MAX_SHELLS


def test_background_commands_outlive_their_process_and_end_with_their_agent(tmp_path: Path) -> None:
    command = "echo $$ > pid; exec sleep 600"
    subprocess.run(
        [sys.executable, "-c", RUNNER, str(tmp_path), command, "background"], cwd=ROOT, check=True, timeout=60
    )
    pid = pid_in(tmp_path / "work" / "pid")
    assert not gone(pid)
    root = tmp_path / "scratch"
    assert kill_orphans(root, alive=lambda agent_id: agent_id == "agent-1") == 0
    assert not gone(pid)
    assert kill_orphans(root, alive=lambda agent_id: False) == 1
    wait_for("it is gone", lambda: gone(pid))
    assert list_shells(root / "agent-1") == []
    assert not (root / "agent-1").exists(), "also what its shells left there"


def test_a_record_that_names_a_stranger_kills_nobody(world: World) -> None:
    start(world, "true")
    assert world.ctx.scratch is not None
    record = list_shells(world.ctx.scratch)[0]
    wait_for("it has ended", lambda: shell_state(world.ctx.scratch, record)[0] == "ended")  # type: ignore[arg-type]
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        started = psutil.Process(stranger.pid).create_time()
        forged = record.model_copy(update={"pid": stranger.pid, "started": started})
        (world.ctx.scratch / "shells" / f"{record.id}.json").write_text(forged.model_dump_json())
        (world.ctx.scratch / "shells" / f"{record.id}.end").unlink()
        assert kill_shells(world.ctx.scratch) == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_background_command_that_lost_its_supervisor_is_still_ended(world: World) -> None:
    shell_id = start(world, "echo $$ > pid; kill -KILL $PPID; exec sleep 600")
    pid = pid_in(world.root / "pid")
    wait_for("its end is known", lambda: "was killed from outside" in output(world, shell_id, "call"))
    assert world.ctx.scratch is not None and kill_shells(world.ctx.scratch) == 1
    wait_for("it is gone", lambda: gone(pid))


# -- the folders of the agents ----------------------------------------------------------------------------


def test_a_scratch_folder_that_is_a_link_is_refused(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    world.ctx.scratch = tmp_path / "root" / "agent-1"
    world.ctx.scratch.parent.mkdir()
    world.ctx.scratch.symlink_to(elsewhere)
    with pytest.raises(ToolError, match="is not a folder of the user"):
        world.call("Bash", command="true")
    world.ctx.scratch = tmp_path / "linked" / "agent-1"
    world.ctx.scratch.parent.symlink_to(elsewhere)
    with pytest.raises(ToolError, match="is not a folder of the user"):
        world.call("Bash", command="true")
    assert os.listdir(elsewhere) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_scratch_folder_of_another_user_is_refused(world: World, tmp_path: Path) -> None:
    world.ctx.scratch = tmp_path / "root" / "agent-1"
    world.ctx.scratch.parent.mkdir()
    os.chown(world.ctx.scratch.parent, 65534, 65534)
    with pytest.raises(ToolError, match="is not a folder of the user 0"):
        world.call("Bash", command="true")


def test_scratch_folders_are_open_to_nobody_else(world: World, tmp_path: Path) -> None:
    world.ctx.scratch = tmp_path / "root" / "agent-1"
    world.call("Bash", command="true")
    assert [path.stat().st_mode & 0o777 for path in (world.ctx.scratch, world.ctx.scratch.parent)] == [0o700, 0o700]


def test_a_sweep_follows_no_link(tmp_path: Path) -> None:
    root, precious = tmp_path / "root", tmp_path / "home" / "project"
    root.mkdir()
    (precious / "shells").mkdir(parents=True)
    (root / "agent-x").symlink_to(precious)
    assert kill_orphans(root, lambda agent_id: False) == 0
    assert (precious / "shells").is_dir()
    root.rename(tmp_path / "moved")
    root.symlink_to(precious.parent)
    assert kill_orphans(root, lambda agent_id: False) == 0
    assert (precious / "shells").is_dir()


def test_two_swarms_of_one_user_have_folders_of_their_own() -> None:
    def root(url: str, prefix: str = "swarm") -> Path:
        return scratch_root(Settings(redis_url=url, key_prefix=prefix))

    assert root("redis://one/0") == root("redis://someone:secret@one/0")
    found = [root("redis://one/0"), root("redis://one/1"), root("redis://two/0"), root("redis://one/0", "other")]
    assert len(set(found)) == 4 and all(path.name.startswith(f"swarm-{os.getuid()}-") for path in found)
