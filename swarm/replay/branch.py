"""Branch a new job from a moment of another job's history.

Pure. Conversations stay byte for byte the same, so the prompt cache holds them. Old ids in them become further names of the same agents
in the new job. The cut is at the end of a turn; its `seq` decides what else in the job had happened.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, get_args

from swarm.agent.needs import needs_of
from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError
from swarm.core.ids import child_agent_id, root_agent_id
from swarm.core.plain import clean
from swarm.core.records import EndState
from swarm.mailbox import position_of
from swarm.replay.past import Past, PastAgent, PastEntry
from swarm.store.fields import agent_fields
from swarm.store.prefixes import digest_of

_OF_JOBS = (
    "rules",
    "memory",
    "ask_seconds",
    "limits",
    "retention",
    *(f"retention_{state}" for state in get_args(EndState)),
    "archive",
    "max_depth",
    "max_agents",
    "max_running",
    "weight",
    "max_resumes",
)
_OF_JOBS_TOO = ("max_tokens", "max_cost", "workspace", "definitions", "carried", "files", "imported")
_OF_AGENTS = ("verdicts", "stopped_by")


@dataclass
class Moment:
    """A moment of a job: the end of a turn of one agent, which becomes the new job's first agent."""

    agent_id: str
    turn: int
    seq: int
    at: float
    """Unix seconds, by the Redis server's clock."""
    lives: dict[str, list[PastEntry]] = field(default_factory=dict)
    """History up to the moment per agent; parents come first."""

    def commit_of(self, agent_id: str) -> str:
        """The last commit in the agent's journal; empty if there is none."""
        return next(
            (str(one.document["commit"]) for one in reversed(self.lives[agent_id]) if one.document.get("commit")), ""
        )

    def last_commit(self, agent_ids: list[str]) -> str:
        """The last commit of any of these agents, which share their files."""
        named = [
            (one.seq, str(one.document["commit"]))
            for one_id in agent_ids
            for one in self.lives[one_id]
            if one.document.get("commit")
        ]
        return max(named)[1] if named else ""


def find_moment(past: Past, agent_id: str, turn: int) -> Moment:
    """Find the end of the agent's turn of that number (0: before its first). Raises `ConfigurationError`."""
    entries = past.agents[agent_id].entries
    replies = [place for place, one in enumerate(entries) if one.document["kind"] == "assistant"]
    if not 0 <= turn <= len(replies):
        raise ConfigurationError(f"{agent_id} has {len(replies)} turns; choose one from 0 to {len(replies)}")
    first = entries[0].document if entries else {}
    if first.get("kind") != "started":
        raise ConfigurationError(f"{agent_id} has not begun, so it cannot be continued")
    if past.agents[agent_id].parent and first["spec"].get("fork") is not None:
        raise ConfigurationError(
            f"{agent_id} is a fork, which begins in its parent's conversation; replay from its parent"
        )
    last = _end_of_turn(entries, replies[turn - 1]) if turn else [*replies, len(entries)][0] - 1
    cut = entries[last]
    moment = Moment(agent_id, turn, cut.seq, float(cut.document.get("at", 0.0)))
    if past.agents[agent_id].parent:
        # It continues alone: its children ended with the old job, and its conversation has their messages.
        moment.lives[agent_id] = entries[: last + 1]
        return moment
    waiting = [agent_id]
    while waiting:
        found = waiting.pop(0)
        recorded = [one for one in past.agents[found].entries if one.seq <= cut.seq]
        moment.lives[found] = recorded
        waiting += [child for child in _started_by(recorded) if child in past.agents and child not in moment.lives]
    return moment


def _end_of_turn(entries: list[PastEntry], reply: int) -> int:
    content = entries[reply].document["content"]
    calls = {block["id"] for block in content if block.get("type") == "tool_use"}
    place, pending = reply, set(calls)
    for at in range(reply + 1, len(entries)):
        document = entries[at].document
        if document["kind"] in ("assistant", "finished") or not (pending or _is_hook_of(calls, document)):
            break
        if document["kind"] == "tool_finished":
            pending.discard(document["tool_use_id"])
        place = at
    return place


def _is_hook_of(calls: set[str], document: dict[str, Any]) -> bool:
    """Whether the entry records hooks of one of these calls."""
    return document["kind"] in ("hooks_begun", "hooked") and document["event"].rpartition(" ")[2] in calls


