"""`swarm hooks`: which hooks run for which event, where, and why not; and the JSON sent for one event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from swarm.agent.spec import AgentSpec
from swarm.capabilities.hooks.events import HookEvent, name_tool
from swarm.capabilities.hooks.files import FoundHooks, Managed, read_managed
from swarm.capabilities.hooks.payloads import tell
from swarm.capabilities.hooks.placement import Run, place_hook
from swarm.capabilities.hooks.responses import describe_response
from swarm.capabilities.hooks.table import HookTable
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import print_json, print_json_text, print_note, show_number
from swarm.cli.tables import Column, Listing
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.prepared import PreparedJob
from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings, load_settings
from swarm.definitions.hooks import EVENTS, Hook, Hooks
from swarm.definitions.names import canonical_tool, suggest
from swarm.definitions.tools import all_rows
from swarm.runtime.plugins import plugins_folder

_SHELL = next(row.name for row in all_rows() if row.matching == "command")
"""Tool of a sample event for which none is named."""

_ASKS = {"prompt": "asks a model", "agent": "asks a model with tools", "mcp_tool": "asks an MCP server"}
_CALLS = ("PreToolUse", "PermissionRequest", "PermissionDenied", "PostToolUse", "PostToolUseFailure")


@dataclass(frozen=True)
class _Row:
    hook: Hook
    state: str
    runs: bool


def show_hooks(
    event: Annotated[
        str | None, typer.Argument(metavar="[EVENT]", help="Only hooks for this event: PreToolUse, Stop …")
    ] = None,
    tool: Annotated[str, typer.Option("--tool", metavar="TOOL", help="Tool that the event's call is for.")] = "",
    given: Annotated[str, typer.Option("--given", metavar="JSON", help="Arguments of the call.")] = "{}",
    told: Annotated[
        bool,
        typer.Option("--told", help="Print the event's JSON, to try a hook with."),
    ] = False,
    agent: Annotated[str, typer.Option("--agent", "-a", metavar="TYPE", help="Type of the agent.")] = "build",
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """List the hooks of a workspace, and the ones that would not run, with the reason.

    Nothing is run. `swarm hooks PreToolUse --tool Bash --given '{"command": "ls"}' --told | ./my-hook` tries one.
    """
    settings = load_settings()
    order = Order(prompt="(only explained)", agent=agent, workspace=workspace, home_workspace=True)
    prepared = prepare_order(order, settings, any_type=True)
    sample = _sample(event, canonical_tool(tool) if tool else "", _read(given)) if event is not None else None
    if told:
        if sample is None:
            raise ConfigurationError("--told needs an event, as in `swarm hooks Stop --told`")
        print_json_text(json.dumps(_tell(sample, prepared.spec), indent=2))
        return
    rows = [row for row in _rows(prepared, settings) if sample is None or _fits(row.hook, sample, prepared)]
    if as_json:
        print_json([{**row.hook.model_dump(), "state": row.state, "runs": row.runs} for row in rows])
    else:
        _list(rows)
    found = prepared.project.part("hooks")
    for problem in found.problems:
        print_note(f"problem: {problem}")
    if prepared.ignored and found.grants:
        print_note(f"note: {prepared.ignored}")


def _rows(prepared: PreparedJob, settings: Settings) -> Iterator[_Row]:
    found: FoundHooks = prepared.project.part("hooks").found
    managed = read_managed(settings.managed_hooks) if settings.managed_hooks is not None else Managed(Hooks())
    table = HookTable(
        found.holding(trusted=prepared.trusted), prepared.spec.definition.hooks, managed, settings.local_user_hooks()
    )
    of_type, of_plugins = prepared.spec.definition.hooks, found.from_plugins(trusted=prepared.trusted)
    folder = str(plugins_folder(settings))
    for hook in (*managed.hooks.hooks, *found.own, *of_plugins, *found.of_workspace, *of_type):
        why = ""
        if hook.origin != "managed" and managed.only:
            why = "the operator allows no others"
        elif found.off and hook.origin != "managed" and hook not in of_type:
            why = f"disableAllHooks in {found.off}"
        elif hook.origin == "project" and hook not in (*of_type, *of_plugins) and not prepared.trusted:
            why = "the workspace is not trusted"
        run = place_hook(hook.at(folder), table, prepared.folder)
        yield _Row(hook, f"not run: {why}" if why else _tell_where(hook, run), not why and run.place != "off")


def _tell_where(hook: Hook, run: Run) -> str:
    if run.place == "off":
        return f"not run: {run.why}"
    if hook.kind in _ASKS:
        return _ASKS[hook.kind]
    if run.place == "sandbox":
        return f"runs in the sandbox{f': {run.why}' if run.why else ''}"
    return f"runs on this host{f', pinned {run.pinned}' if run.pinned else ''}"


def _list(rows: list[_Row]) -> None:
    Listing[_Row](
        Column("event", lambda row: row.hook.event),
        Column("matcher", lambda row: row.hook.matcher or "*"),
        Column("hook", lambda row: row.hook.label, flexible=True),
        Column("where", lambda row: row.state),
        Column("of", lambda row: row.hook.source, drop=1),
    ).show(sorted(rows, key=lambda row: EVENTS.index(row.hook.event)))
    print_note(f"{show_number(len(rows), 'hook')}, {sum(row.runs for row in rows)} would run")


def _sample(event: str, tool: str, given: dict[str, Any]) -> HookEvent:
    if event not in EVENTS:
        raise ConfigurationError(f"there is no event {event!r} here{suggest(event, EVENTS)}; {', '.join(EVENTS)}")
    if event in (*_CALLS, "TaskCreated", "TaskCompleted"):
        call = {"type": "tool_use", "id": "toolu_sample", "name": tool or _SHELL, "input": given}
        about: dict[str, Any] = {"tool_name": call["name"], "tool_input": given, "tool_use_id": call["id"]}
        match event:
            case "PostToolUse":
                about["tool_response"] = describe_response(call, "its result")
            case "PostToolUseFailure":
                about |= {"error": "what went wrong", "is_interrupt": False}
            case "PermissionDenied":
                about["reason"] = "why it was denied"
            case "TaskCreated" | "TaskCompleted":
                about = {"task_id": "1", "task_subject": "a task", "task_description": "", "teammate_name": "ada"}
        return HookEvent(event, "sample", name_tool(str(call["name"])) if event in _CALLS else (), call, given=about)
    said = {"stop_hook_active": False, "last_assistant_message": "Done."}
    given_by_event: dict[str, dict[str, Any]] = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt": "what is asked for"},
        "PostToolBatch": {"tool_calls": []},
        "Notification": {"notification_type": "permission_prompt", "title": "a question", "message": "a question"},
        "StopFailure": {"error": "server_error", "error_details": "the server failed", **said},
        "PostCompact": {"trigger": "auto", "compact_summary": "a summary"},
        "PreCompact": {"trigger": "auto", "custom_instructions": ""},
        "SessionEnd": {"reason": "other"},
    }
    return HookEvent(event, "sample", given=given_by_event.get(event, said))


def _tell(sample: HookEvent, spec: AgentSpec) -> dict[str, Any]:
    if sample.name.startswith("Subagent") or sample.name == "TeammateIdle":
        spec = spec.model_copy(update={"parent_id": "agent-parent"})
    return tell(sample, spec, spec.mode, "/tmp/transcript.jsonl", {})


def _fits(hook: Hook, sample: HookEvent, prepared: PreparedJob) -> bool:
    """Whether the hook matches the sample; without a tool, its matcher is ignored."""
    if hook.event != sample.name:
        return False
    table = HookTable(Hooks(hooks=(hook,)), (), Managed(Hooks()))
    return bool(table.choose(sample, prepared.folder)) if sample.subjects else True


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--given is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError("--given is no JSON object")
    return found
