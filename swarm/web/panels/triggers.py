"""The panel of triggers: what starts jobs by itself, and what became of its events."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from swarm.capabilities.triggers.store import Triggers, TriggerView
from swarm.client.failures import BadRequest
from swarm.client.operations import Invocation
from swarm.client.trigger_acts import delete_trigger, fire_trigger, pause_trigger, replay_event, resume_trigger
from swarm.web.panels.panel import Panel, PanelRequest

MOST_EVENTS = 50


def read_triggers(asked: PanelRequest) -> dict[str, Any]:
    """Read all triggers, and the newest events of the chosen one. Raises `UnknownTrigger`."""
    triggers, chosen = Triggers(asked.swarm.store.keyspace), asked.query.get("trigger", "")
    all_of_them = triggers.all()
    known = any(one.name == chosen for one in all_of_them)
    events = triggers.firings(chosen, MOST_EVENTS) if known else []
    return {
        "triggers": [_show(one, whole=one.name == chosen) for one in all_of_them],
        "events": [one.model_dump(mode="json", exclude={"event"}) for one in events],
    }


def _show(view: TriggerView, *, whole: bool) -> dict[str, Any]:
    trigger = view.trigger
    bounds = [
        f"mode {mode}" if (mode := trigger.order.get("mode")) else "",
        "with the network" if trigger.order.get("network") else "",
        f"${trigger.purse.usd:.2f} a {trigger.purse.per}" if trigger.purse else "",
    ]
    shown = view.model_dump(mode="json", exclude={"trigger"})
    about = {"starts": view.starts, "description": trigger.description, "bounds": ", ".join(filter(None, bounds))}
    own = trigger.model_dump(mode="json", exclude_defaults=True, exclude={"prompt", "name", "description"})
    return {**shown, **about, "text": f"{json.dumps(own, indent=1)}\n\n{trigger.prompt}" if whole else ""}


def _act(run: Any, *names: str) -> Any:
    """An act of clients as one of the panel; `names` are the fields of its body."""

    def act(asked: PanelRequest) -> Any:
        if sorted(asked.body) != sorted(names) or not all(isinstance(one, str) for one in asked.body.values()):
            raise BadRequest(f"give {' and '.join(names)}, each a text")
        done = run(Invocation(asked.swarm, asked.user), *(asked.body[name] for name in names))
        return done.model_dump(mode="json") if isinstance(done, BaseModel) else done

    return act


PANELS = (
    Panel(
        "triggers",
        "Triggers",
        read_triggers,
        scope="fleet",
        acts={
            "fire": _act(fire_trigger, "trigger"),
            "replay": _act(replay_event, "trigger", "event"),
            "pause": _act(pause_trigger, "trigger"),
            "resume": _act(resume_trigger, "trigger"),
            "delete": _act(delete_trigger, "trigger"),
        },
    ),
)
