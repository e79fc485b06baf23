"""The board and scratchpad at a moment of a job's history, rebuilt from the calls that changed them. Pure.

Changes are read from the calls' results, whose order is exact except for some milliseconds between agents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.definitions.tools import all_rows
from swarm.replay.past import Past, PastAgent
from swarm.store.values import normal_role

_TASK = re.compile(r"(?:Added as task|Task) (\d+)")
_VERSION = re.compile(r"has version (\d+) and")


@dataclass(frozen=True)
class _SharedCall:
    """A call that changed shared state, or the end of an agent (without a name)."""

    seq: int
    at: float
    agent: PastAgent
    name: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""


@dataclass
class Shared:
    """Shared state of a job's agents, in its stored form."""

    tasks: dict[int, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """Texts by `NUMBER description`, `NUMBER result`, `NUMBER notes`."""
    pages: dict[str, str] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Version, by, by_name and at, per page."""
    version: int = 0
    """Highest version of any page."""

    def renamed(self, ids: Mapping[str, str]) -> Shared:
        """Replace the agents' ids, and release tasks in progress by other agents; returns this object."""
        for task in self.tasks.values():
            if task["state"] == "in_progress" and task["owner"] not in ids:
                _give_back(task)
        for record in (*self.tasks.values(), *self.about.values()):
            record |= {name: ids.get(record[name], record[name]) for name in ("by", "owner") if record.get(name)}
        return self

    def parts(self) -> Iterator[dict[str, Any]]:
        """Yield the data for each key of the new job, in the form of `import_past.lua`."""
        tasks = self.tasks
        done = [number for number, task in tasks.items() if task["state"] == "completed"]
        left = {n: len(set(task.get("blocked_by", ())) - set(done)) for n, task in tasks.items()}
        owners = {n: task["owner"] for n, task in tasks.items() if task["state"] == "in_progress"}
        edges = [f"{first:08d} {n:08d}" for n, task in tasks.items() for first in task.get("blocked_by", ())]
        yield {"part": "board", "records": tasks}
        yield {"part": "board:text", "texts": {name: text for name, text in self.texts.items() if text}}
        yield {"part": "board:owners", "texts": owners}
        yield {"part": "board:left", "texts": left}
        yield {"part": "board:done", "members": done}
        yield {
            "part": "board:open",
            "scores": {n: n for n, t in tasks.items() if t["state"] == "pending" and not left[n]},
        }
        yield {"part": "board:edges", "scores": dict.fromkeys(edges, 0)}
        yield {
            "part": "pad",
            "records": {page: {**about, "size": self._size(page)} for page, about in self.about.items()},
        }
        for page, text in self.pages.items():
            yield {"part": f"page:{page}", "text": text}

    @property
    def fields(self) -> dict[str, str]:
        """Fields for the job's record."""
        size = sum(map(self._size, self.pages))
        texts = sum(len(text.encode()) for text in self.texts.values())
        board = (
            {"board_bytes": str(texts + sum(len(json.dumps(task)) for task in self.tasks.values()))}
            if self.tasks
            else {}
        )
        return board | ({"pad_bytes": str(size), "pad_version": str(self.version)} if self.version else {})

    def _size(self, page: str) -> int:
        return len(self.pages[page].encode())


def share_then(past: Past, seq: int | None = None) -> Shared:
    """The shared state after all events up to `seq`; without it, at the end."""
    shared = Shared()
    done = (one for agent in past.agents.values() for one in _done_by(agent) if seq is None or one.seq <= seq)
    for one in sorted(done, key=lambda one: one.seq):
        _CHANGES[one.name](shared, past, one)
    return shared


def _done_by(agent: PastAgent) -> Iterator[_SharedCall]:
    calls: dict[str, dict[str, Any]] = {}
    for entry in agent.entries:
        document, about = entry.document, (entry.seq, float(entry.document.get("at", 0.0)), agent)
        match document["kind"]:
            case "assistant":
                calls |= {one["id"]: one for one in document["content"] if one.get("type") == "tool_use"}
            case "hooked" if document.get("input") is not None and document["tool_use_id"] in calls:
                calls[document["tool_use_id"]] = {**calls[document["tool_use_id"]], "input": document["input"]}
            case "tool_finished" if not document.get("is_error") and document["tool_use_id"] in calls:
                call = calls[document["tool_use_id"]]
                if call["name"] in _CHANGES:
                    yield _SharedCall(*about, call["name"], call["input"], str(document["text"]))
            case "finished":
                yield _SharedCall(*about)


def _end(shared: Shared, past: Past, one: _SharedCall) -> None:
    for task in shared.tasks.values():
        if task["state"] == "in_progress" and task["owner"] == one.agent.id:
            _give_back(task)


def _add(shared: Shared, past: Past, one: _SharedCall) -> None:
    if found := _TASK.match(one.said):
        task = {"subject": "", "state": "pending", "by": one.agent.id, "by_name": _name(one.agent), "created": one.at}
        shared.tasks[int(found[1])] = task
        _update(shared, past, one)


def _claim(shared: Shared, past: Past, one: _SharedCall) -> None:
    if _TASK.match(one.said) and (task := _task(shared, one)) is not None:
        _take(task, one.agent)


def _update(shared: Shared, past: Past, one: _SharedCall) -> None:
    if (task := _task(shared, one)) is not None:
        _describe(shared, _number(one), task, one)
        if "owner" in one.given:
            _give(task, past, one, str(one.given["owner"]).strip())


def _complete(shared: Shared, past: Past, one: _SharedCall) -> None:
    if (task := _task(shared, one)) is not None:
        task |= {"state": "completed", "owner": one.agent.id, "owner_name": _name(one.agent)}
        shared.texts[f"{_number(one)} result"] = str(one.given["result"]).strip()


def _task(shared: Shared, one: _SharedCall) -> dict[str, Any] | None:
    """The task of a call, marked as changed at its time."""
    task = shared.tasks.get(_number(one))
    if task is not None:
        task["changed"] = one.at
    return task


def _number(one: _SharedCall) -> int:
    found = _TASK.match(one.said)
    return int(found[1]) if found else int(one.given.get("task_id") or 0)


def _describe(shared: Shared, number: int, task: dict[str, Any], one: _SharedCall) -> None:
    given = one.given
    if "subject" in given:
        task["subject"] = " ".join(str(given["subject"]).split())
    if "description" in given:
        shared.texts[f"{number} description"] = str(given["description"]).strip()
    if "role" in given:
        task["role"] = normal_role(str(given["role"]))
        if not task["role"]:
            del task["role"]
    if "blocked_by" in given:
        task["blocked_by"] = sorted({int(first) for first in given["blocked_by"]})
        if not task["blocked_by"]:
            del task["blocked_by"]
    if "note" in given:
        before = shared.texts.get(f"{number} notes")
        note = f"{_name(one.agent)}: {str(given['note']).strip()}"
        shared.texts[f"{number} notes"] = note if before is None else f"{before}\n{note}"


def _give(task: dict[str, Any], past: Past, one: _SharedCall, owner: str) -> None:
    if task["state"] == "completed":
        return
    to = next(
        (agent for agent in past.agents.values() if owner and owner in (agent.id, agent.fields.get("name"))), None
    )
    if to is not None:
        _take(task, to)
    elif not owner and (task.get("owner") == one.agent.id or one.agent.id == past.root):
        _give_back(task)


def _take(task: dict[str, Any], agent: PastAgent) -> None:
    task |= {"state": "in_progress", "owner": agent.id, "owner_name": _name(agent)}


def _give_back(task: dict[str, Any]) -> None:
    task["state"] = "pending"
    task.pop("owner", None)
    task.pop("owner_name", None)


def _write(shared: Shared, past: Past, one: _SharedCall, before: str = "") -> None:
    page, found = str(one.given["page"]), _VERSION.search(one.said)
    if one.given.get("delete"):
        shared.pages.pop(page, None)
        shared.about.pop(page, None)
    elif found:
        shared.pages[page] = before + str(one.given["content"])
        shared.version = max(shared.version, int(found[1]))
        told = {"version": int(found[1]), "by": one.agent.id, "by_name": _name(one.agent), "at": one.at}
        shared.about[page] = told


def _append(shared: Shared, past: Past, one: _SharedCall) -> None:
    _write(shared, past, one, shared.pages.get(str(one.given["page"]), ""))


def _name(agent: PastAgent) -> str:
    return agent.fields.get("name") or (agent.id if agent.parent else "root")


_BY_TOOL: dict[str, Callable[[Shared, Past, _SharedCall], None]] = {
    "BOARD_ADD": _add,
    "BOARD_CLAIM": _claim,
    "BOARD_UPDATE": _update,
    "BOARD_COMPLETE": _complete,
    "SCRATCHPAD_WRITE": _write,
    "SCRATCHPAD_APPEND": _append,
}
_NAMES = {row.home.partition(":")[2]: row.name for row in all_rows()}
_CHANGES = {"": _end} | {_NAMES[tool]: change for tool, change in _BY_TOOL.items() if tool in _NAMES}
