"""A Celery application of somebody else beside a fleet: a Redis of its own, workers of its own, each of which can be killed."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from celery import Celery
from celery.result import AsyncResult

from swarm import Settings
from swarm.local.redis_server import ensure_redis, stop_redis
from swarm.store.connection import broker_url
from tests.fleet import Fleet
from tests.waiting import wait_for

OUTSIDE = Path(__file__).parent / "outside"


class Foreign:
    """The application `tests/outside/bookshop`, or another module of a folder, with workers."""

    def __init__(self, module: str = "bookshop", folder: Path = OUTSIDE, prefix: str = "", **options: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="swarm-f-"))
        self._settings = Settings(state_dir=self.folder / "s", redis_url=None)
        self.broker = broker_url(ensure_redis(self._settings))
        self._module, self._path = module, folder
        self._ledger = self.folder / "ledger"
        self._ledger.touch()
        self._workers: list[subprocess.Popen[bytes]] = []
        # For this process: what only sends canvases and reads results needs none of its code.
        self.app = Celery(module, broker=self.broker, backend=self.broker, set_as_current=False)
        self.app.conf.task_default_queue = "shop"
        self.prefix, self._options = prefix, options
        if prefix:
            self.app.conf.result_backend_transport_options = {"global_keyprefix": prefix}
            self.app.conf.broker_transport_options = {"global_keyprefix": prefix, **options}

    def environment(self, fleet: Fleet) -> dict[str, str]:
        """What a process of the application sees: which swarm it uses, and nothing of that one's workers."""
        path = os.pathsep.join([str(self._path), str(Path(__file__).parents[1])])
        shop = {
            "SHOP_BROKER": self.broker,
            "SHOP_LEDGER": str(self._ledger),
            "SHOP_PREFIX": self.prefix,
            "SHOP_OPTIONS": json.dumps(self._options),
            "PYTHONPATH": path,
        }
        return {**fleet.environment(), **shop, "SHOP_WORKSPACE": str(fleet.workspace)}

    def start_worker(self, fleet: Fleet, concurrency: int = 1) -> subprocess.Popen[bytes]:
        log = self.folder / f"worker-{len(self._workers)}.log"
        argv = [sys.executable, "-m", "celery", "-A", self._module, "worker", "-c", str(concurrency), "-l", "INFO"]
        process = subprocess.Popen(
            [*argv, "-n", f"shop{len(self._workers)}@test"],
            cwd=self.folder,
            env=self.environment(fleet),
            stdout=log.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._workers.append(process)
        wait_for("the shop's worker is ready", lambda: " ready." in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def kill_workers(self) -> None:
        """`kill -9` all of its workers, with their pools."""
        for process in self._workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    def ledger(self) -> list[tuple[str, str, str]]:
        """What its tasks have noted: task id, task, what."""
        return [tuple(line.split("\t")) for line in self._ledger.read_text().splitlines()]  # type: ignore[misc]

    def noted(self) -> Counter[str]:
        """How many tasks of each kind have run, one that ran twice counted once."""
        return Counter(name for _, name in {(task_id, name) for task_id, name, _ in self.ledger()})

    def logs(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("worker-*.log")))

    def wait(self, result: AsyncResult, *states: str, seconds: float = 60.0) -> str:
        """Wait for one of these states (default: success or failure)."""

        def probe() -> str | None:
            return result.state if result.state in (states or ("SUCCESS", "FAILURE")) else None

        try:
            return wait_for(f"{result.id} is {' or '.join(states) or 'over'}", probe, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {result.state}\n{self.logs()[-6000:]}") from None

    def close(self) -> None:
        self.kill_workers()
        # Results that are forgotten tell the server so.
        gc.collect()
        # Of those that a failed test still holds there is nobody left to tell.
        self.app.backend.remove_pending_result = lambda result: result
        self.app.close()
        stop_redis(self._settings)
        shutil.rmtree(self.folder, ignore_errors=True)
