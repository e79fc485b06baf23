"""Continue from a moment of a job's history in a new job.

The new job's first request begins byte for byte like the old one's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from swarm.agent.spec import AgentSpec
from swarm.client.preparation import DEFAULT_MODE, find_workspace
from swarm.client.project import gather
from swarm.client.swarm import Job, Swarm
from swarm.core.errors import ConfigurationError
from swarm.core.ids import new_job_id
from swarm.models import Usage
from swarm.models.catalogue import cost_usd, resolve_model
from swarm.permissions.modes import at_most
from swarm.permissions.sources import load_permission_settings
from swarm.replay.branch import AgentChange, Moment, branch, find_moment, name_agents, without_rights
from swarm.replay.files import FileSource, Restoring
from swarm.replay.importer import IMPORTED, import_past
from swarm.replay.past import Past, carried_by
from swarm.replay.redefinition import redefine
from swarm.replay.shared_state import share_then
from swarm.store.prefixes import digest_of
from swarm.store.values import NANO

NOTE = (
    "Note from the runtime: you continue from an earlier moment of another job. Your later work does not exist here. Agents "
    "are still known by the ids that you have read."
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
        "fallbacks",
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
"""Fields that a definition from a file may set."""


@dataclass(frozen=True)
class Resumption:
    """The moment to continue from, and changes for the new job."""

    agent_id: str
    turn: int
    text: str = ""
    model: str | None = None
    files: FileSource = ""
    workspace: Path | None = None
    """Folder to work in, instead of the old job's."""
    agents: Path | None = None
    """Folder whose current definitions replace the old job's."""
    several: bool = False
    """Whether other new jobs run beside this one, so that they share a folder only on request."""
    budget_usd: float | None = None
    """The most that the new job may spend; a smaller budget of the old job holds."""
    ask_seconds: float | None = None
    """Time to answer a question to a person, instead of the old job's."""


@dataclass(frozen=True)
class Branched:
    """The new job."""

    job: Job
    workspace: str
    restored: bool
    """Whether the files are a copy of that moment's; else the job uses the current folder."""


def find_turn(past: Past, start: str) -> tuple[str, int]:
    """Return the agent and the turn that AGENT:TURN names. Raises `ConfigurationError`."""
    who, _, number = start.rpartition(":")
    if not who or not number.isdecimal():
        raise ConfigurationError(f"{start!r} is no moment of a job; write AGENT:TURN, for example root:3")
    matches = [
        one.id
        for one in past.agents.values()
        if one.fields.get("name") == who or (who == "root" and one.id == past.root)
    ]
    matches = matches or [one for one in past.agents if one.startswith(who) or one.partition("-")[2].startswith(who)]
    if len(matches) != 1:
        raise ConfigurationError(
            f"{who!r} is {len(matches) or 'no'} agents of {past.job_id}; `swarm tree {past.job_id}` lists them"
        )
    return matches[0], int(number)


def go_on(
    swarm: Swarm, past: Past, wanted: Resumption, serve: Callable[[str], str] | None = None, *, job_id: str = ""
) -> Branched:
    """Create the new job and queue it, under this id if one is given. `serve` starts a rehearsal for the job with that id and returns
    its URL.

    Raises `ConfigurationError` if the job cannot be replayed, `GitFailed` if its files cannot be restored.
    """
    past, folder, moment, change = check_resumption(swarm, past, wanted, served=serve is not None)
    foreign, job_id = past.fields.get(IMPORTED) == "1", job_id or new_job_id()
    files = Restoring(swarm.settings, past, moment, name_agents(moment, job_id), job_id)
    layout = files.lay_out("here" if foreign else wanted.files, folder)
    if wanted.several and not (layout.restored or wanted.files == "here"):
        raise ConfigurationError(
            f"{past.job_id} has no files of that moment, so several jobs would share {folder}. Allow that with --files here"
        )
    base_url = serve(job_id) if serve is not None else None
    job = {"workspace": str(folder), **({"rehearsed": "1"} if base_url else {}), **_set_terms(past, wanted)}
    if wanted.budget_usd is not None:
        _bound_agents(past, moment, wanted.budget_usd, change, layout.specs)
    workspace = layout.specs[wanted.agent_id]["workspace"]
    text = _tell(past, wanted, workspace)
    change = replace(change, text=text, base_url=base_url, commit=layout.commit, specs=layout.specs, job=job)
    made = branch(past, moment, job_id, change, swarm.store.now())
    shared = share_then(past, moment.seq).renamed(made.ids)
    swarm.publish(
        import_past(swarm.store, made.past, queue=made.queue, names=made.names, team=made.team, shared=shared)
    )
    return Branched(swarm.job(job_id), workspace, layout.restored)


