"""The state of this worker's host, and its faults. With a fault a worker takes no agents and hands over its own.

The main process finds the state out; its children read it, and note faults that only they see.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from swarm.agent.hosts import CLOCK_FAULT_SECONDS, HostState
from swarm.agent.needs import read_workers
from swarm.core.settings import Settings
from swarm.hub.probe import PATIENCE_SECONDS, find_trouble
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.store import Store
from swarm.tasks.notes import Reasons, SharedDocument

PACKAGE = "celery-swarm"
KEYS = ("ANTHROPIC_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY")
"""Variables of the providers' keys."""
_faults: Reasons | None = None
_shared: SharedDocument | None = None
_known: dict[str, Any] = {}
_lock = threading.Lock()
_recheck_seconds = 60.0


def share(recheck_seconds: float) -> None:
    """Share faults and state with children forked later; a fault holds for `recheck_seconds` after it was noted."""
    global _faults, _shared, _recheck_seconds
    _faults, _shared, _recheck_seconds = Reasons(4_096), SharedDocument(16_384), recheck_seconds


def prepare(settings: Settings) -> None:
    """Note the parts of the state that stay as they are."""
    update(**find_state(settings))


def find_state(settings: Settings) -> dict[str, Any]:
    """Find out the fields of the state that stay as they are while a worker runs."""
    sandbox = choose_backend(settings.sandbox)
    return {
        "sandbox": sandbox.name if isinstance(sandbox, Backend) else "",
        "extras": find_extras(),
        "python": platform.python_version(),
        "git": find_git_version(),
        "settings": settings.shared(),
        "secrets": [*settings.secrets(), *(name for name in KEYS if os.environ.get(name))],
    }


def update(**found: Any) -> None:
    """Note parts of the host's state. Called in the main process."""
    if _shared is not None:
        with _lock:
            _known.update(found)
            _shared.write(_known)


def state() -> HostState:
    """The host's state."""
    return HostState() if _shared is None else HostState.model_validate(_shared.read())


def note_fault(name: str, why: str) -> None:
    """Note a fault of the host. It holds for `SWARM_RECHECK_SECONDS`, or longer if it is noted again."""
    if _faults is not None:
        _faults.note(name, why, _recheck_seconds)


def explain_sickness() -> str:
    """Why this host is not fit for agents now; empty if it is."""
    return "" if _faults is None else "; ".join(_faults.current().values())


def note_clock(redis_now: float, before: float, after: float) -> None:
    """Compare the host's clock before and after a Redis command with Redis' clock during it, all in Unix seconds."""
    offset = (before + after) / 2 - redis_now
    update(clock_offset=round(offset, 1))
    if abs(offset) > CLOCK_FAULT_SECONDS:
        note_fault("clock", f"its clock is {abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} Redis' clock")


def find_extras() -> tuple[str, ...]:
    """The installed extras of the package."""
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return ()
    needed: dict[str, list[str]] = {}
    for requirement in package.requires or ():
        if found := re.match(r"([\w.-]+)(\[\w+\])?.*extra == ['\"]([\w-]+)['\"]", requirement):
            # The extra of an extra is a package by which it is known.
            needed.setdefault(found[3], []).append(
                {"[bedrock]": "boto3", "[vertex]": "google-auth"}.get(found[2], found[1])
            )
    return tuple(sorted(extra for extra, names in needed.items() if extra != "dev" and all(map(_is_installed, names))))


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def find_git_version() -> str:
    """The version of git; empty if there is none."""
    program = shutil.which("git")
    if program is None:
        return ""
    try:
        ran = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\d+(\.\d+)+", ran.stdout)
    return found[0] if found else ""


def free_bytes(folder: Path) -> int:
    """Free space of the disk that holds the folder, or will."""
    return shutil.disk_usage(next(parent for parent in (folder, *folder.parents) if parent.exists())).free


class HubWatch:
    """Checks whether the hub answers, and if it does not, whether it answers other hosts.

    A host that alone has lost the hub knows it after about a lease: its check, its wait and the others' next check take a third each.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self.every_seconds = settings.lease_seconds / 3
        self._failing_since = 0.0

    def __call__(self) -> None:
        began = time.monotonic()
        trouble, _ = find_trouble(self._settings, min(PATIENCE_SECONDS, max(1.0, self.every_seconds)))
        now = time.time() - state().clock_offset
        if not trouble:
            self._failing_since = 0.0
            update(hub_ms=round((time.monotonic() - began) * 1000), hub_at=now, hub_trouble="")
            return
        self._failing_since = self._failing_since or now
        update(hub_trouble=trouble[:300])
        hub = self._settings.hub
        others = read_workers(self._store.fleet.workers().values())
        if any(has.hub == hub and has.host_state.hub_at > self._failing_since for has in others):
            note_fault("hub", f"it does not reach the hub {hub}, which others reach: {trouble[:300]}")