def _started_by(entries: list[PastEntry]) -> list[str]:
    found: list[str] = []
    for one in entries:
        if one.document["kind"] == "spawned":
            found += one.document["children"].values()
        elif one.document["kind"] == "grading":
            found.append(one.document["grader"])
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class AgentChange:
    """Changes to make in the new job."""

    text: str = ""
    """Message to the first agent before it continues."""
    model: str | None = None
    base_url: str | None = None
    commit: str = ""
    """Commit of the first agent's files, if others changed them after the last one in its journal."""
    specs: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Changed fields of the spec, per old agent id."""
    definitions: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """New definitions per old agent id; a worker rebuilds the request prefix from them."""
    catalogue: str = ""
    """Definitions that replace the old job's, as JSON."""
    job: Mapping[str, str] = field(default_factory=dict)
    """Changed fields of the job's record."""


@dataclass
class Branch:
    """A new job, to be imported."""

    past: Past
    queue: list[str]
    names: dict[str, str]
    team: dict[str, str] | None
    ids: dict[str, str]
    """New agent id per old id."""


def name_agents(moment: Moment, job_id: str) -> dict[str, str]:
    """New agent id per old id; the ids are derived, so a repeated call gives the same ones."""
    first = root_agent_id(job_id)
    return {old: first if old == moment.agent_id else child_agent_id(first, old) for old in moment.lives}


def branch(past: Past, moment: Moment, job_id: str, change: AgentChange, now: float) -> Branch:
    """Build the job that begins at this moment."""
    new = _New(moment, job_id, change, now)
    fields = {name: past.fields[name] for name in (*_OF_JOBS, *_OF_JOBS_TOO) if name in past.fields}
    fields |= {
        "title": past.fields.get("title", ""),
        "root": new.ids[moment.agent_id],
        "replayed_from": f"{past.job_id} {moment.agent_id}:{moment.turn}",
        **change.job,
    }
    documents = dict(past.documents)
    if change.catalogue:
        fields["definitions"] = digest_of(change.catalogue)
        documents[fields["definitions"]] = change.catalogue
    made = Past(job_id, fields, documents)
    queue, names = [], {"root": new.ids[moment.agent_id]}
    for old in moment.lives:
        agent = new.go_on(past.agents[old])
        made.agents[agent.id] = agent
        names[old] = agent.id
        if "name" in agent.fields:
            names[agent.fields["name"]] = agent.id
        if agent.fields["state"] == "queued":
            queue.append(agent.id)
    return Branch(made, queue, names, _team_then(past, moment, new.ids), new.ids)


class _New:
    """Builds the new job's agents from the old one's."""

    def __init__(self, moment: Moment, job_id: str, change: AgentChange, now: float) -> None:
        self._moment, self._job_id, self._change, self._now = moment, job_id, change, now
        self.ids = name_agents(moment, job_id)
        self._numbers = count(moment.seq + 1)

    def go_on(self, old: PastAgent) -> PastAgent:
        """Build an agent that continues the old one."""
        recorded, update = self._moment.lives[old.id], self._update_spec(old)
        other = self._change.definitions.get(old.id, {})
        spec = AgentSpec.model_validate({**old.spec, **update, **other})
        mail, unread = _mail_then(old, self._moment)
        fields = agent_fields(clean(spec)) | {name: old.fields[name] for name in _OF_AGENTS if name in old.fields}
        if not other and old.fields.get("wants"):
            # Its needs exceed its definition's, because it got tools that not every worker has.
            needs = needs_of(spec)
            needs = needs.model_copy(update={"wants": tuple(sorted({*needs.wants, *old.fields["wants"].split()}))})
            fields |= {"needs": needs.model_dump_json(), "wants": " ".join(needs.wants)}
        fields |= {"job": self._job_id, "parent": spec.parent_id or "", "depth": str(spec.depth)}
        fields |= {"gen": "0", "created": str(self._now), "era": "0", "unread": str(len(unread))}
        fields |= {"unread_notes": str(sum(given["kind"] == "notification" for given in unread))}
        fields |= _state_then(recorded, rests=spec.teammate and not unread)
        entries = [PastEntry(one.number, one.seq, _rename(one.document, update, self.ids)) for one in recorded]
        if old.id == self._moment.agent_id and self._change.commit:
            _name_files(entries, self._change.commit)
        for document in self._tell(old) if "ended" not in fields else ():
            stamped = {**document, "v": 1, "at": self._now, "generation": 0}
            entries.append(PastEntry(len(entries) + 1, next(self._numbers), stamped))
        return PastAgent(spec.agent_id, fields, entries, mail, dict(old.outputs))

    def _update_spec(self, old: PastAgent) -> dict[str, Any]:
        """Updated spec for an agent whose conversation stays the same."""
        first = old.id == self._moment.agent_id
        update: dict[str, Any] = {
            **{"agent_id": self.ids[old.id], "job_id": self._job_id},
            **{"parent_id": None if first else self.ids[old.parent], "host": "", "created_at": self._now},
            **{"base_url": self._change.base_url, **self._change.specs.get(old.id, {})},
        }
        if first:
            update |= {"background": False, "teammate": False, "helper": False, "batch": False}
            update |= {"model": self._change.model, "fallbacks": ()} if self._change.model else {}
        return update

    def _tell(self, old: PastAgent) -> Iterator[dict[str, Any]]:
        """Yield the entries to append to the agent's history."""
        if self._moment.lives[old.id]:
            yield {"kind": "replayed"}
        if old.id == self._moment.agent_id and self._change.text:
            yield {"kind": "prompt", "text": self._change.text, "purpose": "task"}


