"""A small fleet for tests: a real Redis, real workers, the rehearsal server; each can be killed on its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from swarm import Job, Limits, Settings, Swarm
from swarm.definitions.model import PermissionMode
from swarm.local.redis_server import ensure_redis, stop_redis
from swarm.local.server_binary import ServerBinary
from swarm.models.catalogue import load_models
from swarm.runtime.scratch import scratch_root
from swarm.tools.background import kill_orphans
from tests.forking import Forked
from tests.needs import need, need_program
from tests.rehearsal import RehearsalServer, load_scenario
from tests.waiting import wait_for


class Worker:
    """One `celery worker` process with its pool."""

    def __init__(
        self,
        fleet: Fleet,
        concurrency: int,
        number: int,
        pool: str,
        env: dict[str, str],
        checkouts: Path | None,
        apart: Apart | None,
    ) -> None:
        self.log = fleet.folder / f"worker-{number}.log"
        ready = fleet.folder / f"worker-{number}.ready"
        argv = [sys.executable, "-m", "celery", "-A", "swarm.tasks", "worker", "-c", str(concurrency), "-P", pool]
        argv += ["-n", f"w{number}@test", "-l", "INFO"]
        environment = {**fleet.environment(), "SWARM_READY_FILE": str(ready), **env}
        self.process: subprocess.Popen[bytes] | Forked
        if checkouts is None and not any(name.startswith("PYTHON") for name in env):
            self.process = Forked(argv[2:], env=environment, cwd=fleet.folder, log=self.log)
        else:
            if checkouts is not None:
                argv = _with_checkouts(checkouts, fleet.settings.checkouts_folder(), argv, apart or Apart())
            self.process = subprocess.Popen(
                argv,
                cwd=fleet.folder,
                env=environment,
                stdout=self.log.open("ab"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._ready = ready

    @property
    def ready(self) -> bool:
        """Whether it has begun to take agents."""
        return self._ready.exists()

    def wait_ready(self) -> None:
        wait_for("the worker is ready", lambda: self.ready or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def children(self) -> list[psutil.Process]:
        """The pool's processes."""
        try:
            return psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """`kill -9` the whole worker: the main process and its pool, as a host's death would."""
        for process in [*self.children(), psutil.Process(self.process.pid)]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        self.process.wait(10)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the worker did not stop on signal {number}:\n{self.text()[-3000:]}") from None

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass(frozen=True)
class Apart:
    """What else a worker's host has of its own."""

    name: str = ""
    disk_mib: int = 0
    """The size of its checkouts' disk; 0: this machine's."""


def _with_checkouts(own: Path, place: Path, argv: list[str], apart: Apart) -> list[str]:
    """The command that runs `argv` where `own` is what lies at `place`, as on a host of its own: the path is the same on all of them."""
    for folder in (own, place):
        folder.mkdir(parents=True, exist_ok=True)
    alone = [need_program("unshare"), "--mount", "--uts", "--propagation", "private"]
    alone += [] if os.getuid() == 0 else ["--map-root-user"]
    need(subprocess.run([*alone, "true"], capture_output=True).returncode == 0, "a mount namespace")
    made = f'mount -t tmpfs -o size={apart.disk_mib}m disk "$2"' if apart.disk_mib else 'mount --bind "$1" "$2"'
    named = f"hostname {apart.name}" if apart.name else "true"
    mount = ["sh", "-c", f'{named} && {made} && shift 2 && exec "$@"', "mount", str(own), str(place)]
    return [*alone, *mount, *argv]


