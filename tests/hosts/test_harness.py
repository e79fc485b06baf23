"""The hosts of these tests are what they are said to be.

Tests of tests/hosts/namespaces.py, tests/hosts/network.py.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.host import CHECKOUT, Host
from tests.hosts.namespaces import need_hosts
from tests.hosts.switch import Latency, Switch
from tests.needs import need, need_program
from tests.waiting import wait_for

MAKER = """
import pathlib, sys, time
from tests.hosts.host import Host
from tests.hosts.switch import Switch
switch = Switch()
host = Host(switch, "one", 1, pathlib.Path(sys.argv[1]) / "one")
print(switch.space.pid, host.start("sleep", "infinity", log="sleep.log").pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def switch() -> Iterator[Switch]:
    need_hosts()
    switch = Switch()
    yield switch
    switch.end()


def hears(host: Host, other: Host) -> bool:
    found = subprocess.run(host.entering("ping", "-c", "1", "-W", "1", "-q", other.address), capture_output=True)
    return found.returncode == 0


def test_hosts_share_no_file_no_process_and_no_name(switch: Switch, tmp_path: Path) -> None:
    one, two = (Host(switch, name, at, tmp_path / name) for at, name in enumerate(("one", "two"), start=1))
    one.run("sh", "-c", "echo kept > /srv/file; echo lost > /tmp/file; echo lost > /root/file")
    assert two.run("sh", "-c", "find /srv /tmp /root -name file; hostname").split() == ["two"]
    for place in (f"{CHECKOUT}/file", "/usr/file", "/etc/file"):
        assert one.run("sh", "-c", f"touch {place} 2>/dev/null || echo refused") == "refused\n"
    assert one.run("sh", "-c", "cat /proc/[0-9]*/comm").split()[0] == "sleep"
    one.cut_power()
    one.switch_on()
    assert one.run("find", "/srv", "/tmp", "/root", "-name", "file").split() == ["/srv/file"]


def test_cables_do_what_is_done_to_them(switch: Switch, tmp_path: Path) -> None:
    need_program("ping")
    need(Path("/dev/net/tun").exists(), "/dev/net/tun", "a cable with a latency takes it")
    one = Host(switch, "one", 1, tmp_path / "one")
    far = Host(switch, "far", 2, tmp_path / "far", Latency(20))
    told = one.run("ping", "-c", "3", "-i", "0.2", "-q", far.address)
    [least] = re.findall(r"= ([\d.]+)/", told)
    assert float(least) >= 40
    far.cable.pull()
    assert not hears(one, far)
    far.cable.plug_in()
    one.deafen(far)
    assert not hears(one, far) and not hears(far, one)
    one.hear()
    assert hears(one, far) and hears(far, one)


def test_hosts_vanish_with_whoever_made_them(tmp_path: Path) -> None:
    need_hosts()
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
    )
    assert maker.stdout is not None
    left = [Path(f"/proc/{pid}") for pid in maker.stdout.readline().split()]
    assert len(left) == 2 and all(path.exists() for path in left)
    maker.send_signal(signal.SIGKILL)
    maker.wait(10)
    maker.stdout.close()
    wait_for("nothing is left of it", lambda: not any(path.exists() for path in left))
