"""The process of `swarm.local.template`: `python -m swarm.tasks.template` imports a worker's modules, and waits to become one."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Import, read from stdin what to become, and run it; an empty order ends the process."""
    began = time.time()
    _import_all()
    text = sys.stdin.buffer.read()
    if not text:
        return
    order: dict[str, Any] = json.loads(text)
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for source, stream in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(source, stream)
    os.chdir(order["cwd"])
    if _has_changed(began):
        # Its command may have seen the new code, and must not keep a worker with the old one.
        os.execve(sys.executable, [sys.executable, "-m", *order["arguments"]], order["env"])
    os.environ.clear()
    os.environ.update(order["env"])
    _run_worker(order["arguments"])


def _import_all() -> None:
    import celery.bin.worker  # noqa: F401

    import swarm.tasks.agent_task
    import swarm.tasks.worker  # noqa: F401
    from swarm.core.settings import load_settings
    from swarm.models.anthropic import load_sdk

    load_sdk(load_settings())


def _run_worker(arguments: list[str]) -> None:
    """Run `celery … worker` without the other commands: Celery's umbrella loads all of them, and Flower's."""
    from celery import __main__ as umbrella
    from celery.bin.base import CLIContext
    from celery.bin.worker import worker

    from swarm.tasks.app import app

    # With these it restarts itself.
    sys.argv = [str(umbrella.__file__), *arguments[1:]]
    own = arguments[arguments.index("worker") + 1 :]
    context = CLIContext(app=app, no_color=None, workdir=None)
    worker.main(own, prog_name="celery worker", obj=context, auto_envvar_prefix="CELERY_WORKER")


def _has_changed(since: float) -> bool:
    """Whether a file of the package is newer than this process."""
    files = [module.__file__ for name, module in list(sys.modules.items()) if name.partition(".")[0] == "swarm"]
    return any(os.stat(file).st_mtime > since for file in files if file)


if __name__ == "__main__":
    main()
