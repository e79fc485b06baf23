"""What an agent needs of the worker that runs it, what a worker has, and what that worker lacks then. Pure.

A worker looks before it claims: an agent that it cannot serve stays queued for others, and nothing of it is touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import PurePath

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm.agent.spec import AgentSpec

ANY_MODEL = "*"


class Needs(BaseModel):
    """What one agent needs. A field that this code does not know is a newer worker's to judge."""

    model_config = ConfigDict(frozen=True)

    job: str = ""
    model: str = ""
    """The model that is asked with the worker's own credentials; empty for a rehearsal, which takes none."""
    hub: str = ""
    """The hub that its files go through …"""
    checkouts: str = ""
    """… and the folder below which its workspace lies then."""


class Has(BaseModel):
    """What one worker has."""

    model_config = ConfigDict(frozen=True)

    only_job: str | None = None
    """Empty: for none now."""
    """It is for this job alone."""
    lacks: Mapping[str, str] = {}
    """Models that it cannot use now, and why; `*`: all of them."""
    hub: str = ""
    checkouts: str = ""

    @property
    def serves_all(self) -> bool:
        """Whether there is no agent that it could not serve, as far as it knows."""
        return self.only_job is None and not self.lacks


def read_needs(document: str) -> Needs | None:
    """What an agent's record says that it needs; None: a newer version wrote it, and whom it takes is not known."""
    try:
        return Needs.model_validate_json(document)
    except ValidationError:
        return None


def read_workers(documents: Iterable[str]) -> list[Has]:
    """What workers say that they have. Of one that a newer version wrote nothing is known, and it is left out."""
    found = []
    for document in documents:
        with suppress(ValidationError):
            found.append(Has.model_validate_json(document))
    return found


def needs_of(spec: AgentSpec) -> Needs:
    """What this agent needs."""
    needs = Needs(job=spec.job_id, model="" if spec.base_url else spec.model)
    if spec.files is None or not spec.is_carried:
        return needs
    # The agent's own folder, and in it the workspace under its name.
    checkouts = str(PurePath(spec.workspace).parent.parent)
    return needs.model_copy(update={"hub": spec.files.hub, "checkouts": checkouts})


def find_files_lack(needs: Needs, has: Has) -> str:
    """Why an agent's files cannot be brought to a worker; empty if they can, or need not be."""
    if not needs.hub:
        return ""
    if needs.hub != has.hub:
        return f"its files go through {needs.hub}, and the worker {f'has {has.hub}' if has.hub else 'has no hub'} (SWARM_HUB)"
    if needs.checkouts != has.checkouts:
        return f"its files lie below {needs.checkouts}, the worker's below {has.checkouts or 'no folder'} (SWARM_CHECKOUTS)"
    return ""


def find_lack(needs: Needs, has: Has) -> str:
    """Why a worker cannot serve an agent; empty if it can."""
    if has.only_job is not None and needs.job != has.only_job:
        return f"it is there for {has.only_job} only" if has.only_job else "it is kept for the next command's job"
    if lack := find_files_lack(needs, has):
        return lack
    if not needs.model:
        return ""
    return has.lacks.get(ANY_MODEL) or has.lacks.get(needs.model, "")


def find_common_lack(needs: Needs, workers: Collection[Has]) -> str:
    """Why none of these workers can serve an agent; empty if one can."""
    lacks = [find_lack(needs, has) for has in workers]
    if not all(lacks):
        return ""
    # Those that are there for other jobs say nothing about this one.
    ours = [lack for lack, has in zip(lacks, workers, strict=True) if has.only_job in (None, needs.job)]
    return "; ".join(dict.fromkeys(ours)) or "no worker is there that serves it"
