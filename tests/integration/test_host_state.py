"""Hosts know their state: a sick one leaves its agents to others, and what differs is named with its remedy.

Tests of swarm/agent/hosts.py, tasks/host.py, tasks/housekeeping.py, tasks/notes.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm.agent.hosts import HostState, compare_hosts
from swarm.agent.needs import Has
from swarm.core.errors import GitTrouble
from swarm.workspace.git_command import read_failure
from tests.e2e.prepared import prepared_swarm
from tests.fleet import Apart, Fleet
from tests.integration.test_carried import bash, play, results
from tests.needs import need_program
from tests.waiting import wait_for


@pytest.fixture
def hubbed(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose files go through a hub, on hosts whose checkouts lie at the same path. A lease is longer than any wait here."""
    need_program("git")
    given = {"hub": str(tmp_path / "hub"), "checkouts": tmp_path / "checkouts", "recheck_seconds": 600.0}
    given["lease_seconds"] = 90.0
    with closing(Fleet(disk_reserve_mib=1, **given)) as fleet:
        yield fleet


def _swarm(fleet: Fleet, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {**fleet.environment(), "SWARM_REDIS_URL": fleet.url, **env}
    return subprocess.run([prepared_swarm(), *words], env=given, cwd=fleet.folder, capture_output=True, text=True)


@pytest.mark.long
def test_agents_of_a_host_with_a_full_disk_run_elsewhere_and_one_line_says_so(hubbed: Fleet, tmp_path: Path) -> None:
    full = hubbed.start_worker(2, checkouts=tmp_path / "c", apart=Apart("full", disk_mib=24))
    small = hubbed.submit("go", hubbed.rehearse(play(bash("echo one > a.txt"), bash("sleep 3; cat a.txt"))))
    wait_for("it works there", lambda: small.agents()[0].turns, 40)
    (hubbed.workspace / "large").write_bytes(os.urandom(20 << 20))
    large = hubbed.submit("go", hubbed.rehearse(play(bash("wc -c < large"))))
    wait_for("the host says so", lambda: "worker.sick" in full.text(), 40)
    wait_for("nobody can run it", lambda: "its disk is full" in large.find_unmet(), 20)
    told = [line for line in _swarm(hubbed, "status").stdout.splitlines() if line.startswith("sick")]
    assert len(told) == 1 and "full" in told[0] and "disk is full" in told[0]
    assert "sick" in _swarm(hubbed, "workers").stdout
    assert "full: its disk is full" in " ".join(_swarm(hubbed, "doctor").stdout.split())
    healthy = hubbed.start_worker(2, checkouts=tmp_path / "d", apart=Apart("healthy"))
    assert (large.wait(40).state, small.wait(40).state) == ("completed", "completed")
    assert results(hubbed, large)[0].text.split() == [str(20 << 20)]
    assert large.agents()[0].id in healthy.text()
    assert "files.made_anew" not in full.text(), [line for line in full.text().splitlines() if "made_anew" in line]
    moved = [event for event in large.follow() if event.kind == "handed_over"]
    assert any("the disk of full is full" in event.fields["why"] for event in moved)
    assert not any(event.kind == "rescued" for job in (small, large) for event in job.follow()), "no lease ran out"
    assert "waits for the hub" not in full.text() + large.agents()[0].activity


@pytest.mark.long
def test_a_host_below_its_reserve_begins_nothing_until_it_has_room(hubbed: Fleet, tmp_path: Path) -> None:
    given = {"SWARM_DISK_RESERVE_MIB": "64", "SWARM_RECHECK_SECONDS": "1"}
    hubbed.start_worker(1, checkouts=tmp_path / "c", apart=Apart("small", disk_mib=32), **given)
    sick = wait_for("it knows", lambda: next((has.sick for has in hubbed.swarm.workers() if has.sick), ""), 20)
    assert "32 MiB" in sick or "31 MiB" in sick
    job = hubbed.submit("go", hubbed.rehearse(play(bash("ls"))))
    assert any("SWARM_DISK_RESERVE_MIB" in warning for warning in job.warnings), "said at submission"
    hubbed.start_worker(1, checkouts=tmp_path / "d", apart=Apart("large"))
    assert job.wait(40).state == "completed"


@pytest.mark.long
def test_a_host_with_a_wrong_clock_takes_no_agents_and_one_line_says_so(hubbed: Fleet, tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(
        "import time\nnow = time.time\ntime.time = lambda: now() - 400\n"
    )
    hubbed.start_worker(1, checkouts=tmp_path / "c", apart=Apart("late"), PYTHONPATH=str(tmp_path / "late"))
    wait_for("it knows", lambda: any(has.sick for has in hubbed.swarm.workers()), 20)
    job = hubbed.submit("go", hubbed.rehearse(play(bash("ls"))))
    assert any("its clock is 400 s behind Redis' clock" in warning for warning in job.warnings), "said at submission"
    told = [line for line in _swarm(hubbed, "status").stdout.splitlines() if line.startswith("sick")]
    assert len(told) == 1 and "late takes no agents: its clock is 400 s behind" in told[0]
    shown = " ".join(_swarm(hubbed, "doctor", "--fleet").stdout.split())
    assert "late: its clock is 400 s behind Redis' clock" in shown and "clock: timedatectl set-ntp true" in shown
    hubbed.start_worker(1, checkouts=tmp_path / "d", apart=Apart("right"))
    assert job.wait(40).state == "completed"


def test_a_hub_that_no_host_reaches_is_told_and_makes_no_host_sick(hubbed: Fleet, tmp_path: Path) -> None:
    hub = Path(str(hubbed.settings.hub))
    hub.mkdir()
    # The only worker has an address that leads nowhere.
    cut = hubbed.start_worker(
        1, checkouts=tmp_path / "c", apart=Apart("cut"), SWARM_HUB="http://127.0.0.1:9/hub", SWARM_RECHECK_SECONDS="600"
    )
    state = wait_for("it knows", lambda: next(iter(hubbed.swarm.workers())).host_state.hub_trouble, 20)
    assert state and "worker.sick" not in cut.text(), "nobody reaches it"
    assert "hub in reach" in _swarm(hubbed, "doctor", "--fleet").stdout


def test_a_submission_that_nobody_can_run_names_the_remedy_at_once(hubbed: Fleet, tmp_path: Path) -> None:
    hubbed.start_worker(1)
    elsewhere = str(tmp_path / "other")
    ran = _swarm(hubbed, "run", "--detach", "-w", str(hubbed.workspace), "hello", SWARM_CHECKOUTS=elsewhere)
    assert ran.returncode == 0 and ran.stdout.startswith("job-"), ran.stderr
    assert "no worker can run it" in ran.stderr
    assert f"set SWARM_CHECKOUTS={hubbed.settings.checkouts_folder()} where you submit" in ran.stderr
    checks = {
        one["name"]: one
        for one in json.loads(_swarm(hubbed, "doctor", "--fleet", "--json", SWARM_CHECKOUTS=elsewhere).stdout)
    }
    assert not checks["jobs from here"]["ok"] and "set SWARM_CHECKOUTS=" in checks["jobs from here"]["remedy"]


@pytest.mark.parametrize(
    ("complaint", "trouble"),
    [
        ("fatal: write error: No space left on device", "disk"),
        ("error: unable to write file a: Disk quota exceeded", "disk"),
        ("remote: fatal: write error: No space left on device   \nerror: remote unpack failed: unpack-objects", "away"),
    ],
)
def test_a_full_disk_here_is_not_taken_for_the_hubs(complaint: str, trouble: GitTrouble) -> None:
    assert read_failure("push", complaint).trouble == trouble


def test_differences_between_hosts_name_their_remedies() -> None:
    one = HostState(sandbox="bubblewrap", extras=("api", "mcp"), python="3.11.2", git="2.39.5")
    two = HostState(extras=("api",), python="3.11.9", git="2.47.1", clock_offset=-9.0, hub_trouble="no route")
    workers = [
        Has(host="a", hub="http://h", checkouts="/srv/c", version="0.2.0", host_state=one),
        Has(host="b", hub="http://h", checkouts="/var/c", version="0.10.0", host_state=two, sick="its disk is full"),
        Has(host="c", hub="http://h", checkouts="/srv/c", version="0.2.0", host_state=one),
    ]
    found = {each.name: each for each in compare_hosts(workers)}
    assert found["hub"].found == "http://h" and not found["hub"].remedy and not found["Python"].remedy
    assert found["checkouts"].remedy == "set SWARM_CHECKOUTS=/srv/c on b"
    assert found["extras"].remedy == "on b: pip install 'celery-swarm[mcp]'"
    assert found["version"].remedy == "pip install 'celery-swarm==0.10.0' on a, c"
    assert found["Git"].remedy == "install git 2.47 on a, c"
    assert "b: its clock is 9 s behind" in found["clock"].found and found["clock"].remedy
    assert "no route" in found["hub in reach"].found and "disk" in found["health"].found
    assert "bubblewrap" in found["sandbox"].remedy
