"""`swarm serve` as a process of its own, for tests."""

from __future__ import annotations

import subprocess
import sys

import httpx

from tests.fleet import Fleet
from tests.flower import free_port
from tests.waiting import wait_for


class ApiServer:
    """`swarm serve` at one port, which can be killed."""

    def __init__(self, fleet: Fleet, **variables: str) -> None:
        self.fleet, self.port, self.variables = fleet, free_port(), variables
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        environment = {**self.fleet.environment(), "SWARM_REDIS_URL": self.fleet.url, **self.variables}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "swarm", "serve", "--port", str(self.port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for("the server answers", self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/v1/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
