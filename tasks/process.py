"""The state of a worker process: its name in the fleet, connections and running agents.

A prefork worker's main process names itself, loads heavy modules and freezes them. Its children open their own
connections on first use. A thread pool shares all of this, thread-safe.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

from kombu import pools

from swarm.agent.programs import ProgramModel
from swarm.agent.spec import AgentSpec
from swarm.core.capabilities import capabilities, load
from swarm.core.errors import ToolError
from swarm.core.log import EventLog
from swarm.core.settings import Settings, load_settings
from swarm.local.records import read_job
from swarm.models import Model
from swarm.models.interruption import interrupt_reading
from swarm.objects import open_shared_objects
from swarm.permissions.sandbox import Backend, NoSandbox, choose_backend, close_to_others
from swarm.runtime.additions import WorkerPart
from swarm.runtime.segment import Stop
from swarm.runtime.steps import step_rows
from swarm.store.connection import WORKER_TIMEOUT_SECONDS, connect
from swarm.store.durable import Disk
from swarm.store.store import Store
from swarm.store.values import Signals
from swarm.tasks.app import app
from swarm.tasks.publish import carry_out
from swarm.tools.outside import find_outside_tools

if TYPE_CHECKING:
    from swarm.models.router import AnyModel

log = EventLog("swarm.process")
STOP_SIGNAL = signal.SIGUSR2
"""Sent to a child whose agent must stop. Shared memory holds the agent's id."""
_STOP_WIDTH = 64


class Runtime:
    """The connections of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        find_outside_tools(settings.tools)
        self.additions: list[WorkerPart] = [load(one.worker)(settings) for one in capabilities().values() if one.worker]
        self.store = Store(
            connect(settings, timeout_seconds=WORKER_TIMEOUT_SECONDS),
            settings.key_prefix,
            partial(open_shared_objects, settings),
        )
        self.disk = Disk(self.store.keyspace, settings.durability)
        self._models: dict[str | None, AnyModel] = {}
        self._lock = threading.Lock()

    def model_for(self, spec: AgentSpec) -> Model:
        """The model for an agent: the settings' provider, or its job's rehearsal server."""
        if not spec.definition.asks_model and spec.definition.harness is None:
            return ProgramModel(spec)
        return self.model_at(spec.base_url)

    def model_at(self, url: str | None) -> AnyModel:
        """The model of the settings' provider, or of a rehearsal server."""
        from swarm.models.router import AnyModel

        with self._lock:
            model = self._models.get(url)
            if model is None:
                model = AnyModel.rehearsing(self.settings, url) if url else AnyModel(self.settings)
                self._models[url] = model
            return model

    def is_draining(self) -> bool:
        """Whether this worker takes on nothing new."""
        return draining()

    def publish(self, effect: Signals) -> None:
        """Send a step's signals."""
        carry_out(app, self.store, effect)

    def forget_models(self) -> None:
        """Make new clients from now on: an interrupted call may have left the old one locked."""
        with self._lock:
            self._models.clear()


# Re-entrant: a signal handler of the main process may need the runtime while it is being made.
_lock = threading.RLock()
_runtimes: dict[int, Runtime] = {}
_for_children: Runtime | None = None
"""Made before the fork, unused by the main process, so children inherit no held lock."""
_running: dict[str, Stop] = {}
_draining: mmap.mmap | None = None
_lacks: mmap.mmap | None = None
_to_stop: mmap.mmap | None = None
_to_stop_lock = threading.Lock()
_drops: mmap.mmap | None = None
"""Number of times the main process has found silently closed connections."""
_dropped: dict[int, int] = {}
"""Last value of `_drops` that was applied, per process."""
_main_pid = 0
_LEAVING, _SET_ASIDE = 1, 2
"""Why a worker takes no agents: it is shutting down, or its host is drained."""


