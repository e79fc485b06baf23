"""`swarm workflows`: list, check and show workflows. `swarm run -a NAME TASK` starts one."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption, WorkspaceOption
from swarm.cli.output import one_line, print_json, print_line, print_note, show_cost, show_number
from swarm.cli.rehearse import begin_rehearsing
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import is_trusted
from swarm.client.swarm import Job, Swarm
from swarm.client.workflow_calls import Phase, WorkflowCall, read_calls
from swarm.client.workflows import prepare_continuing
from swarm.core.errors import ConfigurationError
from swarm.core.settings import load_settings
from swarm.definitions.catalogue import check_path, load_catalogue
from swarm.definitions.model import AgentDefinition
from swarm.definitions.workflow_files import WRITTEN
from swarm.tools.outside import find_outside_tools
from swarm.workflows.reuse import Reuse, plan_run

_SHOWN = 20
"""Calls of a plan that are listed."""
group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@group.callback()
def workflows() -> None:
    """List, check and show workflows; `swarm run -a NAME TASK` starts one."""


@group.command("list")
def list_workflows(workspace: WorkspaceOption = Path(), as_json: JsonOption = False) -> None:
    """List the workflows of a workspace, with their language and source."""
    settings = load_settings()
    faults = find_outside_tools(settings.tools)
    folder = find_workspace(workspace)
    catalogue = load_catalogue(folder, trusted=is_trusted(folder, settings))
    found = [one for _, one in sorted(catalogue.definitions.items()) if one.workflow is not None]
    _WORKFLOWS.show(found, as_json=as_json)
    for problem in [*faults, *(each for each in catalogue.problems if "/workflows/" in each.path)]:
        print_note(f"problem: {problem}")


@group.command("check")
def check_workflow(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A workflow's file: .py, .js or .mjs.")],
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="Its task, to see the calls that it begins with.")] = "",
) -> None:
    """Check a workflow's file, and run it to its first wait. Nothing is started."""
    definition = _read_file(file)
    plan = plan_run(definition, task, Reuse(job_id="", results=[]))
    if plan.ended is not None and plan.ended.error:
        print_note(f"problem: {plan.ended.error}")
        raise typer.Exit(1)
    print_line(f"{definition.name}: {show_number(len(plan.calls), 'call')} before its first result")
    for call in plan.calls[:_SHOWN]:
        print_line(f"  {call.tool}: {one_line(call.prompt, 90)}")


def _read_file(file: Path) -> AgentDefinition:
    result = check_path(file)
    for problem in result.problems:
        print_note(f"problem: {problem}")
    for definition in result.definitions:
        if definition.workflow is not None:
            return definition
    raise typer.Exit(1)


@group.command("show")
def show_workflow(
    job: JobArgument = None,
    values: Annotated[bool, typer.Option("--values", help="Print each call's result, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a workflow's phases and calls, with their states and costs."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        view = found.view()
        found_calls = read_calls(swarm, view.root_id, values=values or as_json)
    if as_json:
        print_json({"id": view.id, "state": view.state, **found_calls.model_dump(mode="json")})
        return
    print_line(f"{view.id}  {found_calls.now}  {one_line(view.title, 100)}")
    if len(found_calls.phases) > 1:
        _PHASES.show(found_calls.phases)
    _CALLS.show(found_calls.calls)
    for call in found_calls.calls if values else ():
        if call.value is not None:
            print_line(f"\n{call.tool} {one_line(call.label, 80)}:\n{call.value}")
    if view.reason:
        print_note(view.reason)


@group.command("keep")
def keep_workflow(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of its file.")],
    job: JobArgument = None,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Keep the program that a model wrote in a job as a file of the workspace."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        written = [
            definition
            for agent in found.agents()
            if (definition := swarm.store.agents.spec(agent.id).definition).workflow
        ]
    sources = [one.workflow.source for one in written if one.workflow is not None and one.name == WRITTEN]
    if not sources:
        raise ConfigurationError(f"no model has written a workflow in {found.id}")
    path = find_workspace(workspace) / ".swarm" / "workflows" / f"{name}.py"
    if path.exists():
        raise ConfigurationError(f"{path} exists; give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sources[-1], encoding="utf-8")
    print_line(str(path))
    print_note(f"`swarm run -a {name} TASK` runs it")


def continue_workflow(
    swarm: Swarm,
    job: Job,
    *,
    retry_failed: bool,
    max_agents: int | None,
    budget_usd: float | None,
    script: Path | None,
    scenario: str | None,
    only_plan: bool,
) -> None:
    """Say what an ended workflow would reuse, run and cost, and continue it as a new job unless `only_plan`."""
    definition = None if script is None else _read_file(script)
    view = job.view()
    prepared, plan, paid, expected = prepare_continuing(
        swarm,
        view,
        retry_failed=retry_failed,
        max_agents=max_agents,
        budget_usd=budget_usd,
        definition=definition,
    )
    if plan.ended is not None:
        then = f"then it ends: {plan.ended.error}" if plan.ended.error else "then it ends"
    else:
        about = "" if expected is None else f", about {show_cost(expected)} by the earlier run"
        then = f"then it makes {show_number(len(plan.calls), 'call')}{about}, and those that follow from their results"
    print_note(f"reuses {show_number(plan.reused, 'result')} of {job.id}, {show_cost(paid)} paid; {then}")
    for call in plan.calls[:_SHOWN]:
        print_note(f"  {call.tool}: {one_line(call.prompt, 90)}")
    if len(plan.calls) > _SHOWN:
        print_note(f"  … and {len(plan.calls) - _SHOWN} more")
    if only_plan:
        return
    if scenario is not None:
        prepared = prepared.asking(begin_rehearsing(scenario, prepared.spec.job_id, swarm.settings))
    elif plan.ended is None and view.rehearsed and not _answers(prepared.spec.base_url or ""):
        raise ConfigurationError(f"{job.id} was a rehearsal, whose server has ended; start another one with --rehearse")
    made = swarm.place(prepared)
    lack = made.find_unmet()
    now = f"it waits: {lack}; `swarm up` starts a worker" if lack else f"`swarm attach {made.id}` watches it"
    print_note(f"{made.id} continues {job.id}; {now}")
    print_line(made.id)


def _answers(url: str) -> bool:
    """Report whether something listens at this URL."""
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname, place.port or 80), timeout=2).close()
    except OSError:
        return False
    return True


_WORKFLOWS = Listing[AgentDefinition](
    Column("name", lambda one: one.name),
    Column("language", lambda one: "" if one.workflow is None else one.workflow.language),
    Column("description", lambda one: one_line(one.description, 200), flexible=True),
    Column("source", lambda one: one.source, drop=1),
    otherwise="no workflows; put one into .swarm/workflows/, or name a module with one in SWARM_TOOLS",
)
_PHASES = Listing[Phase](
    Column("phase", lambda row: row.title or "(none)", flexible=True),
    Column("calls", lambda row: row.calls, right=True),
    Column("done", lambda row: row.done, right=True),
    Column("failed", lambda row: row.failed or None, right=True),
    Column("cost", lambda row: show_cost(row.cost_usd), right=True),
)
_CALLS = Listing[WorkflowCall](
    Column("phase", lambda row: row.phase, drop=1),
    Column("call", lambda row: row.tool),
    Column("purpose", lambda row: one_line(row.label, 80), flexible=True),
    Column("state", lambda row: row.state),
    Column("cost", lambda row: show_cost(row.cost_usd) if row.agent else None, right=True, drop=3),
    Column("agent", lambda row: row.agent, drop=2),
    otherwise="it has made no call yet",
)