def _mail_then(old: PastAgent, moment: Moment) -> tuple[list[tuple[str, dict[str, str]]], list[dict[str, str]]]:
    """The mail received by then, and its unread part."""
    mail = [(mail_id, given) for mail_id, given in old.mail if position_of(mail_id)[0] <= moment.at * 1000]
    read = (one.document["cursor"] for one in reversed(moment.lives[old.id]) if one.document.get("cursor"))
    cursor = position_of(next(read, "0-0"))
    return mail, [given for mail_id, given in mail if position_of(mail_id) > cursor]


def _name_files(entries: list[PastEntry], commit: str) -> None:
    for one in reversed(entries):
        if one.document.get("commit"):
            one.document["commit"] = commit
            return


def _state_then(entries: list[PastEntry], *, rests: bool) -> dict[str, str]:
    """The agent's state then: ended, idle (if it `rests` without work), or continuing from its journal."""
    last = entries[-1].document if entries else {}
    if last.get("kind") == "parked" and last["condition"].get("rest") and rests:
        # Imported as idle: an agent that became idle again would notify its lead twice.
        return {"state": "parked", "idle": "1", "wait_mode": "all", "wait_mail": "any", "activity": "idle"}
    if last.get("kind") != "finished":
        return {"state": "queued"}
    data = {"data": json.dumps(last["data"])} if last.get("data") is not None else {}
    ended = {"ended": str(last["at"]), **data}
    return {"state": last["state"], "text": last.get("text", ""), "reason": last.get("reason", ""), **ended}


def _rename(document: dict[str, Any], update: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """Put new ids into an entry where the runtime reads them; the model's texts stay the same."""
    changed = copy.deepcopy(document)
    changed["generation"] = 0
    match changed["kind"]:
        case "started" | "redefined":
            changed["spec"] = {**changed["spec"], **update}
        case "spawned":
            changed["children"] = {call: ids.get(child, child) for call, child in changed["children"].items()}
        case "grading":
            changed["grader"] = ids.get(changed["grader"], changed["grader"])
        case "parked":
            awaited = changed["condition"].get("children", [])
            changed["condition"]["children"] = [ids.get(child, child) for child in awaited]
        case "compacted":
            changed["folded"] = None  # a shortcut, which has the old agent's id
    return changed


def _team_then(past: Past, moment: Moment, ids: dict[str, str]) -> dict[str, str] | None:
    team: dict[str, str] | None = None
    for event_id, told in past.events:
        if told.get("kind") != "team" or int(told.get("seq", 0)) > moment.seq:
            continue
        lead = ids.get(told["agent"])
        if told.get("change") == "founded" and lead is not None:
            team = {
                "name": told["name"],
                "description": "",
                "lead": lead,
                "created": str(int(event_id.split("-")[0]) / 1000),
            }
        elif told.get("change") == "dissolved":
            team = None
    return team


def without_rights(past: Past) -> Past:
    """Remove the rights in a foreign job's history: rules, folders, the network, a server."""
    agents = {}
    for agent in past.agents.values():
        spec = agent.spec | {
            "rules": {},
            "folders": [],
            "network": False,
            "base_url": None,
            "files": None,
            "isolation": "none",
        }
        agents[agent.id] = replace(agent, fields={**agent.fields, "spec": json.dumps(spec)})
    return replace(past, fields={**past.fields, "rules": ""}, agents=agents)
