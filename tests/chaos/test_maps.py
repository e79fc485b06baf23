"""A map whose command, workers and Redis are killed: each of its lines is in the output once.

Tests of swarm/cli/map.py, swarm/cli/map_progress.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.waiting import wait_for

ECHO = """
name: echo
latency_seconds: {latency}
rules:
  - {{name: echo, when: {{prompt: '^do (?P<what>.*)$'}}, reply: {{text: 'did {{what}}'}}}}
"""


def start(fleet: Fleet, model: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**fleet.environment(), "SWARM_REDIS_URL": fleet.url, **model}
    return subprocess.Popen(
        [sys.executable, "-m", "swarm", "map", *arguments],
        cwd=fleet.workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def written(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def check(output: Path, count: int) -> None:
    """Every line is there once."""
    results = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(each["line"] for each in results) == list(range(1, count + 1))
    assert all((each["input"], each["result"]) == (f"n{each['line']}", f"did n{each['line']}") for each in results)


def play(fleet: Fleet, count: int, *, latency: float) -> None:
    """End the command three times: it is asked to, it is killed with a worker in the middle of a line, and killed with Redis."""
    server = fleet.rehearse(ECHO.format(latency=latency))
    model = {"SWARM_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"}
    for worker in [fleet.begin_worker(3, **model) for _ in range(2)]:
        worker.wait_ready()
    lines, output = fleet.folder / "lines", fleet.workspace / "out.jsonl"
    lines.write_text("".join(f"n{number}\n" for number in range(1, count + 1)))
    command = start(fleet, model, "do {it}", "--from", str(lines), "--output", str(output), "--max-running", "6")
    for part in (1, 2, 3):
        wait_for(f"part {part} is written", lambda least=part * count // 5: written(output) >= least)  # type: ignore[misc]
        assert command.poll() is None, "it was over before it was killed"
        command.send_signal(signal.SIGINT if part == 1 else signal.SIGKILL)
        _, told = command.communicate(timeout=60)
        [made] = fleet.swarm.maps()
        if part == 1:
            assert command.returncode == 130 and f"swarm map --resume {made.id} --output" in told.decode(), told
        elif part == 2:
            fleet.workers[0].kill()
            # As a machine's death leaves a file.
            with output.open("ab") as file:
                file.write(b'{"map": "' + made.id.encode())
        else:
            os.kill(int(fleet.swarm.store.keyspace.client.info("server")["process_id"]), signal.SIGKILL)
            fleet.restart_redis()
        command = start(fleet, model, "--resume", made.id, "--output", str(output))
    _, told = command.communicate(timeout=110)
    assert command.returncode == 0, told.decode()
    check(output, count)
    # Whoever has it all is given nothing more.
    command = start(fleet, model, "--resume", made.id, "--output", str(output))
    assert command.wait(60) == 0 and written(output) == count


@pytest.mark.long
def test_each_line_is_in_the_output_once_though_who_writes_it_is_killed_three_times(at_work: Fleet) -> None:
    server = at_work.rehearse(ECHO.format(latency=0.4))
    lines = [f"n{number}" for number in range(1, 61)]
    made = at_work.swarm.map("do {it}", lines, base_url=server.url, workspace=at_work.workspace, max_running=4)
    output = at_work.workspace / "out.jsonl"
    for part in (1, 2, 3):
        command = start(at_work, {}, "--resume", made.id, "--output", str(output))
        wait_for("more is written", lambda least=part * 10: written(output) >= least)  # type: ignore[misc]
        command.kill()
        command.wait(30)
        with output.open("ab") as file:
            file.write(b'{"map": "' + made.id.encode())
    command = start(at_work, {}, "--resume", made.id, "--output", str(output))
    _, told = command.communicate(timeout=60)
    assert command.returncode == 0, told.decode()
    check(output, 60)


@pytest.mark.long
def test_the_same_of_a_thousand_lines_with_workers_and_redis_killed(fleet: Fleet) -> None:
    play(fleet, 1_000, latency=0.0)