def runtime() -> Runtime:
    """This process's runtime, made on first use. Forked children share no connection."""
    with _lock:
        found = _runtimes.get(os.getpid())
        if found is None:
            # The main process keeps its own runtime: releasing it would close connections in use.
            found = _runtimes[os.getpid()] = _for_children or Runtime(worker_settings())
        return found


def drop_connections() -> None:
    """Drop all connections of this worker after a silent loss. Called in the main process."""
    if _drops is not None:
        _drops[:] = (int.from_bytes(_drops[:], "little") + 1).to_bytes(8, "little")
    drop_silent_connections()


def drop_silent_connections() -> None:
    """Drop this process's connections if the main process has found silent ones since."""
    count = int.from_bytes(_drops[:], "little") if _drops is not None else 0
    if _dropped.get(os.getpid(), 0) != count:
        _dropped[os.getpid()] = count
        hang_up(runtime().store.connections)
        # Closing the broker's connections would send a goodbye on each. A connection in use is kept.
        pools.connections.clear()
        pools.producers.clear()
        app._pool = app.amqp._producer_pool = None


def hang_up(pool: Any) -> None:
    """Shut a pool's connections down: a pending command reconnects and repeats."""
    for connection in [*pool._available_connections, *pool._in_use_connections]:
        if (sock := connection._sock) is not None:
            # Not closed: its reader does that.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@cache
def worker_settings() -> Settings:
    """Settings, read once in the main process: in a child they would cost two megabytes."""
    return load_settings()


@cache
def worker_name() -> str:
    """This worker's name in the fleet, first used in the main process and so its children's."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


# -- running agents ------------------------------------------------------------------------------------------


@contextmanager
def running(agent_id: str) -> Iterator[Stop]:
    """Register a running segment, so that it can be stopped."""
    stop = Stop(agent_id)
    _running[agent_id] = stop
    try:
        yield stop
    finally:
        if _running.get(agent_id) is stop:
            del _running[agent_id]


def stop_here(agent_id: str) -> bool:
    """Stop a segment of this process, which runs on another thread."""
    stop = _running.get(agent_id)
    if stop is not None:
        stop.requested = True
        stop.event.set()
        interrupt_reading(stop.thread)
    return stop is not None


def stop_child(agent_id: str, pid: int) -> None:
    """Stop an agent in its pool child. Another agent that the child runs by now continues."""
    if _to_stop is None:
        return
    with _to_stop_lock:
        if _to_stop.tell() + _STOP_WIDTH > len(_to_stop):
            _to_stop.seek(0)
        _to_stop.write(agent_id.encode()[:_STOP_WIDTH].ljust(_STOP_WIDTH))
    with suppress(ProcessLookupError):
        os.kill(pid, STOP_SIGNAL)


def _on_stop_signal(signum: int, frame: FrameType | None) -> None:
    meant = _to_stop[:] if _to_stop is not None else b""
    for stop in list(_running.values()):
        if stop.agent_id.encode() in meant:
            stop.on_signal()


def prepare_main() -> None:
    """Prepare the main process to fork: its name, shared flags, and frozen heavy imports."""
    global _draining, _lacks, _to_stop, _drops, _main_pid, _for_children
    from swarm.models.anthropic import preload
    from swarm.models.catalogue import load_models

    settings = worker_settings()
    close_to_others()
    worker_name()
    _main_pid = os.getpid()
    _draining = mmap.mmap(-1, 1)
    _lacks = mmap.mmap(-1, 1)
    note_lacks(True)
    _to_stop = mmap.mmap(-1, _STOP_WIDTH * 256)
    _drops = mmap.mmap(-1, 8)
    for fault in find_outside_tools(settings.tools):
        log.error("worker.tool_broken", why=fault, effect="agents that need it are left to other workers")
    preload(settings)
    load_models(settings.prices_file)
    runtime()
    _for_children = Runtime(settings)
    _warm_up_tools(settings)
    _warm_up_steps()
    _warm_up_celery()
    _choose_sandbox(settings)
    gc.collect()
    # The collector never touches frozen objects, so children share these pages with their parent.
    gc.freeze()


def _warm_up_tools(settings: Settings) -> None:
    """Import every tool, compile its schema's validator, and load the modules that judge calls."""
    from swarm.permissions.path_rules import check_path_spec
    from swarm.tools.registry import offered_tools, tools_here, validate_input

    tools_here(settings.sandbox, settings.tags)
    for tool in offered_tools():
        try:
            validate_input(tool, {})
        except ToolError:
            pass  # a parameter is missing, of course
    # The grammar of permission rules.
    check_path_spec("/src/**")


