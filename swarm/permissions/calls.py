"""Judges one call of any tool except the shell: by the rules, then by the mode."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from swarm.definitions.mcp.servers import tool_name
from swarm.definitions.model import DEFAULT_TYPE, PermissionMode
from swarm.definitions.names import canonical_type
from swarm.definitions.tools import READ, ToolRow, row_of
from swarm.permissions.path_rules import is_inside, is_protected, locate, matches_path
from swarm.permissions.rules import Action, Rule, Rules, matches_domain, matches_name, matches_parameter, matches_value
from swarm.workspace import is_output


@dataclass(frozen=True)
class Judgement:
    """A decision, its reason (also for the model), and the rule behind it, if any."""

    action: Action
    reason: str
    rule: Rule | None = None
    by_person: bool = False
    """Only a person can answer the question."""
    look: bool = False
    """Try the call first where it cannot have effects; this decision applies if that is not enough."""


@dataclass(frozen=True)
class JudgedCall:
    """One call, with the rules and the situation to judge it by."""

    tool: str
    """The tool's canonical name."""
    given: dict[str, Any]
    rules: Rules
    mode: PermissionMode
    workspace: Path
    sandboxed: bool
    """The kernel restricts the agent's processes to the workspace, without network."""
    read_only_sandbox: bool = False
    """The sandbox also prevents changes of the workspace."""
    plan_file: Path | None = None
    """The only file that may be written in plan mode."""

    folders: tuple[Path, ...] = ()
    """Further folders that the agent may use like the workspace."""
    names: tuple[str, ...] = ()
    """Further names of the call's subject, from the capability that knows it; a rule about any of them is about the call."""
    looks: bool = False
    """An MCP server's tool that is trusted to change nothing."""

    @cached_property
    def row(self) -> ToolRow:
        """The tool's row in the table of tools."""
        return row_of(self.tool)


def judge_call(call: JudgedCall) -> Judgement:
    if denied := _by_rules("deny", call) or _denied_to_read(call):
        return denied
    planned = _is_plan_file(call)
    if call.mode == "plan" and call.row.has_effects and not call.looks and not planned and not call.row.is_internal:
        return Judgement("deny", _plan_reason(call))
    if asked := _by_rules("ask", call):
        return asked
    if call.row.writes_files and not planned and call.mode != "bypassPermissions":
        path = _path_of(call)
        if path is not None and is_protected(path, call.workspace):
            return Judgement(
                "ask", f"{path} is configuration that tools obey; a change always needs an approval", by_person=True
            )
    return _by_rules("allow", call) or _by_mode(call, planned)


def _by_rules(action: Action, call: JudgedCall) -> Judgement | None:
    found = next((by_rule(action, rule) for rule in call.rules.about(action, call.tool) if matches(rule, call)), None)
    if found is None and (server := call.row.server and call.given.get(call.row.server)):
        # A rule about a server's tools is about its resources and prompts, too; to forbid, one may name a prompt like a tool.
        about = (call.tool, *(() if action == "allow" else (str(call.given.get(call.row.subject)),)))
        verdicts = (_by_rules(action, replace(call, tool=tool_name(str(server), each))) for each in about)
        return next((verdict for verdict in verdicts if verdict is not None), None)
    return found


def _by_mode(call: JudgedCall, planned: bool) -> Judgement:
    mode, tool, row = call.mode, call.tool, call.row
    if mode == "bypassPermissions":
        return Judgement("allow", "allowed in the mode bypassPermissions")
    if planned and mode == "plan":
        return Judgement("allow", "the plan file may be written in plan mode")
    if row.is_internal:
        return Judgement("allow", f"{tool} is carried out by the runtime")
    if row.network:
        return Judgement("ask", f"{tool} reaches the network and no rule allows this call")
    if not row.has_effects:
        return Judgement("allow", f"{tool} changes nothing")
    if row.writes_files and mode == "acceptEdits":
        path = _path_of(call)
        if path is not None and any(
            is_inside(path, folder, call.workspace) for folder in (call.workspace, *call.folders)
        ):
            return Judgement("allow", "edits in the workspace are allowed in the mode acceptEdits")
        return Judgement("ask", "the file is outside the workspace")
    return Judgement("ask", f"{tool} has effects and no rule allows this call")


def rules_against_reading(rules: Rules) -> list[Rule]:
    """Return the rules that deny reading files; these files must not be changed either."""
    return [rule for rule in rules.about("deny", READ) if rule.spec is not None]


def _denied_to_read(call: JudgedCall) -> Judgement | None:
    """Deny a change of a file that a rule forbids to read."""
    if not call.row.writes_files:
        return None
    as_read = replace(call, tool=READ, given={"file_path": _path_of(call)})
    unread = (rule for rule in rules_against_reading(call.rules) if matches(rule, as_read))
    return next((by_rule("deny", rule) for rule in unread), None)


