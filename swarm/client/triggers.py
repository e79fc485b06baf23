"""Triggers as their people use them: checked when they are put, and started as orders within their owner's ceiling."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.capabilities.triggers.model import (
    Trigger,
    TriggerEvent,
    firing_key,
    issue_of,
    read_trigger,
    ref_of,
    title_of,
    write_prompt,
)
from swarm.capabilities.triggers.store import DueFiring, Owner, TakenEvent, Triggers
from swarm.client.order import Order, read_order
from swarm.client.preparation import find_workspace, prepare_order
from swarm.core.errors import ConfigurationError, SwarmError, TransientError
from swarm.core.log import EventLog
from swarm.definitions.model import PermissionMode
from swarm.permissions.ceiling import Ceiling
from swarm.store.durable import Disk
from swarm.workspace.sites import check_ref, read_name

if TYPE_CHECKING:
    from swarm.client.swarm import Swarm

log = EventLog("swarm.triggers")
FOLDER = ".swarm/triggers"
DEFAULT_MODE: PermissionMode = "acceptEdits"
LEASE_SECONDS = 120.0
MOST_TRIES = 10
_AT_ONCE = 50
_NOT_OF_TRIGGERS = {"prompt", "title", "issue", "idempotency_key", "on_end", "broker", "commands", "workflow"}
"""Options of an order that a trigger does not take: its own fields say them, or an event must not."""


def read_files(places: list[Path]) -> list[Trigger]:
    """Read triggers from files, or all of a folder's. Raises `ConfigurationError`."""
    found = []
    for place in places:
        files = sorted(place.glob("*.md")) if place.is_dir() else [place]
        if not files:
            raise ConfigurationError(f"{place} has no triggers; write one as NAME.md there (docs/triggers.md)")
        for file in files:
            try:
                found.append(read_trigger(file.read_text(encoding="utf-8"), str(file)))
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{file}: it cannot be read: {error}") from None
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigurationError(f"two files are the trigger {min(twice)!r}; give each a name of its own")
    return found


def put_trigger(swarm: Swarm, trigger: Trigger, by: str, *, folder: Path | None = None) -> str:
    """Check a trigger as an order of its owner, and put it. `folder` is the workspace unless it names another or a repository.

    Returns `new`, `changed` or `same`. Raises `ConfigurationError`, `BeyondCeiling` and the errors of an order.
    """
    trigger, host = _place(trigger, folder)
    hold_trigger(swarm, trigger)
    with swarm.store.explained():
        return Triggers(swarm.store.keyspace).put(trigger, Owner(name=by, ceiling=swarm.ceiling), host)


def hold_trigger(swarm: Swarm, trigger: Trigger) -> None:
    """Check a trigger's jobs as orders of this client. Raises `BeyondCeiling` and the errors of an order."""
    order = _order_of(trigger, swarm.ceiling, prompt=trigger.prompt or "{}")
    definition = prepare_order(order, swarm.settings, ceiling=swarm.ceiling).spec.definition
    if trigger.arguments and definition.workflow is None:
        raise ConfigurationError(
            f"the trigger {trigger.name}: `arguments` are for a workflow, and the type {definition.name} is none; "
            "name one with `agent`, or write a prompt"
        )


def _place(trigger: Trigger, folder: Path | None) -> tuple[Trigger, str]:
    """The trigger with its workspace's full path, and the host that has it."""
    if (repo := trigger.order.get("repo")) is not None:
        if trigger.ref and read_name(str(repo))[1]:
            raise ConfigurationError(f"the trigger {trigger.name}: give `ref`, or `repo` with @REF, not both")
        return trigger, ""
    if trigger.ref:
        raise ConfigurationError(f"the trigger {trigger.name}: `ref` needs `repo`")
    given = trigger.order.get("workspace", folder)
    if given is None:
        raise ConfigurationError(f"the trigger {trigger.name} needs `repo` or `workspace`")
    place = Path(given) if folder is None else folder / given
    order = {**trigger.order, "workspace": str(find_workspace(place))}
    return trigger.model_copy(update={"order": order}), socket.gethostname()


def _order_of(trigger: Trigger, ceiling: Ceiling, **of_event: Any) -> Order:
    unknown = sorted(_NOT_OF_TRIGGERS & trigger.order.keys())
    if unknown:
        raise ConfigurationError(f"the trigger {trigger.name}: {unknown[0]} is no option of a trigger's jobs")
    ref = of_event.pop("ref", "")
    given: dict[str, Any] = {"mode": ceiling.bound_mode(DEFAULT_MODE), "ask_seconds": 0.0, **trigger.order}
    if "repo" not in given:
        # Its work is taken over by a person, so an event changes no folder.
        given = {"isolation": "worktree", **given}
    elif ref:
        # A name with `@` would name another repository.
        given = {**given, "repo": f"{given['repo']}@{check_ref(ref)}"}
    try:
        return read_order(Order, **of_event, **given)
    except ConfigurationError as error:
        raise ConfigurationError(f"the trigger {trigger.name}: {error}") from None


def take_event(swarm: Swarm, trigger: Trigger, event: TriggerEvent, *, by_hand: bool = False) -> TakenEvent:
    """Take in an event; on return it is as durable as jobs are."""
    with swarm.store.explained():
        taken = Triggers(swarm.store.keyspace).take_event(trigger, event, by_hand=by_hand)
        if swarm.settings.durability == "all":
            Disk(swarm.store.keyspace, "all").wait()
    return taken


def start_due(swarm: Swarm) -> int:
    """Start the jobs of all firings that are due on this host; returns their number."""
    triggers, started = Triggers(swarm.store.keyspace), 0
    while due := triggers.take_due(socket.gethostname(), _AT_ONCE, LEASE_SECONDS):
        for one in due:
            started += _start(swarm, triggers, one)
    return started


def _start(swarm: Swarm, triggers: Triggers, due: DueFiring) -> bool:
    within = swarm.within(due.owner.ceiling)
    try:
        job = _act(within, due)
    except SwarmError as error:
        log.warning("triggers.failed", trigger=due.name, event_id=due.id, why=str(error))
        if not isinstance(error, TransientError) or due.tries >= MOST_TRIES:
            triggers.fail(due, str(error))
        return False  # What can pass is offered again after its lease.
    triggers.settle(due, job)
    log.info("triggers.started", trigger=due.name, event_id=due.id, job_id=job)
    return True


def _act(swarm: Swarm, due: DueFiring) -> str:
    trigger, event = due.trigger, due.event
    key = firing_key(due.name, due.id)
    if due.fate == "continue":
        swarm.job(due.job).deliver("root", write_prompt(trigger, event), token=key)
        return due.job
    if due.fate == "replace":
        swarm.job(due.other).cancel(f"replaced by a newer event of the trigger {due.name}", by=f"trigger {due.name}")
    told: dict[str, Any] = {
        "prompt": write_prompt(trigger, event),
        "title": title_of(trigger, event),
        "idempotency_key": key,
    }
    if trigger.issue:
        told["issue"] = issue_of(trigger, event)
    told["ref"] = ref_of(trigger, event)
    order = _order_of(trigger, swarm.ceiling, **told)
    return swarm.place(prepare_order(order, swarm.settings, ceiling=swarm.ceiling)).id


def secret_of(trigger: Trigger, environment: Mapping[str, str]) -> str:
    """The secret of a trigger's webhook, from this process' environment. Raises `ConfigurationError`."""
    if not (secret := environment.get(trigger.secret, "")):
        raise ConfigurationError(
            f"the trigger {trigger.name} needs the variable {trigger.secret} where `swarm serve` runs; set it to the webhook's secret"
        )
    return secret
