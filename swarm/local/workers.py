"""Start and end the stack's processes: Celery workers, Flower and the hub, each with a record on disk."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import psutil

from swarm.core.errors import ConfigurationError
from swarm.core.settings import LOOPBACK, Settings, http_address
from swarm.local.processes import detach, is_alive, send_signal, spawn_detached, tail_log, wait_for_exit
from swarm.local.records import ProcessRecord, ready_file, remove_record, save_record, stack_folder
from swarm.local.template import READY_VARIABLE, take_template, with_package
from swarm.store.connection import redis_url

APP = "swarm.tasks"
_CELERY = ("celery", "-A", APP)

_READY_SECONDS = 90.0
_QUIT_SECONDS = 5.0
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.02


def default_concurrency() -> int:
    """Default number of a worker's concurrent agents: four per processor, 8 to 20, because agents mostly wait."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(20, max(8, 4 * processors))


@dataclass(frozen=True)
class NewWorker:
    """Parameters of a new worker, as in its record."""

    concurrency: int | None = None
    base_url: str | None = None
    temporary: bool = False
    only_job: str | None = None
    job_file: Path | None = None
    fingerprint: str = ""


def start_worker(settings: Settings, new: NewWorker) -> ProcessRecord:
    """Start a worker, for one job if it is named, and record it. `wait_until_ready` waits until it takes tasks."""
    settings = settings.model_copy(update={"only_job": new.only_job, "job_file": new.job_file})
    facts = {**vars(new), "concurrency": new.concurrency or default_concurrency()}
    arguments = [*_CELERY, "worker", "-c", str(facts["concurrency"]), "--loglevel", "INFO"]
    return _start(settings, "worker", arguments, facts.pop("base_url"), **facts)


def start_flower(settings: Settings, *, port: int) -> ProcessRecord:
    """Start Flower for this machine alone, and record it. Port 0 takes a free one; a taken one is refused."""
    port = _check_port(port)
    arguments = [*_CELERY, *flower_arguments("127.0.0.1", port)]
    return _start(settings, "flower", arguments, settings.base_url, url=f"http://127.0.0.1:{port}")


def start_hub(settings: Settings, address: tuple[str, int], *, temporary: bool) -> ProcessRecord:
    """Start the hub at an address of this machine, and record it."""
    host, port = address
    arguments = ["swarm", "hub", "--host", host, "--port", str(port)]
    return _start(settings, "hub", arguments, settings.base_url, url=http_address(host, port), temporary=temporary)


def flower_arguments(address: str, port: int) -> list[str]:
    """Celery's arguments for Flower; its configuration protects it."""
    configuration = Path(__file__).resolve().parents[1] / "web" / "flower_config.py"
    return ["flower", f"--address={address}", f"--port={port}", f"--conf={configuration}"]


def wait_until_ready(records: Sequence[ProcessRecord]) -> None:
    """Wait until all take work. Raises `ConfigurationError` with the log's end of one that died or is late."""
    give_up = time.monotonic() + _READY_SECONDS
    waiting = list(records)
    while waiting:
        for record in waiting:
            if record.process() is None:
                raise ConfigurationError(
                    f"the {record.kind} ended before it was ready. The end of its log {record.log}:\n"
                    f"{tail_log(record.log)}"
                )
        waiting = [record for record in waiting if not _is_ready(record)]
        if waiting and time.monotonic() > give_up:
            late = waiting[0]
            raise ConfigurationError(
                f"the {late.kind} (process {late.pid}) was not ready within {_READY_SECONDS:.0f} s. "
                f"The end of its log {late.log}:\n{tail_log(late.log)}"
            )
        if waiting:
            time.sleep(_POLL_SECONDS)


