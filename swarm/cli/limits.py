"""`swarm limits`: the fleet's rate limits at the model, their remaining parts, and waiting jobs."""

from __future__ import annotations

from dataclasses import asdict

from swarm.capabilities.governor.view import Bucket, LimitClass, read_classes
from swarm.cli.options import JsonOption
from swarm.cli.output import print_json, print_line, show_number
from swarm.client.swarm import Swarm

_KNOWLEDGE = {
    "told": "limits stated by the server",
    "blind": "the server states no limits; these are learned from refusals",
    "new": "nothing is known yet; a few requests are sent first",
}


def show_limits(as_json: JsonOption = False) -> None:
    """Show the fleet's limits at the model, what remains of them, and which jobs wait."""
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


def describe(one: LimitClass) -> list[str]:
    """Lines that describe a limit class."""
    lines = [f"{one.name}   {_KNOWLEDGE[one.knowledge]}"]
    lines += [f"  {kind:<9} {_show(bucket)}" for kind, bucket in one.buckets.items()]
    asked = [f"{show_number(one.sent, 'request')} in all"]
    asked += [f"{one.limited} refused by a limit"] if one.limited else []
    asked += [f"{one.overloaded} refused by an overload"] if one.overloaded else []
    lines.append(f"  asking    {one.asking} now; {', '.join(asked)}")
    if one.window is not None:
        lines.append(f"  window    {one.window} at once, after a storm of overloads")
    if one.held_seconds:
        lines.append(f"  held      for {one.held_seconds:g} s, as the server asked")
    for job, count in one.waiting.items():
        lines.append(f"  waiting   {show_number(count, 'agent')} of {job}")
    return lines


def _show(bucket: Bucket) -> str:
    if bucket.used is None:
        return "no limit known"
    stated = "" if bucket.stated is None else f", {bucket.stated:,} stated"
    return f"{bucket.left:,} left of {bucket.used:,} a minute{stated}"
