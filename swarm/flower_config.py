"""Flower's configuration: `celery -A swarm.tasks flower --conf=THIS FILE`; Flower executes it when it starts.

Every name here that is an option of Flower's sets that option; `format_task` is the one that makes a row readable. What
else it needs has names that are no options.
"""

from __future__ import annotations

from typing import Any

import flower.urls as flower_urls
from tornado.options import options as given_options

from swarm.flower_guard import default_address, guard_routes
from swarm.settings import load_settings


def format_task(task: Any) -> Any:
    """Show an agent under its readable name. Flower passes a copy, so its own bookkeeping keeps the task's name.

    A wake-up carries the agent's label where others have the representation of their arguments; prompts never get this far.
    """
    if task.name == "swarm.agent" and task.args:
        task.name = task.args
    return task


# Rows of agents that wait are kept: a tree may be parked for days.
natural_time = True
purge_offline_workers = 300
tasks_columns = "name,state,received,started,runtime,worker,uuid"

address = default_address(given_options.address)
guard_routes(flower_urls.handlers, flower_urls.settings, load_settings(), address)