def end_processes(settings: Settings, records: Sequence[ProcessRecord], *, grace_seconds: float) -> None:
    """End these processes with all their descendants, and remove their records.

    First they may finish: a worker's agents return to the queue at their next turn boundary. Then they are signalled to stop at once, and
    the remaining ones are killed. Rescue requeues the killed agents.
    """
    families = {process for record in records for process in record.family()}
    for number, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGQUIT, _QUIT_SECONDS)):
        leaders = [leader for record in records if (leader := record.process()) is not None]
        for leader in leaders:
            send_signal(leader, number)
        wait_for_exit(leaders, deadline_seconds=patience)
        # Includes tools that a worker started meanwhile or left behind.
        families |= {process for record in records for process in record.family()}
    _kill(families)
    for record in records:
        remove_record(settings, record)


def _kill(processes: set[psutil.Process]) -> None:
    alive = [process for process in processes if is_alive(process)]
    for process in alive:
        send_signal(process, signal.SIGKILL)
    if not wait_for_exit(alive, deadline_seconds=_KILL_SECONDS):
        pids = ", ".join(str(process.pid) for process in alive if is_alive(process))
        raise ConfigurationError(f"these processes of the local stack do not end: {pids}. End them by hand.")


def _start(
    settings: Settings,
    kind: Literal["worker", "flower", "hub"],
    arguments: Sequence[str],
    base_url: str | None,
    **facts: Any,
) -> ProcessRecord:
    template = take_template(settings) if kind == "worker" else None
    record_id = uuid.uuid4().hex[:8] if template is None else template.record_id
    if kind == "worker":
        arguments = [*arguments, "--hostname", f"swarm-{record_id}@%h"]
    log = stack_folder(settings) / f"{kind}-{record_id}.log"
    # Not the checkout, whose top-level folders would hide standard library modules.
    env, cwd = _environment(settings, record_id, base_url), settings.state_folder()
    if template is not None and template.become(arguments, env=env, cwd=cwd, log=log):
        process = detach(template.process)
    else:
        process = spawn_detached([sys.executable, "-m", *arguments], env=env, cwd=cwd, log=log)
    try:
        created = process.create_time()
    except psutil.Error:
        raise ConfigurationError(f"the {kind} ended at once. The end of its log {log}:\n{tail_log(log)}") from None
    ready = ready_file(settings, record_id)
    record = ProcessRecord(
        kind=kind, id=record_id, pid=process.pid, created=created, log=log, ready_file=ready, base_url=base_url, **facts
    )
    save_record(settings, record)
    return record


def _environment(settings: Settings, record_id: str, base_url: str | None) -> dict[str, str]:
    """This process's environment with the settings' values, which may differ."""
    variables = settings.model_dump(mode="json") | {
        "redis_url": redis_url(settings),
        "state_dir": str(settings.state_folder()),
        "base_url": base_url,
        "user_hooks": settings.local_user_hooks(),
    }
    environment = dict(os.environ)
    for name, value in variables.items():
        variable = f"SWARM_{name.upper()}"
        if value is None:
            environment.pop(variable, None)
        else:
            environment[variable] = value if isinstance(value, str) else json.dumps(value)
    environment[READY_VARIABLE] = str(ready_file(settings, record_id))
    return with_package(environment)


def _is_ready(record: ProcessRecord) -> bool:
    if record.kind == "worker":
        return record.ready
    assert record.url is not None
    host, _, port = record.url.removeprefix("http://").rpartition(":")
    return listens((host, int(port)))


def listens(address: tuple[str, int]) -> bool:
    """Whether a server accepts connections at this address."""
    try:
        with socket.create_connection(address, timeout=1):
            return True
    except OSError:
        return False


def _check_port(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigurationError(
                f"port {port} cannot be used for Flower ({error.strerror}). Name another."
            ) from error
        return int(probe.getsockname()[1])


def find_own_hub(settings: Settings) -> tuple[str, int] | None:
    """The address for the stack's own hub; None if the hub is on another machine, not a server, or not set.

    Raises `ConfigurationError` if the hub would be ours and its token is missing.
    """
    parts = urlsplit(settings.hub or "")
    if parts.scheme != "http" or parts.hostname not in LOOPBACK:
        return None
    if not settings.hub_token:
        raise ConfigurationError(
            f"SWARM_HUB is {settings.hub}, on this machine, and SWARM_HUB_TOKEN is not set. Set the same secret everywhere"
        )
    return parts.hostname, parts.port or 80
