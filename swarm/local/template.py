"""A process that imports what a worker needs while its command still prepares, and then becomes the worker.

A cold `swarm run` imports for nearly a second before it knows what to start, and a worker for longer before it takes work. So the command
first starts a template, if this machine's stack seems to have no worker. The guess decides only how soon a worker is ready: a template
that is not taken ends with its command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarm.core.settings import Settings, load_settings

READY_VARIABLE = "SWARM_READY_FILE"
"""Variable that names the file touched by a ready worker; unique per process, so it also marks it."""

_waiting: Template | None = None


class Template:
    """A started template, and the id that its worker will have."""

    def __init__(self, folder: Path) -> None:
        """Start it for a stack whose records are in this folder."""
        self.record_id = uuid.uuid4().hex[:8]
        self.folder = folder
        self.process = subprocess.Popen(
            # Without -P, modules of the current folder would hide installed ones.
            [sys.executable, "-P", "-m", "swarm.tasks.template"],
            env=with_package({**os.environ, READY_VARIABLE: str(folder / f"{self.record_id}.ready")}),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def become(self, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> bool:
        """Let the process go on as `python -m` with these arguments; False if it has died."""
        order = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd), "log": str(log)}
        assert self.process.stdin is not None
        try:
            with self.process.stdin as pipe:
                pipe.write(json.dumps(order).encode())
        except OSError:
            return False
        return self.process.poll() is None

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def prepare_template() -> None:
    """Start a template for this machine's next worker, if none seems to run. `end_template` must follow."""
    global _waiting
    settings = load_settings()
    folder = settings.state_folder() / "stack"
    if settings.redis_url is None and not any(folder.glob("worker-*.json")):
        _waiting = Template(folder)


def take_template(settings: Settings) -> Template | None:
    """Return the waiting template, if it is of this stack; only once."""
    global _waiting
    if _waiting is None or _waiting.folder != settings.state_folder() / "stack":
        return None
    template, _waiting = _waiting, None
    return template


def end_template() -> None:
    """End the template if it was not taken."""
    global _waiting
    template, _waiting = _waiting, None
    if template is not None:
        template.end()


def with_package(environment: Mapping[str, str]) -> dict[str, str]:
    """This environment, changed if necessary so that a new interpreter finds our package."""
    root = str(Path(__file__).resolve().parents[2])
    if _is_installed(root):
        return dict(environment)
    inherited = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root}


def _is_installed(root: str) -> bool:
    """Whether a new interpreter finds our package, because its folder comes after the standard library's."""
    standard = sysconfig.get_path("stdlib")
    after = sys.path[sys.path.index(standard) + 1 :] if standard in sys.path else sys.path
    return any(Path(entry).resolve() == Path(root) for entry in after if entry)
