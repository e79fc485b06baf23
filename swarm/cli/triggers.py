"""`swarm triggers`: schedules and webhooks that start jobs, and what became of their events."""

from __future__ import annotations

import getpass
import json
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from swarm.capabilities.triggers.model import TriggerEvent
from swarm.capabilities.triggers.store import Firing, TriggerView
from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import one_line, print_json, print_line, print_note, show_moment, show_number, show_since
from swarm.cli.tables import Column, Listing
from swarm.client.operations import Invocation
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError

group = typer.Typer(rich_markup_mode=None, add_completion=False)
NameArgument = Annotated[str, typer.Argument(metavar="TRIGGER", help="Name, as `swarm triggers` shows it.")]


@group.callback(invoke_without_command=True)
def triggers(context: typer.Context, as_json: JsonOption = False) -> None:
    """List triggers, which start jobs at times and by webhooks; apply, show, fire, pause and delete them."""
    if context.invoked_subcommand is not None:
        return
    from swarm.client.trigger_reads import list_triggers

    with open_swarm() as swarm:
        found = list_triggers(_call(swarm))
    _TRIGGERS.show(found, as_json=as_json)


@group.command("apply")
def apply(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|FOLDER", help="Triggers to put.", show_default=".swarm/triggers"),
    ] = None,
) -> None:
    """Put triggers from files, or change those of their names. Their jobs run from now on without being asked for."""
    from swarm.client.triggers import FOLDER, put_trigger, read_files

    read = read_files(places or [Path(FOLDER)])
    with open_swarm() as swarm:
        for trigger in read:
            state = put_trigger(swarm, trigger, getpass.getuser(), folder=Path.cwd())
            print_line(f"{trigger.name}: {state}")


@group.command("show")
def show(
    name: NameArgument,
    count: Annotated[int, typer.Option(min=1, max=1_000, help="Number of events, newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show a trigger and its newest events, each with its job or the reason why there is none."""
    from swarm.client.trigger_reads import get_trigger, list_trigger_events

    with open_swarm() as swarm:
        view, found = get_trigger(_call(swarm), name), list_trigger_events(_call(swarm), name, count)
    if as_json:
        print_json({**view.model_dump(mode="json"), "newest": [one.model_dump(mode="json") for one in found]})
        return
    print_line(f"{view.name}  {view.starts}{f'  {one_line(text, 100)}' if (text := view.trigger.description) else ''}")
    print_line(f"put by {view.by} at {show_moment(view.at)}{f', on {view.host}' if view.host else ''}; {_now(view)}")
    _FIRINGS.show(found)


@group.command("fire")
def fire(
    name: NameArgument,
    event: Annotated[
        Path | None, typer.Option("--event", metavar="FILE", help="The event's data as JSON; - reads stdin.")
    ] = None,
    kind: Annotated[str, typer.Option("--type", help="The event's type.")] = "by hand",
    event_id: Annotated[str, typer.Option("--id", help="The event's id; a repeat starts nothing.")] = "",
) -> None:
    """Start a trigger by hand, also while it is paused. Prints the id of the job that a worker starts."""
    from swarm.client.trigger_acts import fire as take

    given = TriggerEvent(id=event_id or f"hand-{secrets.token_hex(6)}", type=kind, data=_read_json(event))
    with open_swarm() as swarm:
        fired = take(_call(swarm), name, given)
    print_line(fired.job)
    if fired.state == "duplicate":
        print_note(f"{name}: it has had this event already")


@group.command("replay")
def replay(name: NameArgument, event: Annotated[str, typer.Argument(metavar="EVENT", help="Id of the event.")]) -> None:
    """Take in an event once more, by the trigger as it is now. Prints the id of the job."""
    from swarm.client.trigger_acts import replay_event

    with open_swarm() as swarm:
        print_line(replay_event(_call(swarm), name, event).job)


@group.command("pause")
def pause(name: NameArgument) -> None:
    """Take in no events; times that pass are not made up for."""
    from swarm.client.trigger_acts import pause_trigger

    with open_swarm() as swarm:
        pause_trigger(_call(swarm), name)
    print_note(f"{name}: paused; `swarm triggers resume {name}` goes on")


@group.command("resume")
def resume(name: NameArgument) -> None:
    """Take in events again."""
    from swarm.client.trigger_acts import resume_trigger

    with open_swarm() as swarm:
        view = resume_trigger(_call(swarm), name)
    print_note(f"{name}: {_now(view)}")


@group.command("delete")
def delete(name: NameArgument) -> None:
    """Delete a trigger with the list of its events; its jobs stay."""
    from swarm.client.trigger_acts import delete_trigger

    with open_swarm() as swarm:
        delete_trigger(_call(swarm), name)
    print_note(f"{name}: deleted")


@group.command("start-due", hidden=True)
def start_due() -> None:
    """Start the jobs that are due on this host; workers call it."""
    from swarm.client.triggers import start_due as start

    with Swarm() as swarm:
        print_note(f"started {show_number(start(swarm), 'job')}")


def _call(swarm: Swarm) -> Invocation:
    return Invocation(swarm, getpass.getuser())


def _read_json(file: Path | None) -> object:
    if file is None:
        return None
    try:
        return json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: it is no JSON: {error}") from None


def _now(view: TriggerView) -> str:
    if view.paused_at is not None:
        return "paused"
    waiting = f"{show_number(view.waiting, 'event')} waiting" if view.waiting else ""
    return waiting or (f"next {show_moment(view.next_at)}" if view.next_at else "ready")


_TRIGGERS = Listing[TriggerView](
    Column("trigger", lambda view: view.name),
    Column("starts", lambda view: view.starts),
    Column("now", _now),
    Column("events", lambda view: view.events, right=True),
    Column("last", lambda view: show_since(view.last_at) if view.last_at else "", drop=1),
    Column("description", lambda view: one_line(view.trigger.description, 60), flexible=True, drop=2),
    otherwise="there are no triggers; write one to .swarm/triggers/NAME.md and run `swarm triggers apply` (docs/triggers.md)",
)
_FIRINGS = Listing[Firing](
    Column("event", lambda one: one.id),
    Column("came", lambda one: show_since(one.at), drop=1),
    Column("state", lambda one: one.state),
    Column("job", lambda one: one.job),
    Column("reason", lambda one: one_line(one.why, 100), flexible=True),
    otherwise="it has had no events",
)
