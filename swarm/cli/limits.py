"""`swarm limits`: the fleet's rate limits at the model, their remaining parts, and waiting jobs; and an operator's own limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from swarm.capabilities.governor.view import Bucket, LimitClass, read_classes
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, print_note, show_duration, show_number
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.store.values import Signals

group = typer.Typer(rich_markup_mode=None, add_completion=False)
_KNOWLEDGE = {
    "told": "limits stated by the server",
    "blind": "the server states no limits; they are learned from refusals",
    "new": "nothing is known yet; a few requests are sent first",
}
_WINDOWS = {
    "start": "one more with each reply",
    "refusal": "halved after a refusal; it grows again with each reply",
    "storm": "after a storm of overloads",
}
_HOLDS = {
    "server": "as the server asked",
    "refusal": "after a refusal",
    "storm": "in a storm of overloads",
    "operator": "by an operator",
}
ClassArgument = Annotated[
    str, typer.Argument(metavar="CLASS", help="A class, as `swarm limits` names it, or a part of its name.")
]


@group.callback(invoke_without_command=True)
def show_limits(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the fleet's limits at the model, what remains of them, and which jobs wait; set, hold or release them."""
    if context.invoked_subcommand is not None:
        return
    swarm = Swarm()
    with swarm.store.explained():
        classes = read_classes(swarm.store)
    if as_json:
        print_json([asdict(one) for one in classes])
        return
    if not classes:
        print_line("no agent has asked a model yet")
    for one in classes:
        for line in describe(one):
            print_line(line)


@group.command("set")
def set_limits(
    name: ClassArgument,
    requests: Annotated[int | None, typer.Option("--requests", help="Most requests a minute.", min=1)] = None,
    input_tokens: Annotated[
        int | None,
        typer.Option("--input", help="Most input tokens a minute, without those read from the cache.", min=1),
    ] = None,
    output_tokens: Annotated[int | None, typer.Option("--output", help="Most output tokens a minute.", min=1)] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the other ceilings.")] = False,
) -> None:
    """Set ceilings for a class. They replace what refusals have taught; stated limits are kept as well."""
    ceilings = [requests, input_tokens, output_tokens]
    if not clear and ceilings == [None, None, None]:
        raise typer.BadParameter("give --requests, --input or --output, or --clear to remove all")
    swarm = Swarm()
    with swarm.store.explained():
        found = _find(swarm, name)
        _apply(
            swarm, found, swarm.store.rates.set_ceiling(found, [one or 0 for one in ceilings] if clear else ceilings)
        )


@group.command("hold")
def hold_class(
    name: ClassArgument,
    seconds: Annotated[
        float, typer.Argument(metavar="[SECONDS]", help="Default: an hour.", show_default=False, min=1)
    ] = 3600.0,
) -> None:
    """Let no agent ask a class for a while; replies under way still arrive."""
    swarm = Swarm()
    with swarm.store.explained():
        found = _find(swarm, name)
        _apply(swarm, found, swarm.store.rates.hold(found, seconds))
    print_note(f"held for {show_duration(seconds)}; `swarm limits release {name}` ends that")


@group.command("release")
def release_class(name: ClassArgument) -> None:
    """End a hold, also the server's, and forget limits that were learned from refusals. Ceilings stay."""
    swarm = Swarm()
    with swarm.store.explained():
        found = _find(swarm, name)
        _apply(swarm, found, swarm.store.rates.release(found))


def _find(swarm: Swarm, name: str) -> str:
    known = [one.name for one in read_classes(swarm.store)]
    found = [name] if name in known else [one for one in known if name in one]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigurationError(f"{name!r} is part of several classes: {', '.join(found)}")
    raise ConfigurationError(f"there is no class {name!r}; known: {', '.join(known) or 'none'}")


def _apply(swarm: Swarm, name: str, effect: Signals | None) -> None:
    if effect is None:
        raise ConfigurationError(f"the class {name} is gone; `swarm limits` lists all")
    swarm.publish(effect)
    for line in describe(next(one for one in read_classes(swarm.store) if one.name == name)):
        print_line(line)


def describe(one: LimitClass) -> list[str]:
    """Lines that describe a limit class."""
    lines = [f"{one.name}   {_KNOWLEDGE[one.knowledge]}"]
    lines += [f"  {kind:<9} {_show(bucket)}" for kind, bucket in one.buckets.items()]
    asked = [f"{show_number(one.sent, 'request')} in all"]
    asked += [f"{one.limited} refused by a limit"] if one.limited else []
    asked += [f"{one.overloaded} refused by an overload"] if one.overloaded else []
    lines.append(f"  asking    {one.asking} now; {', '.join(asked)}")
    if one.window_cause is not None:
        lines.append(f"  window    {one.window} at once; {_WINDOWS[one.window_cause]}")
    if one.held_by is not None:
        tries = "" if one.try_seconds is None else f"; one request tries in {one.try_seconds:g} s"
        lines.append(f"  held      for {one.held_seconds:g} s, {_HOLDS[one.held_by]}{tries}")
    for job, count in one.waiting.items():
        lines.append(f"  waiting   {show_number(count, 'agent')} of {job}")
    return lines


def _show(bucket: Bucket) -> str:
    if bucket.used is None:
        return "no limit known"
    stated = "" if bucket.stated is None else f", {bucket.stated:,} stated"
    ceiling = "" if bucket.ceiling is None else f", {bucket.ceiling:,} set by an operator"
    return f"{bucket.left:,} left of {bucket.used:,} a minute{stated}{ceiling}"
