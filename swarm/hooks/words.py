"""What hooks did, in a line for people. Pure."""

from __future__ import annotations

from swarm.agent.entries import Hooked, HookRun

_WORDS = {"failed": "failed", "timed_out": "took too long", "interrupted": "was interrupted", "not_run": "was not run"}


def describe_hooked(hooked: Hooked) -> str:
    """What an event's hooks decided or changed, and what went wrong: `denied: no force pushes`."""
    told = []
    if hooked.decision:
        verb = {"deny": "denied", "block": "sent back", "ask": "wants a person asked", "allow": "allowed"}
        told.append(f"{verb[hooked.decision]}{f': {hooked.reason}' if hooked.reason else ''}")
    if hooked.input is not None:
        told.append("changed what the call is given")
    if hooked.output is not None:
        told.append("changed what the call returned")
    if hooked.text and hooked.decision != "block":
        told.append("told the agent something")
    if hooked.stop:
        told.append(hooked.stop)
    if hooked.said:
        told.append(hooked.said)
    told += [describe_run(run) for run in hooked.runs if run.outcome in _WORDS]
    return "; ".join(told) or "nothing to say"


def describe_run(run: HookRun) -> str:
    """What became of one that could not be heard."""
    return f"{run.label} ({run.source}) {_WORDS.get(run.outcome, run.outcome)}{f': {run.why}' if run.why else ''}"
