"""A swarm over hosts: Redis on the first one, workers and the model's stand-in on the others; they share no folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import redis

from swarm import AgentView, Job, Settings, Swarm
from swarm.local.server_binary import find_server
from tests.forge_world import SECRET
from tests.hosts.host import CHECKOUT, DISK, Host
from tests.hosts.namespaces import need_hosts
from tests.hosts.switch import Latency, Switch
from tests.waiting import wait_for

MODEL_PORT, HUB_PORT, FORGE_PORT = 8123, 8441, 3000
_HUB_LOOKS = f"""
import asyncio, pathlib
from swarm.hub.repositories import RepositoryStore
from swarm.hub.maintenance import Jobs, HubMaintenance
from swarm.core.settings import load_settings
from swarm.store.connection import connect
from swarm.store.store import Store
depot = RepositoryStore(pathlib.Path("{DISK}/hub"), job_bytes=1, all_bytes=1)
jobs = Jobs(Store(connect(load_settings())), depot.folder / "redis-mark")
asyncio.run(HubMaintenance(depot, jobs, retention_seconds=3600, young_seconds=0).look())
"""
_STATION_LOOKS = """
from swarm.core.settings import load_settings
from swarm.store.store import Store
from swarm.store.connection import connect
from swarm.workspace import leftovers
leftovers.FORGOTTEN_SECONDS = -1
from swarm.tasks.housekeeping import Housekeeper
settings = load_settings()
Housekeeper(settings, Store(connect(settings), settings.key_prefix))()
"""
_REDIS = ("--protected-mode", "no", "--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction")


class Station:
    """A host with a worker, and what its agents take for the model. Both go with its power."""

    def __init__(self, network: HostNetwork, host: Host) -> None:
        self.host, self._network = host, network
        self.worker: subprocess.Popen[bytes] | None = None

    def begin_work(self, concurrency: int = 2, *, scenario: str = "tree", **env: str) -> None:
        """Start the model's stand-in and a worker, and do not wait for them."""
        given = {**self._network.environment(), **env}
        serve = [sys.executable, "-P", "-m", "swarm", "rehearse", scenario, "--port", str(MODEL_PORT)]
        self.host.start(*serve, log="model.log", env=given, cwd="/")
        self.ready.unlink(missing_ok=True)
        work = [sys.executable, "-P", "-m", "celery", "-A", "swarm.tasks", "worker", "-c", str(concurrency)]
        work += ["-n", f"w@{self.host.name}", "-l", "INFO"]
        self.worker = self.host.start(
            *work, log="worker.log", env={**given, "SWARM_READY_FILE": f"{DISK}/ready"}, cwd="/"
        )

    @property
    def ready(self) -> Path:
        """The file that is there once the worker takes agents."""
        return self.host.path(f"{DISK}/ready")

    def wait_ready(self) -> None:
        """Wait until its worker takes agents."""
        assert self.worker is not None
        worker = self.worker
        wait_for(f"the worker on {self.host.name} is ready", lambda: self.ready.exists() or worker.poll() is not None)
        assert worker.poll() is None, self.log()

    def ran(self, agent: AgentView) -> bool:
        """Whether the agent runs here, or did when it ran last."""
        return (agent.worker or "").startswith(f"{self.host.name}:")

    def effects(self) -> list[str]:
        """The lines that commands of `TREE … write=1` wrote into `/srv/work` of this host's own disk."""
        file = self.host.path(f"{DISK}/work/effects.log")
        return file.read_text().splitlines() if file.exists() else []

    def log(self) -> str:
        """The end of what its worker wrote."""
        return self.whole_log()[-5_000:]

    def whole_log(self) -> str:
        """All that its workers wrote."""
        return self.host.path(f"{DISK}/worker.log").read_text(errors="replace")


