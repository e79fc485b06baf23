"""Telling a pool child to stop one agent: only that agent stops, and only where nothing is left half done.

Tests of tasks/process.py, tasks/publish.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

_POOL = """
import os, sys, time
from swarm.core.errors import Interrupted
from swarm.tasks import process

def run(agent_id, *, wait):
    with process.running(agent_id) as stop:
        print("runs", agent_id, flush=True)
        try:
            if wait:
                with stop.waiting():
                    time.sleep(30)
            else:
                give_up = time.monotonic() + 30
                while not stop.requested and time.monotonic() < give_up:
                    time.sleep(0.01)
                print("went on, requested", stop.requested, flush=True)
                stop.check()
        except Interrupted:
            print("stopped", agent_id, flush=True)

process.prepare_main()
start, go = os.pipe()
child = os.fork()
if child == 0:
    process.prepare_child()
    os.read(start, 1)
    run("agent-b", wait=True)
    run("agent-c", wait=False)
    os._exit(0)
for line in sys.stdin:
    if line.strip() == "go":
        os.write(go, b"x")
    else:
        process.stop_child(line.strip(), child)
os.waitpid(child, 0)
"""


def test_a_stop_reaches_the_agent_it_names_and_no_other() -> None:
    pool = subprocess.Popen(
        [sys.executable, "-c", _POOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
    )
    assert pool.stdin is not None and pool.stdout is not None
    read = pool.stdout.readline

    def write(line: str) -> None:
        assert pool.stdin is not None
        pool.stdin.write(f"{line}\n")
        pool.stdin.flush()

    write("go")
    assert read() == "runs agent-b\n"
    write("agent-a")  # the child ran it until just now
    write("agent-b")
    assert read() == "stopped agent-b\n"
    assert read() == "runs agent-c\n"
    write("agent-a")
    write("agent-c")
    assert read() == "went on, requested True\n"
    assert read() == "stopped agent-c\n"
    pool.stdin.close()
    assert pool.wait(30) == 0
    pool.stdout.close()
