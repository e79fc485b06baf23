"""Convert an agent's journal to spans and figures, one entry at a time. Pure.

Guarantee: an entry's spans depend only on the journal up to it and on constant fields of the agent's record. So reading a
journal again, from any place, makes the same spans with the same ids. A parent's id is known before the parent has ended.

A job is one trace. Its root is the job itself (`invoke_workflow`), below it are the runs of its first agent, below a run its requests, its
calls and the runs of the agents that it started. A run that a message began is below the job, and linked to the run before it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from swarm.core.ids import reply_span_id, span_id
from swarm.core.records import AgentView
from swarm.core.usage import NANO, Usage
from swarm.store.journals import StoredEntry
from swarm.telemetry.names import SECONDS

BY_A_TOOL = "(tool)"
"""The model of requests that a tool made: entries do not name it."""
Attribute = str | int | float | bool


def count_reply(entry: Mapping[str, Any], model: str, *, rehearsed: bool) -> Counter[str]:
    """Count a reply, a summary, or a tool's request of a model."""
    usage, found = Usage.model_validate(entry.get("usage") or {}), Counter[str]()
    found[f"input|{model}"] = usage.total_tokens - usage.output_tokens
    found[f"output|{model}"] = usage.output_tokens
    found[f"cache_read|{model}"] = usage.cache_read_input_tokens
    found[f"cache_write|{model}"] = usage.cache_creation_input_tokens
    for figure in ("cost", "estimated"):
        found[f"{figure}|{model}|{str(rehearsed).lower()}"] = round(entry.get(f"{figure}_usd", 0.0) * NANO)
    found[f"unpriced|{model}"] = entry.get("unpriced_tokens", 0)
    return found


def count_seconds(figure: str, label: str, seconds: float) -> Counter[str]:
    """Count one observation of a histogram."""
    # A bucket is named by its index, so that an `le` is never one of the labels.
    place = bisect_left(SECONDS, seconds)
    return Counter({f"{figure}|{label}|{place}": 1, f"{figure}|{label}|sum": round(seconds * 1000)})


@dataclass(frozen=True)
class Span:
    """One span, complete. Times are Unix seconds."""

    name: str
    job_id: str
    id: str
    parent: str
    """Empty for the root of the trace."""
    start: float
    end: float
    attributes: dict[str, Attribute]
    kind: Literal["internal", "client"] = "internal"
    error: str = ""
    link: str = ""
    """The span of the run before this one."""
    events: tuple[tuple[str, float], ...] = ()


def job_span_id(job_id: str) -> str:
    """Return the id of the root of a job's trace."""
    return span_id(job_id, "job")


def run_span_id(agent_id: str, run: int) -> str:
    """Return the id of the span of a run."""
    return span_id(agent_id, "run", str(run))