class HostNetwork:
    """Hosts on one switch. The first, `store`, has Redis, and the hub if files are carried; `stations` have what runs agents."""

    def __init__(
        self, *names: str, latency: Latency | None = None, hub: bool = False, boxes: bool = False, **settings: Any
    ) -> None:
        need_hosts()
        # A short path: a socket lies in it.
        self.folder = Path(tempfile.mkdtemp(prefix="swarm-h-"))
        self.switch = Switch()
        self.store = Host(self.switch, "store", 1, self.folder / "store")
        self._settings = {"lease_seconds": "4", "sweep_seconds": "0.5", **settings}
        self._settings["forges"] = json.dumps({self.forge: f"gitea:{DISK}/token"})
        hosts = [
            Host(self.switch, name, at, self.folder / name, latency, boxes=boxes)
            for at, name in enumerate(names, start=2)
        ]
        self.stations = [Station(self, host) for host in hosts]
        socket = self.folder / "store" / "redis.sock"
        listen = ["--bind", self.store.address, "--dir", DISK, "--unixsocket", f"{DISK}/redis.sock"]
        self.store.start(str(find_server().path), *listen, *_REDIS, log="redis.log")
        wait_for("Redis answers", lambda: _answers(socket))
        if hub:
            self._settings |= {"hub": f"http://{self.store.address}:{HUB_PORT}", "hub_token": secrets.token_hex(8)}
            self._settings["checkouts"] = f"{DISK}/checkouts"
            self.start_hub()
        # A socket of a file system is reached from any network.
        self.swarm = Swarm(Settings(redis_url=f"unix://{socket}", state_dir=self.folder / "s"))

    def environment(self) -> dict[str, str]:
        """What a process of the swarm sees on any of the hosts."""
        own = {f"SWARM_{name.upper()}": value for name, value in self._settings.items()}
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/root",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ANTHROPIC_API_KEY": "rehearsal",
            "SWARM_REDIS_URL": f"redis://{self.store.address}:6379/0",
            "SWARM_BASE_URL": f"http://127.0.0.1:{MODEL_PORT}",
            "SWARM_STATE_DIR": f"{DISK}/state",
            **own,
        }

    def submit(
        self, host: Host, prompt: str, *options: str, workspace: str = f"{DISK}/work", carried: bool = True
    ) -> Job:
        """Put a job on the queue by the command, as somebody on this host; the folder is made there if it is missing."""
        host.path(workspace).mkdir(exist_ok=True)
        env = {name: value for name, value in self.environment().items() if carried or name != "SWARM_HUB"}
        command = [sys.executable, "-P", "-m", "swarm", "run", "--detach", "--quiet", "-w", workspace]
        told = host.run(*command, *options, prompt, env=env, cwd="/")
        return self.swarm.job(told.split()[-1])

    def wait_ended(self, job: Job, seconds: float = 60.0) -> AgentView:
        """Wait until the job's root has ended, and return it."""
        root = job.view().root_id

        def probe() -> AgentView | None:
            view = self.swarm.agent(root)
            return view if view.ended else None

        return wait_for(f"{job.id} has ended", probe, seconds)

    def waits_running(self, job: Job, station: Station) -> bool:
        """Whether the job's root runs here; waits until it runs somewhere."""
        root = job.view().root_id
        wait_for("the root runs", lambda: self.swarm.agent(root).state == "running")
        return station.ran(self.swarm.agent(root))

    def wait_length(self, job: Job, entries: int) -> None:
        """Wait until the root's journal has so many entries."""
        root = job.view().root_id
        wait_for(f"{entries} entries", lambda: self.swarm.agent(root).length >= entries)

    def wait_running(self, job: Job, station: Station) -> AgentView:
        """Wait until an agent of the job runs on this station, and return it."""

        def probe() -> AgentView | None:
            here = [one for one in job.agents() if one.state == "running" and station.ran(one)]
            return here[0] if here else None

        return wait_for(f"an agent of {job.id} runs on {station.host.name}", probe)

    def start_hub(self) -> None:
        """Start the hub on the first host, and wait until it serves."""
        serve = [sys.executable, "-P", "-m", "swarm", "hub", "--host", self.store.address, "--port", str(HUB_PORT)]
        noted = ["sh", "-c", f'echo $$ > {DISK}/hub.pid; exec "$@"', "hub", *serve, "--folder", f"{DISK}/hub"]
        entered = self.store.start(*noted, log="hub.log", env=self.environment(), cwd="/")
        log = self.store.path(f"{DISK}/hub.log")
        wait_for("the hub serves", lambda: "the hub serves" in log.read_text() or entered.poll() is not None)
        assert entered.poll() is None, log.read_text()

    def start_forge(self) -> str:
        """Start a forge on the first host, whose token all stations have; returns the URL of its repository."""
        for station in self.stations:
            station.host.path(f"{DISK}/token").write_text(SECRET)
        env = {**self.environment(), "PYTHONPATH": str(CHECKOUT)}
        serve = [sys.executable, "-m", "tests.forge_world", f"{DISK}/forge", self.store.address, str(FORGE_PORT)]
        entered = self.store.start(*serve, log="forge.log", env=env, cwd="/")
        log = self.store.path(f"{DISK}/forge.log")
        wait_for("the forge serves", lambda: "owner/project" in log.read_text() or entered.poll() is not None)
        assert entered.poll() is None, log.read_text()
        return f"{self.forge}/owner/project.git"

    @property
    def forge(self) -> str:
        """The forge's address."""
        return f"http://{self.store.address}:{FORGE_PORT}"

    def look_through(self) -> None:
        """Have the hub and every station look, as if they had for long, for what nobody knows any more."""
        for host, program in [(self.store, _HUB_LOOKS), *((station.host, _STATION_LOOKS) for station in self.stations)]:
            host.run(sys.executable, "-P", "-c", program, env=self.environment(), cwd="/", seconds=600)

    def kill_hub(self) -> None:
        """`kill -9` the hub, and remove its log."""
        self.store.run("kill", "-9", self.store.path(f"{DISK}/hub.pid").read_text().strip())
        self.store.path(f"{DISK}/hub.log").unlink()

    def mend(self) -> None:
        """Have every station at work, with an empty folder `/srv/work`, and nothing left of jobs."""
        for job in self.swarm.jobs():
            if not job.ended:
                self.swarm.cancel(job.root_id)
        for station in self.stations:
            if not station.host.on:
                station.host.switch_on()
                station.begin_work()
            work = station.host.path(f"{DISK}/work")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            station.host.hear()
            station.host.cable.plug_in()
        for station in self.stations:
            station.wait_ready()

    def close(self) -> None:
        """Take all of it away."""
        for host in [*(station.host for station in self.stations), self.store]:
            if host.on:
                host.cut_power()
        self.switch.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def _answers(socket: Path) -> bool:
    try:
        return bool(redis.Redis(unix_socket_path=str(socket)).ping())
    except redis.RedisError:
        return False
