"""The names of figures and spans: the one place to change when conventions change.

They follow OpenTelemetry's semantic conventions for generative AI of November 2026 (status: development; they change). Figures without
a name there have one of ours. Dashboards, alerts and the documentation are checked against this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AS_OF = "2026-11"

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Figure:
    """One metric."""

    prometheus: str
    """The name in Prometheus, with `_total` for counters."""
    otlp: str
    kind: Kind
    unit: str
    """The UCUM unit for OTLP; Prometheus' name includes it."""
    help: str
    labels: tuple[str, ...] = ()


LABELS = {
    "model": "gen_ai.request.model",
    "tool": "gen_ai.tool.name",
    "error": "error.type",
    "state": "swarm.state",
    "rehearsed": "swarm.rehearsed",
    "trigger": "swarm.compaction.trigger",
    "reason": "swarm.switch.reason",
}
"""Label → its name in OTLP."""

_USAGE = "gen_ai.client.inference.usage"
_TOKENS = "Tokens that the model {}."
# fmt: off
FIGURES: dict[str, Figure] = {
    # -- from journals, entry by entry
    "input": Figure("swarm_input_tokens_total", f"{_USAGE}.input_tokens", "counter", "{token}",
                    _TOKENS.format("read, cached ones included"), ("model",)),
    "output": Figure("swarm_output_tokens_total", f"{_USAGE}.output_tokens", "counter", "{token}", _TOKENS.format("wrote"), ("model",)),
    "cache_read": Figure("swarm_cache_read_tokens_total", f"{_USAGE}.cache_read.input_tokens", "counter", "{token}",
                         _TOKENS.format("read from the cache"), ("model",)),
    "cache_write": Figure("swarm_cache_write_tokens_total", f"{_USAGE}.cache_write.input_tokens", "counter", "{token}",
                          _TOKENS.format("read and kept in the cache"), ("model",)),
    "cost": Figure("swarm_cost_usd_total", "swarm.cost", "counter", "USD",
                   "Cost paid; for a rehearsal, the cost with a model.", ("model", "rehearsed")),
    "estimated": Figure("swarm_estimated_usd_total", "swarm.cost.estimated", "counter", "USD",
                        "The part of the cost that is an estimate: of replies cut or lost.", ("model", "rehearsed")),
    "unpriced": Figure("swarm_unpriced_tokens_total", "swarm.tokens.unpriced", "counter", "{token}",
                       "Tokens of models without a known price.", ("model",)),
    "model_seconds": Figure("swarm_model_seconds", "gen_ai.client.inference.duration", "histogram", "s",
                            "Requests of the model, to the end of the reply.", ("model",)),
    "model_errors": Figure("swarm_model_errors_total", "swarm.model.errors", "counter", "{error}",
                           "Requests of the model that failed.", ("error",)),
    "tool_seconds": Figure("swarm_tool_seconds", "gen_ai.execute_tool.duration", "histogram", "s", "Calls of tools.", ("tool",)),
    "tool_errors": Figure("swarm_tool_errors_total", "swarm.tool.errors", "counter", "{error}",
                          "Calls of tools whose result is an error.", ("tool",)),
    "compactions": Figure("swarm_compactions_total", "swarm.compactions", "counter", "{compaction}", "Conversations cut.", ("trigger",)),
    "switches": Figure("swarm_model_switches_total", "swarm.model.switches", "counter", "{switch}",
                       "Changes of the model that an agent asks.", ("reason",)),
    # -- what steps have counted
    "jobs": Figure("swarm_jobs_begun_total", "swarm.jobs.begun", "counter", "{job}", "Jobs submitted."),
    "agents": Figure("swarm_agents_begun_total", "swarm.agents.begun", "counter", "{agent}", "Agents made."),
    "turns": Figure("swarm_turns_total", "swarm.turns", "counter", "{turn}", "Replies of the model in agents' conversations."),
    "ended": Figure("swarm_ended_total", "swarm.ended", "counter", "{agent}", "Ends of agents' runs.", ("state",)),
    "rescued": Figure("swarm_rescues_total", "swarm.rescues", "counter", "{agent}", "Agents put back whose worker died."),
    # -- as it is now
    "now": Figure("swarm_agents", "swarm.agents.current", "gauge", "{agent}",
                  "Agents that run, or are queued and only wait for a process.", ("state",)),
    "oldest": Figure("swarm_ready_oldest_seconds", "swarm.ready.oldest", "gauge", "s",
                     "How long the oldest message for an agent has waited."),
    "aside": Figure("swarm_agents_aside", "swarm.agents.aside", "gauge", "{agent}", "Agents that no current worker can take."),
    "questions": Figure("swarm_questions_open", "swarm.questions.open", "gauge", "{question}", "Questions that wait for a person."),
    "question_age": Figure("swarm_question_oldest_seconds", "swarm.question.oldest", "gauge", "s",
                           "How long the oldest question has waited."),
    "workers": Figure("swarm_workers", "swarm.workers", "gauge", "{worker}", "Workers that take agents."),
    "processes": Figure("swarm_processes", "swarm.processes", "gauge", "{process}", "Agents that the workers can run at once."),
    "lag": Figure("swarm_telemetry_lag_seconds", "swarm.telemetry.lag", "gauge", "s",
                  "How long ago journals were last read to their ends."),
    "redis_memory": Figure("swarm_redis_used_ratio", "swarm.redis.used", "gauge", "1",
                           "Redis' memory, as a share of maxmemory; 0 without one."),
    "redis_safe": Figure("swarm_redis_noeviction", "swarm.redis.noeviction", "gauge", "1",
                         "1 if Redis evicts nothing when it is full."),
}
"""Name in the code → figure."""
# fmt: on

SECONDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""The upper bounds of histograms."""
