"""The page's reads of the fleet and of a job, as JSON: functions of a swarm without HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from swarm import __version__
from swarm.agent.spec import DEFAULT_AGENT
from swarm.client.preparation import DEFAULT_MODE, find_workspace
from swarm.client.project import is_trusted
from swarm.client.swarm import Swarm
from swarm.core.records import Event, Limits, State
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.model import PermissionMode
from swarm.models.catalogue import load_models
from swarm.permissions.sources import load_permission_settings
from swarm.store.questions import Question
from swarm.store.streams import FEED
from swarm.streaming.live.reader import LiveReader
from swarm.streaming.live.rows import Row
from swarm.streaming.live.state import LiveSnapshot, Patch
from swarm.web.entries import show_message
from swarm.web.panels import PANELS, describe_panel

MOST_JOBS = 200
_SHOWN_INBOX = 50
_OF_JOB_ONLY = ("reserved_tokens", "reserved_usd")


def read_about(swarm: Swarm, *, user: str, read_only: bool, now: float) -> dict[str, Any]:
    """Read the facts that the page needs first."""
    return {
        "version": __version__,
        "read_only": read_only,
        "user": user,
        "now": now,
        "modes": list(get_args(PermissionMode)),
        "states": list(get_args(State)),
        "panels": [describe_panel(panel) for panel in PANELS.values()],
    }


def read_jobs(swarm: Swarm, count: int = 50, before: str = "") -> dict[str, Any]:
    """Read the newest jobs, or those before a position, and the feed's earlier cursor; `last` is where the next page begins, if any.

    `full` says why nothing new starts, if Redis is nearly full."""
    store, reader = swarm.store, LiveReader(swarm.store)
    feed = store.streams.last(FEED)
    count = max(1, min(count, MOST_JOBS))
    ids, last = store.jobs.part(count, before=before)
    fleet = {"now": store.now(), "feed": feed, "full": store.fleet.full()}
    return {**fleet, "last": last or None, **show_jobs(swarm, reader.jobs(ids))}


def show_jobs(swarm: Swarm, rows: Mapping[str, Row]) -> dict[str, Any]:
    """Convert rows of jobs, with the number of open questions for people in all of them."""
    jobs = [{name: value for name, value in row.items() if name not in _OF_JOB_ONLY} for row in rows.values()]
    return {"needs_you": sum(not question.to for question in swarm.questions.open()), "jobs": jobs}


def read_job(swarm: Swarm, job_id: str, count: int | None = None) -> dict[str, Any]:
    """Read a job's snapshot: its first `count` agents or all, open questions and inbox. Raises `UnknownAgent`."""
    snapshot, view = LiveReader(swarm.store).snapshot(job_id, count), swarm.store.jobs.get(job_id)
    inbox = [show_message(message) for message in swarm.store.mail.last(job_id, _SHOWN_INBOX)]
    return {
        "now": swarm.store.now(),
        **show_snapshot(snapshot),
        "job": {
            **snapshot.job,
            "limits": view.limits.model_dump(mode="json"),
            "text": view.text,
            "read_up_to": view.read_up_to,
        },
        "inbox": inbox,
    }


def show_snapshot(snapshot: LiveSnapshot) -> dict[str, Any]:
    """A snapshot as JSON."""
    return {
        "seq": snapshot.seq,
        "events": snapshot.events,
        "job": snapshot.job,
        "agents": list(snapshot.agents.values()),
        "left": snapshot.left,
        "questions": [show_question(question) for question in snapshot.questions],
    }


def read_rows(swarm: Swarm, job_id: str, after: int, count: int) -> dict[str, Any]:
    """Read the job's next `count` agents after the first `after`, and how many come later."""
    agents, left = LiveReader(swarm.store).part(job_id, after, count)
    return {"agents": list(agents.values()), "left": left}


def show_patch(patch: Patch) -> dict[str, Any]:
    """Convert a patch to JSON, without unchanged fields."""
    shown: dict[str, Any] = {"seq": patch.seq}
    if patch.job is not None:
        shown["job"] = patch.job
    if patch.agents:
        shown["agents"] = list(patch.agents.values())
    if patch.questions is not None:
        shown["questions"] = [show_question(question) for question in patch.questions]
    if events := [show_event(event) for event in patch.happened if event.kind != "progress"]:
        shown["events"] = events
    if stale := find_stale(patch.happened):
        shown["stale"] = stale
    return shown


def show_event(event: Event) -> dict[str, Any]:
    """An event as JSON."""
    about = {"seq": event.seq, "at": event.at, "kind": event.kind, "agent_id": event.agent_id}
    return {**about, "fields": event.fields}


def find_stale(events: Iterable[Event]) -> list[str]:
    """Find the panels whose data these events have changed."""
    kinds = {event.kind for event in events}
    return [panel.name for panel in PANELS.values() if panel.stale_on & kinds]


def show_question(question: Question) -> dict[str, Any]:
    """Convert a question to JSON, with the parts that people decide by."""
    because, given = question.call if question.kind == "permission" else ("", None)
    return {
        **question.model_dump(mode="json", exclude={"always"}),
        "because": because.split("\n") if because else [],
        "input": given,
        "options": question.options,
        "always": question.lasting_rule,
    }


def read_start(swarm: Swarm, workspace: str | None = None) -> dict[str, Any]:
    """Read the options for starting a job. Raises `ConfigurationError` for an unusable workspace."""
    recent = dict.fromkeys(job.workspace for job in swarm.jobs(MOST_JOBS) if job.workspace)
    folder: Path | None = None if workspace is None else find_workspace(workspace)
    trusted = folder is not None and is_trusted(folder, swarm.settings)
    catalogue = load_catalogue(folder, trusted=trusted)
    mode, warnings = DEFAULT_MODE, []
    if folder is not None:
        permissions = load_permission_settings(folder, Path.home(), trusted=trusted)
        mode, warnings = permissions.default_mode or mode, [str(problem) for problem in permissions.problems]
    agents = [
        {"name": definition.name, "description": definition.description}
        for definition in catalogue.definitions.values()
        if definition.may_be_first
    ]
    return {
        "workspaces": list(recent),
        "agents": agents,
        "default_agent": DEFAULT_AGENT,
        "modes": list(get_args(PermissionMode)),
        "default_mode": mode,
        "models": sorted(load_models(swarm.settings.prices_file).aliases),
        "default_model": swarm.settings.model,
        "limits": Limits().model_dump(mode="json"),
        "warnings": warnings,
    }
