"""A prepared job is put on the queue: first what it begins with, then the job itself, so that it is never there without that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.agent.needs import find_common_lack, needs_of
from swarm.agent.spec import AgentSpec
from swarm.capabilities.memory.files import take_in
from swarm.capabilities.memory.pages import Memories
from swarm.client.jobs import Job
from swarm.client.orders import PreparedJob
from swarm.client.work import keep_folder
from swarm.core.errors import IdempotencyConflict
from swarm.store.durable import Disk
from swarm.workspace.sending import send_folder

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm


def place_job(swarm: Swarm, prepared: PreparedJob) -> Job:
    """`Swarm.place`."""
    with swarm.store.explained():
        # Before there is an agent that is told of it.
        memories = Memories(swarm.store.keyspace)
        found = [problem for folder in prepared.memory_folders for problem in take_in(memories, folder)[1]]
        spec, warnings = _with_files(swarm, prepared)
        submitted = swarm.store.jobs.submit(
            spec,
            folder=str(prepared.folder),
            catalogue=prepared.catalogue.model_dump_json(),
            retention_seconds=swarm.settings.retention_seconds,
            rules=prepared.permissions.rules.model_dump_json(),
            ask_seconds=prepared.ask_seconds,
            weight=prepared.priority,
            order=prepared.digest,
            memory=prepared.places.model_dump_json() if prepared.places is not None else "",
            documents=prepared.documents,
            packages=prepared.skills.packages,
            sequel=prepared.sequel,
            webhook=prepared.webhook,
        )
        if prepared.digest and submitted.order != prepared.digest:
            raise IdempotencyConflict(spec.job_id)
        if swarm.settings.durability == "all":
            Disk(swarm.store.keyspace, "all").wait()
    swarm.publish(submitted.effect)
    warnings = [*warnings, *map(str, found), *_find_wants(swarm, spec)]
    return Job(swarm, spec.job_id, warnings=warnings, new=submitted.new)


def _with_files(swarm: Swarm, prepared: PreparedJob) -> tuple[AgentSpec, list[str]]:
    """The spec with the commit that the job begins with, if it works on copies, and all warnings so far."""
    spec, settings = prepared.spec, swarm.settings
    is_there = prepared.digest and swarm.store.jobs.exists(spec.job_id)
    if is_there or (spec.isolation == "none" and (spec.files is None or not spec.is_carried)):
        return spec, prepared.warnings
    if spec.files is not None and spec.is_carried:
        sent = send_folder(settings, prepared.folder, spec.files.hub, spec.job_id, spec.agent_id)
        return spec.model_copy(update={"base": sent.commit}), [*prepared.warnings, *sent.warnings]
    return spec.model_copy(update={"base": keep_folder(settings, prepared.folder, spec.job_id)}), prepared.warnings


def _find_wants(swarm: Swarm, spec: AgentSpec) -> list[str]:
    """What the job's first agent needs that no worker has, in words; where no worker is there, one may be about to come."""
    needs = needs_of(spec)
    workers = swarm.workers() if needs.wants else []
    lack = find_common_lack(needs, workers) if workers else ""
    return [f"it waits, for nobody can run it now: {lack}"] if lack else []