def _warm_up_steps() -> None:
    """Import the modules of all steps: a child that imports those of its first agent takes 13 ms, and memory of its own."""
    for row in step_rows():
        load(row.home)


def _choose_sandbox(settings: Settings) -> None:
    """Try the sandbox once for all children, and log it; `swarm doctor` shows more."""
    match choose_backend(settings.sandbox):
        case Backend() as backend:
            log.info("sandbox.chosen", name=backend.name, missing=", ".join(backend.missing) or "nothing")
        case NoSandbox() as none:
            log.warning("sandbox.none", why=none.reason, remedy=none.remedy, effect="read-only agents get no shell")


def _warm_up_celery() -> None:
    """Build the senders of tasks and events that a first task needs, and a new child's parser of C. Nothing here connects."""
    app.amqp.router  # noqa: B018
    app.amqp.send_task_message  # noqa: B018
    app.events.Dispatcher  # noqa: B018
    if find_spec("cffi"):
        # Through it each child of Celery's pool asks for its parent's death. The parser takes 20 ms and 2 MiB to load.
        import_module("cffi").FFI().cdef("int prctl(int, ...);")


def prepare_child() -> None:
    """Prepare a pool child: enable stop signals, and let it die with its main process."""
    # Celery made more objects since the preparation. The collector must not touch and thereby copy them.
    gc.freeze()
    close_to_others()
    signal.signal(STOP_SIGNAL, _on_stop_signal)
    if os.uname().sysname == "Linux":
        # Otherwise a child of a killed main process would work unseen until its agent parks.
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != _main_pid:
            os._exit(1)


def start_draining() -> None:
    """Make every segment of this worker hand over at its next turn boundary."""
    if _draining is not None:
        _draining[0] = _LEAVING


def set_aside(wanted: bool) -> bool:
    """Start or stop draining: hand agents over, take none; returns whether this is a change."""
    before = _SET_ASIDE if not wanted else 0
    if _draining is None or _draining[0] != before:
        return False
    _draining[0] = _SET_ASIDE - before
    return True


def is_set_aside() -> bool:
    """Whether this worker keeps running but is drained."""
    return _draining is not None and _draining[0] == _SET_ASIDE


def draining() -> bool:
    """Whether this worker is shutting down or drained."""
    return _draining is not None and _draining[0] != 0


def note_lacks(found: bool) -> None:
    """Tell all processes of this worker whether it lacks a model."""
    if _lacks is not None:
        _lacks[0] = found


def serves(job_id: str) -> bool:
    """Whether this worker can serve the agents of a job that have no special needs, as far as it knows."""
    return _lacks is not None and not _lacks[0] and only_job() in (None, job_id)


def only_job() -> str | None:
    """The only job that this worker serves; empty: none now, None: any."""
    settings = worker_settings()
    return settings.only_job if settings.job_file is None else read_job(settings.job_file)


def report_dead(agent_id: str) -> None:
    """End the claim of an agent whose process died. Called in the main process."""

    current = runtime()
    try:
        rescue = current.store.leases.rescue(
            max_deaths=current.settings.max_deaths, outbox_age_seconds=0, batch=0, dead=[(agent_id, worker_name())]
        )
    except Exception as error:
        log.warning("rescue.deferred", agent_id=agent_id, error=error)
        return
    for rescued in rescue.rescued:
        log.warning("agent.rescued", agent_id=rescued, why="its process died")
    carry_out(app, current.store, rescue)
