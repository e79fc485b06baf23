"""`swarm compact`: having an agent's conversation summarized now instead of when it has become too long."""

from __future__ import annotations

from typing import Annotated

import typer

from swarm.cli.completing import complete_agent
from swarm.cli.opening import find_agent, open_swarm
from swarm.cli.output import print_line


def compact(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT|JOB",
            autocompletion=complete_agent,
            help="An id or the beginning of it; for a job, its first agent.",
        ),
    ],
    focus: Annotated[str, typer.Option("--focus", metavar="TEXT", help="What the summary must hold above all.")] = "",
) -> None:
    """Have an agent's conversation summarized before its next turn; nobody is woken for it.

    The journal keeps everything: `swarm transcript` shows what came before. An agent that has had fewer than two replies since the
    last summary has nothing to summarize yet, and does it as soon as it has. Exit code: 0 noted, 1 not possible, 2 wrong usage.
    """
    with open_swarm() as swarm:
        agent_id = find_agent(swarm, target)
        state = swarm.compact(agent_id, focus)
        when = "when it goes on" if swarm.agent(agent_id).ended or state == "parked" else "before its next turn"
        print_line(f"{agent_id} ({state.replace('_', ' ')}) will have its conversation summarized {when}")
