"""Puts a prepared job on the queue: its files and memory first, then the job itself, so that it never lacks them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swarm.agent.needs import find_common_lack, needs_of
from swarm.agent.spec import AgentSpec, Files
from swarm.client.jobs import Job
from swarm.client.prepared import PreparedJob
from swarm.core.errors import IdempotencyConflict
from swarm.core.ids import root_agent_id
from swarm.core.settings import Settings
from swarm.store.durable import Disk
from swarm.workspace.upload import Upload, keep_folder, send_folder

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm


def place_job(swarm: Swarm, prepared: PreparedJob) -> Job:
    """Implement `Swarm.place`."""
    spec, warnings = prepared.spec, prepared.warnings
    with swarm.store.explained():
        problems = place_first(swarm, prepared)
        is_there = prepared.digest and swarm.store.jobs.exists(spec.job_id)
        if has_own_files(spec) and spec.repository is None and not is_there:
            sent = keep_files(swarm.settings, prepared.folder, spec.files, spec.job_id)
            spec, warnings = spec.model_copy(update={"base": sent.commit}), [*warnings, *sent.warnings]
        submitted = swarm.store.jobs.submit(
            spec,
            catalogue=prepared.project.catalogue_text,
            documents=prepared.documents,
            packages=prepared.packages,
            webhook=prepared.webhook,
            **prepared.terms(swarm.settings),
        )
        if prepared.digest and submitted.order != prepared.digest:
            raise IdempotencyConflict(spec.job_id)
        wait_for_disk(swarm)
    swarm.publish(submitted.effect)
    return Job(swarm, spec.job_id, warnings=[*warnings, *problems, *_find_lack(swarm, prepared)], new=submitted.new)


def place_first(swarm: Swarm, prepared: PreparedJob) -> list[str]:
    """Do what capabilities must do before an agent exists; returns problems."""
    return [problem for part in prepared.project.parts.values() for problem in part.place_first(swarm.store)]


def has_own_files(spec: AgentSpec) -> bool:
    """Whether the job works on copies of the folder."""
    return spec.isolation != "none" or spec.is_carried


def keep_files(settings: Settings, folder: Path, files: Files | None, job_id: str) -> Upload:
    """Keep the folder as the first commit of a job's copy, on the hub if there is one. Raises `GitFailed`."""
    if files is not None and files.hub:
        return send_folder(settings, folder, files.hub, job_id, root_agent_id(job_id))
    return keep_folder(settings, folder, job_id)


def wait_for_disk(swarm: Swarm) -> None:
    """Wait until all writes are on Redis' disk, if the settings require it."""
    if swarm.settings.durability == "all":
        Disk(swarm.store.keyspace, "all").wait()


def _find_lack(swarm: Swarm, prepared: PreparedJob) -> list[str]:
    """Explain why no worker can run the job's first agent; empty if one can, or if none is running, because one may start soon."""
    needs = needs_of(prepared.spec, serving=bool(prepared.needed_servers))
    workers = swarm.workers()
    lack = find_common_lack(needs, workers) if workers else ""
    return [f"the job waits because no worker can run it now: {lack}"] if lack else []
