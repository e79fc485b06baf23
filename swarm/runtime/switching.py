"""Has an agent ask another model: checks the models that may take over, and journals the switch.

The conversation and the request prefix stay: parts that the new model cannot read are left out of its requests only. A conversation that
is too long for the new model is cut before its first request, like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarm.agent.chains import successors
from swarm.agent.compaction import Compact, ContextBounds, bounds_of, find_cut
from swarm.agent.decision import Action, SwitchModel, WantedModel
from swarm.agent.entries import Switched
from swarm.agent.history import History
from swarm.agent.needs import Needs, asks_anywhere, find_unmet, read_needs, read_workers, with_model
from swarm.core.log import EventLog
from swarm.core.usage import Usage
from swarm.models.catalogue import cost_usd
from swarm.runtime.budget import Sizes
from swarm.runtime.facts import KnownFacts
from swarm.runtime.segment import Segment

if TYPE_CHECKING:
    from swarm.runtime.parts import Parts

log = EventLog("swarm.model")
LONG_HOLD_SECONDS = 60.0
"""A model whose limits are used up for longer takes over no agent."""
_LEAST_SHARE = 2
"""The window of a model that takes over must hold the request prefix at least so many times."""


def switch(parts: Parts, wanted: SwitchModel) -> Action | None:
    """Journal the switch to the first model that can take over; else return the action to take instead."""
    if wanted.wanted is not None:
        return _switch_to(parts, wanted, wanted.wanted)
    segment, history = parts.segment, parts.segment.history
    successor = [history.chosen or segment.spec.model]
    passed_over = dict[str, str]()
    for model in successor if wanted.reason == "new run" else successors(history, segment.spec):
        why = explain_unfit(segment, parts.model_call.facts, model)
        if not why and (held := _held_seconds(segment, segment.model.limit_class(model))) > LONG_HOLD_SECONDS:
            why = f"its limits are used up for {held:,.0f} seconds"
        if not why:
            entry = Switched(model=model, was=segment.model_id, reason=wanted.reason, why=wanted.why)
            write_switch(segment, entry.model_copy(update={"passed_over": passed_over}))
            return None
        passed_over[model] = why
    log.warning("model.stays", agent_id=segment.claim.agent_id, why=wanted.why, passed_over=passed_over)
    return wanted.otherwise


def _switch_to(parts: Parts, action: SwitchModel, wanted: WantedModel) -> Action | None:
    """Switch to the model that a person chose, or journal why not. The old model first summarizes what the new one cannot hold."""
    segment, facts = parts.segment, parts.model_call.facts
    entry = Switched(model=wanted.model, was=segment.model_id, reason="chosen", why=wanted.by, asked=wanted.id)
    if why := explain_unfit(segment, facts, wanted.model):
        stays = {"model": entry.was, "passed_over": {wanted.model: why}}
        segment.journal.append([entry.model_copy(update=stays)])
        _need_model(segment)
    elif (first := _summary_before(segment.history, parts.model_call.bounds(), facts.sizes(wanted.model))) is not None:
        return first
    elif entry.model == entry.was:
        segment.journal.append([entry])
        _need_model(segment)
    else:
        write_switch(segment, entry)
    return None


def _summary_before(history: History, now: ContextBounds | None, then: Sizes) -> Compact | None:
    """Return the summary that the old model makes of a conversation that is too long for the new one; tried once."""
    if now is None or history.context.failures or history.context.fresh or history.messages[-1]["role"] != "user":
        return None
    if history.tokens_to_send() <= bounds_of(*then, most=0, dearer_above=None).hard:
        return None
    kept = find_cut(history, now)
    return Compact("auto", kept) if kept else None


def write_switch(segment: Segment, entry: Switched) -> None:
    """Journal a switch, note it in the agent's record, and ask for slots of the new model from now on."""
    needs = with_model(_needs_of(segment), "" if asks_anywhere(segment.spec) else entry.model, entry.was)
    segment.journal.switch(entry, needs)
    segment.follow_switch()
    log.warning("model.switched", agent_id=segment.claim.agent_id, model=entry.model, reason=entry.reason)


def _need_model(segment: Segment) -> None:
    """Have the agent need its model, which it keeps: a choice may have freed it from a model that no worker could ask."""
    needs = _needs_of(segment)
    kept = with_model(needs, "" if asks_anywhere(segment.spec) else segment.model_id)
    if kept != needs:
        segment.store.agents.need(segment.claim, kept)


def explain_unfit(segment: Segment, facts: KnownFacts, model: str) -> str:
    """Explain why an agent cannot go on with this model, by its price and window; empty if it can."""
    prices_file = segment.settings.prices_file
    if segment.spec.limits.budget_usd is not None and cost_usd(model, Usage(), prices_file=prices_file) is None:
        return "its price is not known, so the job's budget could not be kept"
    window, prefix = facts.sizes(model).window, segment.history.prefix_tokens()
    if window < _LEAST_SHARE * prefix:
        return f"its window of {window:,} tokens is too small for the {prefix:,} of every request"
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
