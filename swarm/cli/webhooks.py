"""`swarm webhooks`: addresses notified of jobs, their undelivered notices, and test notices."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from swarm.capabilities.webhooks.notices import OWN, AddressView, Webhooks
from swarm.cli.lookup import open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import one_line, print_line, print_note, show_duration, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError

_SHOWN_CHARACTERS = 120
_TEST_SECONDS = 30.0
_LOOK_SECONDS = 0.1
group = typer.Typer(rich_markup_mode=None, add_completion=False)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name, as `swarm webhooks` shows it.")]


@group.callback(invoke_without_command=True)
def webhooks(context: typer.Context, as_json: JsonOption = False) -> None:
    """List addresses notified of jobs, with waiting and abandoned notices; test one, or resend its notices."""
    if context.invoked_subcommand is not None:
        return
    with open_swarm() as swarm:
        found, now = Webhooks(swarm.store.keyspace).addresses(), swarm.store.now()
    Listing[AddressView](
        Column("address", lambda one: one.name),
        Column("waiting", lambda one: one.waiting, right=True),
        Column("given up", lambda one: one.lost, right=True),
        Column("a worker", lambda one: f"{show_duration(now - one.said_at)} ago", right=True, drop=1),
        Column("last failure", _describe_failure, flexible=True),
        otherwise="no worker delivers notices; set SWARM_WEBHOOKS or SWARM_JOB_WEBHOOKS for workers",
    ).show(found, as_json=as_json)


def _describe_failure(one: AddressView) -> str:
    why = one_line(one.first.why, _SHOWN_CHARACTERS) if one.first else ""
    return f"{show_number(one.first.tries, 'try')}: {why}" if one.first and why else ""


@group.command("test")
def test_webhook(name: NameArgument) -> None:
    """Have a worker send a notice `swarm.test.v1` to an address, and report its arrival. Exit code 1 if it failed."""
    with open_swarm() as swarm:
        if _find(swarm, name).name == OWN:
            raise ConfigurationError("these addresses come from jobs; run a job with --webhook to test one")
        webhooks = Webhooks(swarm.store.keyspace)
        notice_id, until = webhooks.test(name, swarm.store.now()), time.monotonic() + _TEST_SECONDS
        while (found := webhooks.find(name, notice_id)).state == "waits" and not found.why and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
    if found.state == "delivered":
        print_line(f"{name}: delivered")
        return
    print_line(f"{name}: not delivered: {found.why or 'no worker has sent it yet'}")
    raise typer.Exit(1)


@group.command("resend")
def resend(name: NameArgument) -> None:
    """Resend all abandoned notices of an address, under the same ids."""
    with open_swarm() as swarm:
        count = Webhooks(swarm.store.keyspace).resend(_find(swarm, name).name)
    print_note(f"{name}: {show_number(count, 'notice')} to be sent again")


def _find(swarm: Swarm, name: str) -> AddressView:
    known = {one.name: one for one in Webhooks(swarm.store.keyspace).addresses()}
    if name not in known:
        there = ", ".join(known) or "nothing"
        raise ConfigurationError(
            f"no worker delivers to {name!r}; known names: {there}. SWARM_WEBHOOKS of workers sets them"
        )
    return known[name]
