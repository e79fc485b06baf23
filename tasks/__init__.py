"""The engine: agents as Celery tasks. `celery -A swarm.tasks worker` finds `app` here, and loads what it `include`s.

A Celery message is only a hint that an agent may be runnable; the truth is the agent's record and journal in Redis, and all that
follows from a hint is checked there. So messages may be lost or doubled without harm.

Whoever only sends to the swarm imports this too, possibly in a worker of an application of its own: nothing here is
registered with Celery at import.
"""

from swarm.tasks.app import app

__all__ = ["app"]
