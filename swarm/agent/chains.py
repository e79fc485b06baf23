"""Chains of models: when an agent asks another one, and which. Pure.

A model is left when it answers nothing for several requests in a row, does not exist, or may not be used. It is kept when its server says
when to ask again, when the account cannot pay, and when the request itself is at fault: another model would not help, or would cost the
prompt cache for a short wait.

The program of a harness asks the model that it was started with, so its chain is not used.
"""

from __future__ import annotations

from swarm.agent.entries import ModelFailed, SwitchReason
from swarm.agent.spec import AgentSpec
from swarm.agent.state import HistoryState

TRIES = 3
"""Requests in a row without an answer after which a model counts as overloaded."""
_SILENT = frozenset({"overloaded", "server", "timeout", "connection", "cut", "rate_limit"})
"""Error kinds of a server that answers nothing of use."""
_FORBIDDEN = frozenset({"authentication", "permission", "configuration"})


def why_leave(history: HistoryState, failure: ModelFailed) -> SwitchReason | None:
    """Return the reason to ask another model after this failure; None to stay."""
    spec = history.spec
    if spec is None or spec.batch or not spec.definition.asks_model or not successors(history, spec):
        return None
    if failure.error_kind in _SILENT and (failure.permanent or history.unanswered >= TRIES):
        # Without a chain, only the model before a person's choice is left: silence does not undo the choice.
        return "overloaded" if spec.fallbacks else None
    if failure.permanent and failure.error_kind == "not_found":
        return "gone"
    return "forbidden" if failure.permanent and failure.error_kind in _FORBIDDEN else None


def successors(history: HistoryState, spec: AgentSpec) -> list[str]:
    """Return the models that may take over, the next one first; after the last of the chain comes the first again."""
    chain = list(dict.fromkeys((spec.model, *spec.fallbacks)))
    now = history.model_of(spec)
    place = chain.index(now) + 1 if now in chain else 0
    return [model for model in (*chain[place:], *chain[:place]) if model != now and model not in history.unusable]