@dataclass
class Fold:
    """State of one agent's journal after the entries read so far."""

    agent: AgentView
    provider: str
    home: str
    """The id of the parent span of the agent's first run."""
    number: int = 0
    run: int = 0
    children: dict[str, int] = field(default_factory=dict)
    """Child agent → the run that started it."""
    _began: float = 0.0
    _calls: dict[str, tuple[str, float]] = field(default_factory=dict)
    _events: list[tuple[str, float]] = field(default_factory=list)
    _model: str = ""

    def take(self, stored: StoredEntry) -> tuple[list[Span], Counter[str]]:
        """Take the next entry; return the spans that it completes and its counts. Unknown kinds add nothing."""
        entry: dict[str, Any] = json.loads(stored.document)
        self.number = stored.number
        take = getattr(self, f"_take_{entry['kind']}", None)
        return take(entry) if take is not None else ([], Counter())

    # -- beginning and end ---------------------------------------------------------------------------------

    def _take_started(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        # The record names the model in use now.
        self._began, self._model = entry["at"], entry.get("spec", {}).get("model") or self.agent.model
        return [], Counter()

    def _take_resumed(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self.run, self._began, self._events = self.run + 1, entry["at"], []
        return [], Counter()

    def _take_replayed(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self._began = entry["at"]
        return [], Counter()

    def _take_parked(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self._events.append(("parked", entry["at"]))
        return [], Counter()

    def _take_finished(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        agent, at, state = self.agent, entry["at"], entry["state"]
        error = "" if state == "completed" else state
        first = self.run == 0
        run = self._span(
            f"invoke_agent {agent.definition}",
            run_span_id(agent.id, self.run),
            self.home if first else job_span_id(agent.job_id),
            self._began or agent.created_at,
            at,
            {
                "gen_ai.operation.name": "invoke_agent",
                "swarm.agent.depth": agent.depth,
                "swarm.agent.state": state,
                "swarm.agent.run": self.run,
            },
            error=error,
            link="" if first else run_span_id(agent.id, self.run - 1),
            events=tuple(self._events),
        )
        if agent.parent_id is not None or not first:
            return [run], Counter()
        about: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": agent.definition,
            "swarm.job.state": state,
        }
        name, own = f"invoke_workflow {agent.definition}", job_span_id(agent.job_id)
        return [run, self._span(name, own, "", agent.created_at or self._began, at, about, error=error)], Counter()

    # -- the model -----------------------------------------------------------------------------------------

    def _take_assistant(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        for block in entry["content"]:
            if block.get("type") == "tool_use":
                self._calls[block["id"]] = (block["name"], entry["at"])
        return self._reply(entry, {"gen_ai.response.finish_reasons": entry["stop_reason"]})

    def _take_compacted(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        spans, counts = self._reply(entry, {"swarm.compaction.trigger": entry.get("trigger", "auto")})
        return spans, counts + Counter({f"compactions|{entry.get('trigger', 'auto')}": 1})

    def _take_compaction_failed(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        spans, counts = self._reply(entry, {}, error=entry["error_kind"])
        return spans, counts + Counter({f"model_errors|{entry['error_kind']}": 1})

    def _take_switched(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self._model = entry["model"]
        self._events.append((f"asks {entry['model']} ({entry['reason']})", entry["at"]))
        return [], Counter({f"switches|{entry['reason']}": 1})

    def _take_model_failed(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        spans, counts = self._reply(entry, {}, error=entry["error_kind"])
        return spans, counts + Counter({f"model_errors|{entry['error_kind']}": 1})

    def _reply(
        self, entry: dict[str, Any], more: dict[str, Attribute], *, error: str = ""
    ) -> tuple[list[Span], Counter[str]]:
        model = entry.get("model") or self._model
        seconds = entry.get("duration_seconds", 0.0)
        about: dict[str, Attribute] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            **_usage(entry),
            **({"gen_ai.response.id": entry["request_id"]} if entry.get("request_id") else {}),
            **more,
        }
        chat = self._span(
            f"chat {model}",
            reply_span_id(self.agent.id, self.number),
            run_span_id(self.agent.id, self.run),
            entry["at"] - seconds,
            entry["at"],
            about,
            kind="client",
            error=error,
        )
        counts = count_reply(entry, model, rehearsed=self.agent.rehearsed)
        return [chat], counts + (count_seconds("model_seconds", model, seconds) if seconds else Counter())

    # -- calls ---------------------------------------------------------------------------------------------

    def _take_advanced(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self._calls.update({call["id"]: (call["name"], entry["at"]) for call in entry["calls"]})
        return [], Counter()

    def _take_tool_started(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        name, _ = self._calls.get(entry["tool_use_id"], ("unknown", 0.0))
        self._calls[entry["tool_use_id"]] = (name, entry["at"])
        return [], Counter()

    def _take_tool_finished(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        call_id, at = entry["tool_use_id"], entry["at"]
        name, since = self._calls.pop(call_id, ("unknown", at))
        start = at - entry["duration_seconds"] if entry.get("duration_seconds") else since
        failed = bool(entry.get("is_error"))
        asked = bool(entry.get("usage"))
        about: dict[str, Attribute] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            **(_usage(entry) if asked else {}),
        }
        # A call's id is unique in its agent; a result reported twice has two entries.
        own, below = span_id(self.agent.id, "call", str(self.number)), run_span_id(self.agent.id, self.run)
        call = self._span(f"execute_tool {name}", own, below, start, at, about, error="tool_error" if failed else "")
        counts = count_seconds("tool_seconds", name, max(0.0, at - start))
        counts[f"tool_errors|{name}"] += failed
        if asked:
            counts += count_reply(entry, BY_A_TOOL, rehearsed=self.agent.rehearsed)
        return [call], counts

    # -- others --------------------------------------------------------------------------------------------

    def _take_spawned(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        for child in entry["children"].values():
            # A resumed child was started before.
            self.children.setdefault(child, self.run)
        return [], Counter()

    def _take_grading(self, entry: dict[str, Any]) -> tuple[list[Span], Counter[str]]:
        self.children.setdefault(entry["grader"], self.run)
        return [], Counter()

    def _span(
        self, name: str, own: str, parent: str, start: float, end: float, about: dict[str, Attribute], **more: Any
    ) -> Span:
        agent = self.agent
        common: dict[str, Attribute] = {
            "gen_ai.provider.name": self.provider,
            "gen_ai.conversation.id": agent.job_id,
            "gen_ai.agent.id": agent.id,
            "gen_ai.agent.name": agent.definition,
        }
        # Clocks of hosts differ.
        return Span(name, agent.job_id, own, parent, start, max(start, end), {**common, **about}, **more)


def _usage(entry: dict[str, Any]) -> dict[str, Attribute]:
    usage = Usage.model_validate(entry.get("usage") or {})
    return {
        # By the conventions cached tokens are among these.
        "gen_ai.usage.input_tokens": usage.total_tokens - usage.output_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_input_tokens,
        "swarm.cost_usd": entry.get("cost_usd", 0.0),
    }
