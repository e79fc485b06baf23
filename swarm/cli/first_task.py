"""`swarm try`: one small true improvement of a person's own repository, on a copy, for a bounded price."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from swarm.cli.launch import Launch, run_job
from swarm.cli.order_options import Here
from swarm.cli.output import print_bytes, print_note, show_cost
from swarm.cli.run import deliver_text
from swarm.client.order import Order
from swarm.client.swarm import Swarm
from swarm.core.errors import GitFailed, NoWork
from swarm.core.records import AgentView, JobView, Limits
from swarm.core.settings import Settings, load_settings

TASK = "Find one small improvement of this repository that is certainly right, make it, and run the tests."
_BUDGET_USD = 0.5


def try_out(
    workspace: Annotated[Path, typer.Option("--workspace", "-w", metavar="FOLDER", help="The repository.")] = Path("."),
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="Model of the agent.")] = None,
    rehearse: Annotated[
        str | None, typer.Option(metavar="SCENARIO", help="Play a scenario instead of a model: a name or a file.")
    ] = None,
) -> None:
    """Let an agent propose one small improvement of your repository, for at most $0.50.

    It works on a copy, runs the tests there, and you see its tree, its changes and its cost. Your folder stays as it is:
    `swarm apply` takes the proposal over.
    """
    settings = load_settings()
    limits = Limits(budget_usd=_BUDGET_USD)
    order = Order(prompt=TASK, agent="improver", workspace=workspace, model=model, isolation="worktree", limits=limits)
    launch = Launch(order, Here(rehearse=rehearse), applies=False)
    raise typer.Exit(run_job(launch, settings, partial(_deliver, settings)))


def _deliver(settings: Settings, view: JobView, agents: Sequence[AgentView]) -> None:
    deliver_text(view, agents)
    print_note(f"cost: {show_cost(view.cost_usd, view.unpriced_tokens)} of at most ${_BUDGET_USD:.2f}")
    try:
        work = Swarm(settings).work(view.root_id)
        if work.changes:
            print_bytes(work.diff(stat=False))
            print_note(f"nothing is changed in {work.folder}: `swarm apply {view.id}` takes this over")
        else:
            print_note("it proposes no change")
    except (GitFailed, NoWork) as error:
        print_note(f"the changes cannot be shown: {error}")
