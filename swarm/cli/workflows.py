"""`swarm workflows`: list, check and show workflows. `swarm run -a NAME TASK` starts one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from swarm.agent.entries import Advanced, ToolFinished
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JobArgument, JsonOption, WorkspaceOption
from swarm.cli.output import one_line, print_json, print_line, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import is_trusted
from swarm.client.swarm import Job, Swarm
from swarm.client.workflows import prepare_continuing
from swarm.core.errors import ConfigurationError
from swarm.core.settings import load_settings
from swarm.definitions.catalogue import check_path, load_catalogue
from swarm.definitions.model import AgentDefinition
from swarm.tools.outside import find_outside_tools
from swarm.workflows.reuse import Reuse, plan_run

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
    result = check_path(file)
    for problem in result.problems:
        print_note(f"problem: {problem}")
    definition = next((one for one in result.definitions if one.workflow is not None), None)
    if definition is None:
        raise typer.Exit(1)
    plan = plan_run(definition, task, Reuse(job_id="", results=[]))
    if plan.ended is not None and plan.ended.error:
        print_note(f"problem: {plan.ended.error}")
        raise typer.Exit(1)
    print_line(f"{definition.name}: {show_number(len(plan.calls), 'call')} before its first result")
    for call in plan.calls[:20]:
        print_line(f"  {call.tool}: {one_line(call.prompt, 90)}")


@group.command("show")
def show_workflow(job: JobArgument = None, as_json: JsonOption = False) -> None:
    """Show a workflow's phases and calls, with the state and result of each."""
    with open_swarm() as swarm:
        found = find_job(swarm, job)
        view = found.view()
        rows = _read_calls(swarm, view.root_id)
    if as_json:
        print_json({"id": view.id, "state": view.state, "calls": [row._asdict() for row in rows]})
        return
    print_line(f"{view.id}  {view.state}  {one_line(view.title, 100)}")
    _CALLS.show(rows)
    if view.reason:
        print_note(view.reason)


def continue_workflow(swarm: Swarm, job: Job, *, retry_failed: bool, max_agents: int | None) -> None:
    """Say what an ended workflow would reuse, and continue it as a new job."""
    continuing = prepare_continuing(swarm, job.view(), retry_failed=retry_failed, max_agents=max_agents)
    plan = continuing.plan
    if plan.ended is not None:
        then = f"then it ends: {plan.ended.error}" if plan.ended.error else "then it ends"
    else:
        then = f"then it makes {show_number(len(plan.calls), 'call')}"
    print_note(f"reuses {show_number(plan.reused, 'result')} of {job.id}; {then}")
    for call in plan.calls[:20]:
        print_note(f"  {call.tool}: {one_line(call.prompt, 90)}")
    print_line(swarm.place(continuing.prepared).id)


class _CallRow(NamedTuple):
    phase: str
    tool: str
    label: str
    state: str
    agent: str


def _read_calls(swarm: Swarm, agent_id: str) -> list[_CallRow]:
    history = swarm.store.journals.history(agent_id)
    if history.spec is None or history.spec.definition.workflow is None:
        raise ConfigurationError(f"{agent_id} is no workflow; `swarm transcript` shows other agents")
    results = {one.tool_use_id: one for one in history.lived if isinstance(one, ToolFinished)}
    dropped = {one for entry in history.lived if isinstance(entry, Advanced) for one in entry.dropped}
    rows, phase = [], ""
    for entry in history.lived:
        if not isinstance(entry, Advanced):
            continue
        phase = next((note.text for note in reversed(entry.notes) if note.kind == "phase"), phase)
        for call in entry.calls:
            done, agent = results.get(call["id"]), history.spawned.get(call["id"], "")
            state = (
                "given up"
                if call["id"] in dropped
                else "at work"
                if done is None
                else "failed"
                if done.is_error
                else "done"
            )
            rows.append(_CallRow(phase, call["name"], _label_of(call["input"]), state, agent))
    return rows


def _label_of(given: dict[str, Any]) -> str:
    return one_line(str(given.get("description") or next(iter(given.values()), "")), 80)


_WORKFLOWS = Listing[AgentDefinition](
    Column("name", lambda one: one.name),
    Column("language", lambda one: "" if one.workflow is None else one.workflow.language),
    Column("description", lambda one: one_line(one.description, 200), flexible=True),
    Column("source", lambda one: one.source, drop=1),
    otherwise="no workflows; put one into .swarm/workflows/, or name a module with one in SWARM_TOOLS",
)
_CALLS = Listing[_CallRow](
    Column("phase", lambda row: row.phase, drop=1),
    Column("call", lambda row: row.tool),
    Column("what", lambda row: row.label, flexible=True),
    Column("state", lambda row: row.state),
    Column("agent", lambda row: row.agent, drop=2),
    otherwise="it has made no call yet",
)
