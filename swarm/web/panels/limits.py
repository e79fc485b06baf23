"""The panel of limits: what the model's server grants the fleet, and how many agents of the job wait for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from swarm.client import Swarm
from swarm.governor.view import read_classes


def read_limits(swarm: Swarm, job_id: str) -> dict[str, Any]:
    """Of each class its buckets and counts, and of those who wait how many are the job's."""
    classes = []
    for one in read_classes(swarm.store):
        shown = asdict(one)
        waiting = shown.pop("waiting")
        classes.append({**shown, "waiting": sum(waiting.values()), "waiting_here": waiting.get(job_id, 0)})
    return {"classes": classes}
