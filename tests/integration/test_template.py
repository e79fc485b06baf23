"""A process that imports first, and learns later which worker it is.

Tests of swarm/local/template.py, tasks/template.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from swarm.local.processes import detach, wait_for_exit
from swarm.local.template import READY_VARIABLE, Template
from swarm.tasks.template import _has_changed
from tests.waiting import wait_for

_SECONDS = 60.0


def test_a_template_becomes_what_its_order_says_in_the_environment_that_it_names(tmp_path: Path) -> None:
    template = Template(tmp_path)
    process, mark = psutil.Process(template.process.pid), str(tmp_path / f"{template.record_id}.ready")
    wait_for("its orphans could be recognised", lambda: process.environ().get(READY_VARIABLE) == mark)
    env = {**os.environ, "SWARM_REDIS_URL": "nowhere://"}
    arguments = ["celery", "-A", "swarm.tasks", "worker", "-c", "1"]
    assert template.become(arguments, env=env, cwd=tmp_path, log=tmp_path / "log")
    assert wait_for_exit([detach(template.process)], deadline_seconds=_SECONDS)
    assert "nowhere://" in (tmp_path / "log").read_text(), "the worker refuses what its order says"


def test_a_template_without_an_order_ends(tmp_path: Path) -> None:
    template = Template(tmp_path)
    template.process.communicate(timeout=_SECONDS)
    assert template.process.returncode == 0


def test_a_dead_template_takes_no_order(tmp_path: Path) -> None:
    template = Template(tmp_path)
    template.end()
    assert not template.become(["celery", "report"], env={}, cwd=tmp_path, log=tmp_path / "log")


def test_code_that_is_newer_than_the_template_is_noticed() -> None:
    assert _has_changed(0.0)
    assert not _has_changed(time.time() + 3_600)
