"""What one worker process has: its name on the fleet, its connections, and the agents it runs now.

A prefork worker's main process names itself, imports what is heavy and freezes it; its children make their own connections on
first use. In a thread pool all of this is shared and thread-safe.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType

from swarm.agent.spec import AgentSpec
from swarm.errors import Interrupted
from swarm.log import EventLog
from swarm.models import Model
from swarm.settings import Settings, load_settings
from swarm.store.agents import Store
from swarm.store.connection import connect
from swarm.tasks.app import app
from swarm.tasks.publish import carry_out

log = EventLog("swarm.process")
STOP_SIGNAL = signal.SIGUSR2
"""Sent by the main process to the child that runs an agent which must stop."""


@dataclass
class Stop:
    """How a running segment learns that it must stop where it is."""

    agent_id: str
    event: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise `Interrupted` once the agent must stop."""
        if self.event.is_set():
            raise Interrupted(f"agent {self.agent_id} was told to stop")


class Runtime:
    """The connections of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(connect(settings), settings.key_prefix)
        self._models: dict[str | None, Model] = {}
        self._max_depth: dict[str, int] = {}
        self._lock = threading.Lock()

    def max_depth(self, job_id: str) -> int:
        """The job's nesting limit, from its record; it never changes, so it is asked for once."""
        if job_id not in self._max_depth:
            if len(self._max_depth) > 10_000:
                self._max_depth.clear()
            self._max_depth[job_id] = int(self.store.client.hget(self.store.key("job", job_id), "max_depth") or 0)
        return self._max_depth[job_id]

    def model_for(self, spec: AgentSpec) -> Model:
        """The model an agent talks to: the settings' provider, or the rehearsal server its job names."""
        from swarm.models.anthropic import AnthropicModel

        with self._lock:
            model = self._models.get(spec.base_url)
            if model is None:
                url = spec.base_url
                model = AnthropicModel.rehearsing(self.settings, url) if url else AnthropicModel(self.settings)
                self._models[spec.base_url] = model
            return model


# Re-entrant: a signal handler of the main process may ask for the runtime while it is being made.
_lock = threading.RLock()
_runtimes: dict[int, Runtime] = {}
_running: dict[str, Stop] = {}
_draining: mmap.mmap | None = None
_main_pid = 0


def runtime() -> Runtime:
    """This process's runtime, made on first use; a forked child makes its own."""
    with _lock:
        found = _runtimes.get(os.getpid())
        if found is None:
            _runtimes.clear()
            found = _runtimes[os.getpid()] = Runtime(load_settings())
        return found


@cache
def worker_name() -> str:
    """This worker's name on the fleet; first asked for in the main process, so its children carry the same one."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


# -- the agents that run here --------------------------------------------------------------------------------


@contextmanager
def running(agent_id: str) -> Iterator[Stop]:
    """Register a segment for as long as it runs, so that it can be told to stop."""
    stop = Stop(agent_id)
    _running[agent_id] = stop
    try:
        yield stop
    finally:
        if _running.get(agent_id) is stop:
            del _running[agent_id]


def stop_here(agent_id: str) -> bool:
    """Tell a segment of this very process to stop."""
    stop = _running.get(agent_id)
    if stop is not None:
        stop.event.set()
    return stop is not None


def _on_stop_signal(signum: int, frame: FrameType | None) -> None:
    # Once is enough: a second signal must not interrupt the first one's way out.
    fresh = [stop for stop in list(_running.values()) if not stop.event.is_set()]
    for stop in fresh:
        stop.event.set()
    if fresh:
        raise Interrupted("told to stop by the worker")


def prepare_main() -> None:
    """Make the main process ready to fork: its name, the shared drain flag, the heavy imports, frozen."""
    global _draining, _main_pid
    import gc

    from swarm.models.anthropic import preload
    from swarm.models.catalogue import load_catalogue
    from swarm.tools.registry import builtin_tools, validate_input

    worker_name()
    _main_pid = os.getpid()
    _draining = mmap.mmap(-1, 1)
    preload()
    load_catalogue(load_settings().prices_file)
    # The first validation imports the validator.
    validate_input(builtin_tools()["LS"], {})
    gc.collect()
    # What is frozen is never touched by the collector, so children share these pages with their parent.
    gc.freeze()


def prepare_child() -> None:
    """Make a pool child ready: it can be told to stop, and it dies with its main process."""
    signal.signal(STOP_SIGNAL, _on_stop_signal)
    if os.uname().sysname == "Linux":
        # Otherwise a child of a killed main process would work on, unseen, until its agent parks.
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != _main_pid:
            os._exit(1)


def start_draining() -> None:
    """From now on every segment of this worker hands over at its next turn boundary."""
    if _draining is not None:
        _draining[0] = 1


def draining() -> bool:
    """Whether this worker is going away."""
    return _draining is not None and _draining[0] == 1


def report_dead(agent_id: str) -> None:
    """A process that ran this agent is gone: end its claim now. Called in the main process."""

    current = runtime()
    try:
        rescue = current.store.rescue(
            max_deaths=current.settings.max_deaths,
            outbox_age_seconds=0,
            batch=0,
            dead=[(agent_id, worker_name())],
        )
    except Exception as error:
        log.warning("rescue.deferred", agent_id=agent_id, error=error)
        return
    for rescued in rescue.rescued:
        log.warning("agent.rescued", agent_id=rescued, why="its process died")
    carry_out(app, current.store, rescue)
