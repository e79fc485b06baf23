"""A Celery application that is none of the swarm's: its own package, broker, results and workers. Its tasks note that they ran."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery, Task

from swarm.client.canvas import install

app = Celery("bookshop", broker=os.environ["SHOP_BROKER"], backend=os.environ["SHOP_BROKER"])
# What a killed worker held comes back soon.
prefix = {"global_keyprefix": os.environ["SHOP_PREFIX"]} if os.environ.get("SHOP_PREFIX") else {}
app.conf.broker_transport_options = {"visibility_timeout": 4, **prefix, **json.loads(os.environ["SHOP_OPTIONS"])}
app.conf.result_backend_transport_options = prefix
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = True
app.conf.task_default_queue = "shop"
install(app, broker="shop")


def note(task: Task, what: str) -> None:
    """A line of the ledger, written at once: `task id, task, what`."""
    with Path(os.environ["SHOP_LEDGER"]).open("a") as ledger:
        ledger.write(f"{task.request.id}\t{task.name.rpartition('.')[2]}\t{what!r}\n")


@app.task(bind=True)
def fetch(self: Task, number: int) -> dict[str, int]:
    """The beginning of a chain."""
    note(self, str(number))
    return {"number": number}


@app.task(bind=True)
def keep(self: Task, result: Any) -> Any:
    """What follows: the result as it came."""
    note(self, str(result))
    return result


@app.task(bind=True)
def rejection(self: Task, failed_id: str) -> None:
    """An errback."""
    note(self, failed_id)


@app.task(bind=True)
def told(self: Task, job: dict[str, Any], order: int) -> None:
    """What follows a job that is no step."""
    note(self, f"{order}: {job['state']} {job['text']}")
