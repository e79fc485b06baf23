"""`swarm join` makes a machine a host of a fleet: from the others' settings, checked, and the same the second time.

Tests of swarm/cli/join.py, swarm/local/settings_file.py, swarm/agent/hosts.py.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from dotenv import dotenv_values

from swarm.store.connection import connect
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Apart, Fleet
from tests.integration.test_carried import bash, play
from tests.needs import need_program
from tests.redis_servers import OwnServer
from tests.waiting import wait_for

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "swarm.env.example"


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with closing(OwnServer(need_program("redis-server"))) as server:
        server.start()
        server.client().execute_command("ACL", "SETUSER", "swarm-worker", "on", ">s3cret@", "~*", "&*", "+@all")
        yield server


def test_a_host_joins_with_what_the_others_have_and_runs_their_agents(server: OwnServer, tmp_path: Path) -> None:
    hub, checkouts, file = tmp_path / "hub", tmp_path / "checkouts", tmp_path / "swarm.env"
    shutil.copy(EXAMPLE, file)
    given = {"hub": str(hub), "checkouts": checkouts, "compact_tokens": 90_000, "hub_token": "t0ken"}
    with closing(Fleet(redis_url=server.url, **given)) as fleet:
        hub.mkdir()
        fleet.start_worker(1, checkouts=tmp_path / "c", apart=Apart("first"), SWARM_NETWORK="off")
        wait_for("it tells", lambda: any(has.host_state.settings for has in fleet.swarm.workers()))
        environment = {k: v for k, v in fleet.environment().items() if not k.startswith("SWARM_")}
        environment |= {"SWARM_STATE_DIR": str(fleet.folder / "s"), "HOME": str(tmp_path)}
        url = f"redis://swarm-worker@127.0.0.1:{server.port}/0"

        def join(**more: str) -> subprocess.CompletedProcess[str]:
            argv = [prepared_swarm(), "join", url, "--file", str(file)]
            return subprocess.run(argv, env=environment | more, input="s3cret@\n", capture_output=True, text=True)

        first = join()
        assert first.returncode == 0, first.stdout + first.stderr
        found = dotenv_values(file)
        assert found["SWARM_REDIS_URL"] == f"redis://swarm-worker:s3cret%40@127.0.0.1:{server.port}/0"
        assert connect(found["SWARM_REDIS_URL"]).ping()
        assert (found["SWARM_HUB"], found["SWARM_CHECKOUTS"]) == (str(hub), str(checkouts))
        assert (found["SWARM_COMPACT_TOKENS"], found["SWARM_NETWORK"]) == ("90000", "off")
        assert file.stat().st_mode & 0o077 == 0 and "FLOWER_BASIC_AUTH=" in file.read_text(), "other lines stay"
        assert "lacks SWARM_HUB_TOKEN" in first.stdout and "SWARM_HUB_TOKEN=… swarm join" in " ".join(
            first.stdout.split()
        )
        assert "s3cret" not in first.stdout + first.stderr
        again = join(SWARM_HUB_TOKEN="t0ken")
        assert "set SWARM_HUB_TOKEN\n" in again.stdout and "lacks SWARM_HUB_TOKEN" not in again.stdout
        before = file.read_bytes()
        assert "nothing to change" in join().stdout and file.read_bytes() == before

        for worker in fleet.workers:
            worker.kill()
        argv = [sys.executable, "-m", "swarm", "--env", str(file), "worker", "-c", "1"]
        with (tmp_path / "log").open("wb") as log:
            joined = subprocess.Popen(argv, env=environment, cwd=tmp_path, stdout=log, stderr=log)
        try:
            job = fleet.submit("go", fleet.rehearse(play(bash("echo one > a.txt"))))
            assert job.wait(60).state == "completed", (tmp_path / "log").read_text()[-3000:]
            words = Path(f"/proc/{joined.pid}/cmdline").read_bytes()
            assert b"s3cret" not in words and b"celery" in words
        finally:
            joined.terminate()
            joined.wait(30)


def test_what_cannot_be_joined_is_one_sentence(server: OwnServer, tmp_path: Path) -> None:
    def join(*words: str, given: str = "") -> str:
        argv = [prepared_swarm(), "join", *words, "--file", str(tmp_path / "f")]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        ran = subprocess.run(argv, env=environment, input=given, capture_output=True, text=True)
        assert ran.returncode and not (tmp_path / "f").exists()
        return ran.stderr

    url = f"redis://swarm-worker@127.0.0.1:{server.port}/0"
    assert "name the fleet's Redis" in join()
    assert "the password of swarm-worker on standard input" in join(url)
    assert "rejects the login" in join(url, given="wrong\n")