class _CheckedResumption(NamedTuple):
    """A resumption that can begin."""

    past: Past
    """The old job; an imported one has this person's rights."""
    folder: Path
    moment: Moment
    change: AgentChange


def check_resumption(swarm: Swarm, past: Past, wanted: Resumption, *, served: bool) -> _CheckedResumption:
    """Check what `go_on` would begin with, and change nothing. Raises its `ConfigurationError`, except those about old files."""
    foreign = past.fields.get(IMPORTED) == "1"
    folder = find_workspace(wanted.workspace or (Path() if foreign else past.fields.get("workspace", ".")))
    _refuse(past, wanted, foreign=foreign, served=served)
    if foreign:
        past = _disarm(past, folder)
    moment = find_moment(past, wanted.agent_id, wanted.turn)
    change = _redefine(swarm, past, moment, wanted)
    if wanted.budget_usd is not None:
        first = {**past.agents[wanted.agent_id].spec, **change.definitions.get(wanted.agent_id, {})}
        model, prices_file = change.model or first["model"], swarm.settings.prices_file
        if cost_usd(model, Usage(), prices_file=prices_file) is None:
            raise ConfigurationError(
                f"no price is known for the model {model}, so a budget cannot be kept; "
                "add its price to the file that SWARM_PRICES_FILE names"
            )
    return _CheckedResumption(past, folder, moment, change)


def _set_terms(past: Past, wanted: Resumption) -> dict[str, str]:
    """The fields of the new job's record for its budget and its questions."""
    terms = {} if wanted.ask_seconds is None else {"ask_seconds": str(wanted.ask_seconds)}
    if wanted.budget_usd is not None:
        limits = bound_budget(json.loads(past.fields.get("limits") or "{}"), wanted.budget_usd)
        terms |= {"limits": json.dumps(limits), "max_cost": str(round(limits["budget_usd"] * NANO))}
    return terms


def _bound_agents(
    past: Past, moment: Moment, budget_usd: float, change: AgentChange, specs: dict[str, dict[str, Any]]
) -> None:
    for old in moment.lives:
        # A new definition has limits of its own, which replace those of the spec.
        spec = change.definitions[old] if old in change.definitions else specs.setdefault(old, {})
        spec["limits"] = bound_budget(spec.get("limits") or past.agents[old].spec.get("limits") or {}, budget_usd)


def bound_budget(limits: Mapping[str, Any], most_usd: float) -> dict[str, Any]:
    """Copy limits with a budget of `most_usd`, or with their own if that is smaller or no number, to be refused."""
    own = limits.get("budget_usd")
    try:
        return {**limits, "budget_usd": most_usd if own is None else min(most_usd, float(own))}
    except (TypeError, ValueError):
        return dict(limits)


def _refuse(past: Past, wanted: Resumption, *, foreign: bool, served: bool) -> None:
    """Raise `ConfigurationError` if the job cannot be continued."""
    if past.redacted == "words":
        raise ConfigurationError(f"{past.job_id} was exported without its words, so it cannot be continued")
    if foreign and wanted.files == "restore":
        raise ConfigurationError(f"{past.job_id} was imported, and has no workspace files; omit --files restore")
    if past.agents[wanted.agent_id].spec.get("base_url") is not None and not served:
        raise ConfigurationError(
            f"{past.job_id} was a rehearsal, whose server has ended; start another one with --rehearse"
        )


def _redefine(swarm: Swarm, past: Past, moment: Moment, wanted: Resumption) -> AgentChange:
    """Changes for another model and other definitions."""
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
        f" Your workspace is {workspace} now, so change the paths that you have read."
        if workspace != spec.workspace
        else ""
    )
    # An agent without a message or a move continues without a note.
    return "\n\n".join(filter(None, [f"{NOTE}{moved}" if moved or wanted.text else "", wanted.text]))


def _disarm(past: Past, folder: Path) -> Past:
    """An imported job with this person's own rules, and no more rights than a new job."""
    past = without_rights(past)
    documents = dict(past.documents)
    rules = load_permission_settings(folder, Path.home()).rules.model_dump_json()
    # Keep only the documents that conversations begin with: no servers, skills or hooks.
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
    """Keep a definition's texts for the model and its restrictions; remove everything that it would run or get."""
    return {name: value for name, value in definition.items() if name in _HARMLESS}