def matches(rule: Rule, call: JudgedCall) -> bool:
    if not _matches_spec(rule, call):
        return False
    return not any(_excepts(exception, rule, call) for exception in rule.exceptions)


def _excepts(exception: Rule, rule: Rule, call: JudgedCall) -> bool:
    """Report whether an exception excludes the call from the rule; in doubt, only from rules that allow."""
    if rule.action == "allow":
        exception = exception.model_copy(update={"action": "deny"})
    return exception.names(call.tool) and _matches_spec(exception, call)


def _matches_spec(rule: Rule, call: JudgedCall) -> bool:
    spec = rule.spec
    if spec is None:
        return True
    broad = rule.action != "allow"
    subject = call.given.get(call.row.subject)
    match call.row.matching:
        case "edited":
            path = _path_of(call)
            return broad if path is None else matches_file(rule, path, call.workspace, folder=False)
        case "read":
            paths = _paths_read(call)
            hits = (matches_file(rule, path, call.workspace, folder=_looks_below(call.row)) for path in paths)
            return any(hits) if broad else bool(paths) and all(hits)
        case "domain":
            return matches_domain(spec, subject, broad=broad)
        case "name":
            return isinstance(subject, str) and matches_name(spec, (subject, *call.names), broad=broad)
        case "value" if subject is None:
            return broad  # the function's default may be the value in the rule
        case "value" if matches_value(spec, subject):
            return True
        case "type":
            return _matches_type(spec, call, subject, broad=broad)
    return broad and matches_parameter(spec, call.given)


def _matches_type(spec: str, call: JudgedCall, subject: Any, *, broad: bool) -> bool:
    if ":" in spec and broad and matches_parameter(spec, call.given):
        return True
    if call.given.get("agent_id") and not subject:
        return not broad  # a running agent was judged at its start
    # Other systems capitalize shipped types: `Agent(Explore)` means explore.
    kind = str(subject or DEFAULT_TYPE).casefold()
    kinds = {kind}
    if broad:
        kinds |= {canonical_type(kind), kind.rpartition(":")[2], *(["fork"] if call.given.get("fork") is True else [])}
    patterns = {pattern.strip().casefold() for pattern in spec.split(",")}
    if broad:
        patterns |= {canonical_type(pattern) for pattern in patterns}
    return any(fnmatchcase(kind, pattern) for kind in kinds for pattern in patterns)


def matches_file(rule: Rule, path: str, workspace: Path, *, folder: bool) -> bool:
    if rule.spec is None:
        return True
    broad = rule.action != "allow"
    try:
        return matches_path(rule.spec, path, workspace=workspace, broad=broad, folder=folder)
    except ValueError:  # the spec of a rule for all tools need not be a path pattern
        return broad


def _path_of(call: JudgedCall) -> str | None:
    path = call.given.get(call.row.subject)
    return path if isinstance(path, str) and path else None


def _looks_below(row: ToolRow) -> bool:
    """Report whether the tool searches a folder instead of reading a single file."""
    return row.subject == "path"


def _paths_read(call: JudgedCall) -> list[str]:
    """Return the paths that a reading tool uses; another tool's stored output is not a file."""
    path = call.given.get(call.row.subject)
    if not _looks_below(call.row):
        return [path] if isinstance(path, str) and not is_output(path) else []
    folder = path if isinstance(path, str) and path else "."
    inner = call.given.get(call.row.inner)
    # A pattern without wildcards names a file; all of these tools also search the folder itself.
    return [folder, f"{folder}/{inner}"] if isinstance(inner, str) else [folder]


def _is_plan_file(call: JudgedCall) -> bool:
    path = _path_of(call)
    if call.plan_file is None or call.mode != "plan" or not call.row.writes_files or path is None:
        return False
    named, real = locate(path, call.workspace)
    plan_named, plan_real = locate(str(call.plan_file), call.workspace)
    if named not in (plan_named, plan_real):
        return False
    # Others can write in the workspace, and a link in the plan file's place would redirect the write.
    root_named, root_real = locate(".", call.workspace)
    return real == plan_real == os.path.join(root_real, os.path.relpath(plan_named, root_named))


def _plan_reason(call: JudgedCall) -> str:
    where = f" except the plan file {call.plan_file}" if call.plan_file is not None else ""
    return f"nothing may be changed in plan mode{where}, so {call.tool} was not carried out"


def by_rule(action: Action, rule: Rule) -> Judgement:
    words = {"deny": "denied by", "ask": "needs an approval by", "allow": "allowed by"}[action]
    limit = f", which leaves only {', '.join(rule.unless)[:200]}" if rule.unless and action != "allow" else ""
    return Judgement(action, f"{words} the rule {rule.text} of {rule.source}{limit}", rule)