class Fleet:
    """Redis and workers under one private folder; `settings` fit both."""

    def __init__(self, *, server: ServerBinary | None = None, **settings: Any) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="swarm-t-"))
        defaults: dict[str, Any] = {"lease_seconds": 4.0, "sweep_seconds": 0.5}
        if model := os.environ.get("SWARM_TESTS_MODEL"):
            # The same tests in another vendor's format: `tests/integration/test_each_format.py`.
            prices = self.folder / "prices.yaml"
            prices.write_text(
                yaml.safe_dump({"models": {model: load_models().models["claude-sonnet-5-5"].model_dump()}})
            )
            defaults |= {"model": model, "small_model": model, "prices_file": prices}
        self.settings = Settings(state_dir=self.folder / "s", **{"redis_url": None, **defaults, **settings})
        self._server = server
        self.url = ensure_redis(self.settings, server)
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self.workers: list[Worker] = []
        self._servers: list[RehearsalServer] = []
        self.swarm = Swarm(self.settings)

    def environment(self) -> dict[str, str]:
        """What a worker process of this fleet sees."""
        hidden = ("SWARM_", "ANTHROPIC_", "CELERY_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        given = self.settings.model_dump(exclude_defaults=True, exclude_none=True)
        own = {f"SWARM_{name.upper()}": json.dumps(v) if isinstance(v, dict) else str(v) for name, v in given.items()}
        # What a command starts ends with it.
        return {**kept, "SWARM_KEEP_SECONDS": "0", **own}

    def restart_redis(self) -> None:
        """Start Redis again, from what its append-only file kept."""
        ensure_redis(self.settings, self._server)

    def start_worker(
        self,
        concurrency: int = 2,
        *,
        pool: str = "prefork",
        checkouts: Path | None = None,
        apart: Apart | None = None,
        **env: str,
    ) -> Worker:
        worker = self.begin_worker(concurrency, pool=pool, checkouts=checkouts, apart=apart, **env)
        worker.wait_ready()
        return worker

    def begin_worker(
        self,
        concurrency: int = 2,
        *,
        pool: str = "prefork",
        checkouts: Path | None = None,
        apart: Apart | None = None,
        **env: str,
    ) -> Worker:
        """Start one more worker, and do not wait until it is ready; with `checkouts` its copies lie there, as if on another host."""
        worker = Worker(self, concurrency, len(self.workers) + 1, pool, env, checkouts, apart)
        self.workers.append(worker)
        return worker

    def rehearse(self, scenario: Any = "tree", **options: Any) -> RehearsalServer:
        """A running rehearsal server; `scenario` is a name, a path or YAML text."""
        if isinstance(scenario, str) and "\n" in scenario:
            path = self.folder / f"scenario-{len(self._servers)}.yaml"
            path.write_text(scenario)
            scenario = str(path)
        server = RehearsalServer(load_scenario(scenario), **options)
        server.start()
        self._servers.append(server)
        return server

    def submit(
        self,
        prompt: str,
        server: RehearsalServer,
        *,
        agent: str = "general-purpose",
        mode: PermissionMode | None = None,
        **limits: Any,
    ) -> Job:
        given = {"max_depth": 8, "max_agents": 10_000, "max_running": 1_000, **limits}
        return self.swarm.submit(
            prompt, agent=agent, mode=mode, workspace=self.workspace, base_url=server.url, limits=Limits(**given)
        )

    @contextmanager
    def lend(self, workspace: Path) -> Iterator[Fleet]:
        """Lend the running fleet to one test, with a workspace of its own; what the test leaves running is cancelled."""
        workspace.mkdir()
        self.workspace = workspace
        try:
            yield self
        finally:
            for job in self.swarm.jobs():
                if not job.ended:
                    self.swarm.cancel(job.root_id)
            while self._servers:
                self._servers.pop().close()

    def wait_state(self, agent_id: str, *states: str, seconds: float = 30.0) -> str:
        """Wait until the agent is in one of these states."""

        def probe() -> str | None:
            state = self.swarm.agent(agent_id).state
            return state if state in states else None

        return wait_for(f"{agent_id} is {' or '.join(states)}", probe, seconds)

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()
        for server in self._servers:
            server.close()
        stop_redis(self.settings)
        kill_orphans(scratch_root(self.settings), lambda agent_id: False)
        for folder in (self.folder, scratch_root(self.settings)):
            shutil.rmtree(folder, ignore_errors=True)
