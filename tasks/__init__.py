"""The engine: agents as Celery tasks. `celery -A swarm.tasks worker` finds `app` here.

A worker loads the modules in `include`. A Celery message only hints that an agent may be runnable. The agent's record and journal in
Redis decide, so each wake-up is checked there, and lost or doubled messages do no harm.

Programs that only send to the swarm import this too, possibly in a worker of their own application. So nothing here is
registered with Celery at import.
"""

from swarm.tasks.app import app

__all__ = ["app"]
