"""Going on from a moment of a job's past: always a new job, whose first request begins with the old one's, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swarm.agent.spec import AgentSpec
from swarm.client.preparation import DEFAULT_MODE, find_workspace
from swarm.client.project import gather
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.ids import new_job_id
from swarm.models.catalogue import resolve_model
from swarm.permissions.modes import at_most
from swarm.permissions.sources import load_permission_settings
from swarm.replay.branch import AgentChange, Moment, branch, find_moment, name_agents, without_rights
from swarm.replay.files import Reservation, Restoring
from swarm.replay.importer import IMPORTED, import_past
from swarm.replay.past import Past, carried_by
from swarm.replay.redefinition import redefine
from swarm.replay.shared_state import share_then
from swarm.store.prefixes import digest_of

NOTE = (
    "Note from the runtime: you go on from an earlier moment of another job. What you did after this is not there. Agents are still "
    "known by the ids that you have read."
)


_HARMLESS = (
    *(
        "name",
        "description",
        "prompt",
        "tools",
        "disallowed_tools",
        "permission",
        "model",
        "mode",
        "permission_mode",
        "read_only",
    ),
    *(
        "max_turns",
        "instruction_files",
        "background",
        "effort",
        "nicknames",
        "result_schema",
        "coordination",
        "source",
        "warnings",
    ),
)
"""What a definition from a file may say."""


@dataclass(frozen=True)
class Resumption:
    """What is to be replayed, and what is to be different."""

    agent_id: str
    turn: int
    text: str = ""
    model: str | None = None
    files: Reservation = ""
    workspace: Path | None = None
    """Where to work instead of where the job did."""
    agents: Path | None = None
    """The folder whose definitions, as they are now, take the place of those that the job had."""
    several: bool = False
    """Others go on beside it: they are not to have one folder, unless that was asked for."""


@dataclass(frozen=True)
class Branched:
    """The new job."""

    job: Job
    workspace: str
    restored: bool
    """The files are those of that moment, in a copy; else the folder as it is."""


def go_on(swarm: Swarm, past: Past, wanted: Resumption, serve: Callable[[str], str] | None = None) -> Branched:
    """Make the new job and put it on the queue. `serve` starts a rehearsal for the job of that id and returns its URL.

    Raises `ConfigurationError` for what cannot be replayed, `GitFailed` where files cannot be brought back.
    """
    foreign = past.fields.get(IMPORTED) == "1"
    folder = find_workspace(wanted.workspace or (Path() if foreign else past.fields.get("workspace", ".")))
    _refuse(past, wanted, foreign=foreign, served=serve is not None)
    if foreign:
        past = _disarm(past, folder)
    moment, job_id = find_moment(past, wanted.agent_id, wanted.turn), new_job_id()
    change = _redefine(swarm, past, moment, wanted)
    files = Restoring(swarm.settings, past, moment, name_agents(moment, job_id), job_id)
    layout = files.lay_out("here" if foreign else wanted.files, folder)
    if wanted.several and not (layout.restored or wanted.files == "here"):
        raise ConfigurationError(
            f"{past.job_id} kept no files by then, so several jobs would work in {folder} at once; --files here has them do that"
        )
    base_url = serve(job_id) if serve is not None else None
    job = {"workspace": str(folder), **({"rehearsed": "1"} if base_url else {})}
    workspace = layout.specs[wanted.agent_id]["workspace"]
    text = _tell(past, wanted, workspace)
    change = replace(change, text=text, base_url=base_url, commit=layout.commit, specs=layout.specs, job=job)
    made = branch(past, moment, job_id, change, swarm.store.now())
    shared = share_then(past, moment.seq).renamed(made.ids)
    swarm.publish(
        import_past(swarm.store, made.past, queue=made.queue, names=made.names, team=made.team, shared=shared)
    )
    return Branched(swarm.job(job_id), workspace, layout.restored)


def _refuse(past: Past, wanted: Resumption, *, foreign: bool, served: bool) -> None:
    """Raise `ConfigurationError` for what nothing can go on from."""
    if past.redacted == "words":
        raise ConfigurationError(f"{past.job_id} was taken out without its words, so nothing can go on from it")
    if foreign and wanted.files == "restore":
        raise ConfigurationError(
            f"{past.job_id} came from a file, which has no files of a workspace: leave --files away"
        )
    if past.agents[wanted.agent_id].spec.get("base_url") is not None and not served:
        raise ConfigurationError(
            f"{past.job_id} was a rehearsal, whose server is gone: give it another one with --rehearse"
        )


def _redefine(swarm: Swarm, past: Past, moment: Moment, wanted: Resumption) -> AgentChange:
    """What another model and other definitions change."""
    prices_file = swarm.settings.prices_file
    model = wanted.model and resolve_model(wanted.model, default=wanted.model, parent=None, prices_file=prices_file)
    if wanted.agents is None:
        return AgentChange(model=model)
    catalogue = gather(find_workspace(wanted.agents), swarm.settings).catalogue
    found = redefine(past, moment, catalogue, model=model, prices_file=prices_file)
    return AgentChange(model=model, definitions=found, catalogue=catalogue.model_dump_json())


def _tell(past: Past, wanted: Resumption, workspace: str) -> str:
    spec = AgentSpec.model_validate(past.agents[wanted.agent_id].spec)
    moved = (
        f" Your workspace is {workspace} now; paths that you have read begin otherwise."
        if workspace != spec.workspace
        else ""
    )
    # Who is told nothing and has not moved goes on as if nothing had been.
    return "\n\n".join(filter(None, [f"{NOTE}{moved}" if moved or wanted.text else "", wanted.text]))


def _disarm(past: Past, folder: Path) -> Past:
    """A job from a file, with this person's own rules in the place of its, and no more rights than a new job has."""
    past = without_rights(past)
    documents = dict(past.documents)
    rules = load_permission_settings(folder, Path.home()).rules.model_dump_json()
    # Of what travelled with it only what conversations begin with: no servers, skills or hooks.
    carried = {name: digest for name, digest in carried_by(past.fields).items() if name == "instructions"}
    fields = dict(past.fields) | {"memory": "", "rules": rules, "carried": json.dumps(carried)}
    if (digest := fields.get("definitions", "")) in documents:
        catalogue = json.loads(documents.pop(digest))
        found = catalogue["definitions"].items()
        text = json.dumps({"definitions": {name: _harmless(one) for name, one in found}}, ensure_ascii=False)
        fields["definitions"] = digest_of(text)
        documents[fields["definitions"]] = text
    for agent in past.agents.values():
        spec = agent.spec
        spec["definition"] = _harmless(spec["definition"])
        spec["mode"] = at_most(spec["mode"], DEFAULT_MODE)
        spec["after_plan"] = spec.get("after_plan") and at_most(spec["after_plan"], DEFAULT_MODE)
        agent.fields["spec"] = json.dumps(spec)
    return replace(past, fields=fields, documents=documents)


def _harmless(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition with what it says to the model, and what it takes away; nothing that it would have run or be given."""
    return {name: value for name, value in definition.items() if name in _HARMLESS}
