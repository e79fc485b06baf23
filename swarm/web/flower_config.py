"""Flower's configuration: `celery -A swarm.tasks flower --conf=THIS FILE`; Flower executes it when it starts.

Every name here that is an option of Flower sets that option; `format_task` makes a row readable. Other names
here are not options.
"""

from __future__ import annotations

import secrets
from typing import Any

import flower.urls as flower_urls
from tornado.options import options as given_options

from swarm.client.swarm import Swarm
from swarm.core.settings import load_settings
from swarm.local.page_token import make_token, page_url
from swarm.web.flower_guard import LOOPBACK, default_address, guard_routes
from swarm.web.mount import mount


def format_task(task: Any) -> Any:
    """Show an agent under its readable name. Flower passes a copy, so its own records keep the task's name.

    A wake-up carries the agent's label in place of its arguments' representation; prompts never reach Flower.
    """
    if task.name == "swarm.agent" and task.args:
        task.name = task.args
    return task


# Rows of waiting agents are kept: a tree may be parked for days.
natural_time = True
purge_offline_workers = 300
tasks_columns = "name,state,received,started,runtime,worker,uuid"

settings = load_settings()
has_login = bool(given_options.basic_auth or given_options.auth)
# With a login, tokens are not accepted.
page_token = secrets.token_urlsafe(24) if has_login else make_token(settings)
mount(flower_urls.handlers, flower_urls.settings, Swarm(settings), page_token)
address = default_address(given_options.address)
guard_routes(flower_urls.handlers, flower_urls.settings, settings, address, page_token)
if given_options.port and not given_options.unix_socket:
    prefix = f"/{given_options.url_prefix.strip('/')}" if given_options.url_prefix else ""
    here = f"http://{address if address not in ('0.0.0.0', '::') else LOOPBACK}:{given_options.port}{prefix}"
    print(f"the page: {page_url(here, None if has_login else page_token)}", flush=True)
