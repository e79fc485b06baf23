"""The engine: agents as Celery tasks. `celery -A swarm.tasks worker` finds `app` here.

A Celery message is only a hint that an agent may be runnable; the truth is the agent's record and journal in Redis, and all that
follows from a hint is checked there. So messages may be lost or doubled without harm.
"""

from swarm.tasks import worker as _worker  # its bootstep, signals and control command register themselves
from swarm.tasks.agent_task import run_agent
from swarm.tasks.app import app

__all__ = ["app", "run_agent"]
del _worker
