"""Has an agent ask another model: checks the models that may take over, and journals the switch.

The conversation and the request prefix stay: parts that the new model cannot read are left out of its requests only. A conversation that
is too long for the new model is cut before its first request, like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.agent.chains import successors
from swarm.agent.decision import SwitchModel
from swarm.agent.entries import Switched
from swarm.agent.needs import Needs, find_unmet, read_needs, read_workers, with_model
from swarm.core.log import EventLog
from swarm.core.usage import Usage
from swarm.models.catalogue import cost_usd
from swarm.runtime.facts import KnownFacts
from swarm.runtime.segment import Segment

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.model")
LONG_HOLD_SECONDS = 60.0
"""A model whose limits are used up for longer takes over no agent."""
_LEAST_SHARE = 2
"""The window of a model that takes over must hold the request prefix at least so many times."""


def switch(parts: Parts, wanted: SwitchModel) -> bool:
    """Journal the switch to the first model that can take over; False if there is none."""
    segment = parts.segment
    first = [segment.spec.model] if wanted.reason == "new run" else successors(segment.history, segment.spec)
    passed_over = dict[str, str]()
    for model in first:
        if why := explain_unfit(segment, parts.model_call.facts, model):
            passed_over[model] = why
            continue
        entry = Switched(
            model=model,
            was=segment.history.model_of(segment.spec),
            reason=wanted.reason,
            why=wanted.why,
            passed_over=passed_over,
        )
        write_switch(segment, entry)
        return True
    log.warning("model.stays", agent_id=segment.claim.agent_id, why=wanted.why, passed_over=passed_over)
    return False


def write_switch(segment: Segment, entry: Switched) -> None:
    """Journal a switch, note it in the agent's record, and ask for slots of the new model from now on."""
    is_chain = bool(segment.spec.fallbacks)
    needs = with_model(_needs_of(segment), "" if is_chain else entry.model, entry.was)
    segment.journal.switch(entry, needs)
    segment.follow_switch()
    log.warning("model.switched", agent_id=segment.claim.agent_id, model=entry.model, reason=entry.reason)


def explain_unfit(segment: Segment, facts: KnownFacts, model: str) -> str:
    """Explain why an agent cannot go on with this model, by its price, window and limits; empty if it can."""
    prices_file = segment.settings.prices_file
    if segment.spec.limits.budget_usd is not None and cost_usd(model, Usage(), prices_file=prices_file) is None:
        return "its price is not known, so the job's budget could not be kept"
    window, prefix = facts.sizes(model).window, segment.history.prefix_tokens()
    if window < _LEAST_SHARE * prefix:
        return f"its window of {window:,} tokens is too small for the {prefix:,} of every request"
    if (held := _held_seconds(segment, segment.model.limit_class(model))) > LONG_HOLD_SECONDS:
        return f"its limits are used up for {held:,.0f} seconds"
    return ""


def leave_to_others(segment: Segment, *, anyway: bool) -> bool:
    """Have another worker that may use the model continue the agent; False if no worker may. With `anyway` it waits for one."""
    store, agent_id = segment.store, segment.claim.agent_id
    own = store.agents.get(agent_id).worker
    pinned = with_model(_needs_of(segment), segment.model_id)
    others = [document for name, document in store.fleet.workers().items() if name != own]
    if not anyway and all(find_unmet(pinned, has) for has in read_workers(others)):
        return False
    store.agents.need(segment.claim, pinned)
    return True


def _needs_of(segment: Segment) -> Needs:
    [hint] = segment.store.agents.hints([segment.claim.agent_id])
    return (read_needs(hint.needs) if hint is not None else None) or Needs(job=segment.spec.job_id)


def _held_seconds(segment: Segment, limit_class: str) -> float:
    """Return the seconds for which the governor allows no request of this class."""
    found = (account for name, account, _, _ in segment.store.rates.limit_classes() if name == limit_class)
    account = next(found, None)
    return 0.0 if account is None else float(account["hold"]) - segment.claim.now()
