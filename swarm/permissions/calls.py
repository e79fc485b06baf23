"""Judges one call of any tool but the shell: what the rules say of it, then what the mode does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from swarm.definitions.model import PermissionMode
from swarm.permissions.path_rules import is_inside, is_protected, locate, matches_path
from swarm.permissions.rules import EDITING_TOOLS, READING_TOOLS, Action, Rule, Rules, matches_parameter
from swarm.permissions.web_rules import matches_domain

RUNTIME_TOOLS = (
    *("Agent", "WaitAgents", "ListAgents", "StopAgent", "SendMessage", "TodoWrite", "ReadOutput"),
    *("BashOutput", "KillShell", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TeamCreate", "TeamDelete"),
    *("Scratchpad*", "Board*", "Memory*"),
)
"""Names and patterns of the tools that the runtime carries out itself; they touch no file and no network."""

NETWORK_TOOLS = frozenset({"WebFetch"})
"""Tools that may carry what an agent has read out of the house."""

DEFAULT_AGENT_TYPE = "general-purpose"
_OUTPUT_HANDLE = "output:"


@dataclass(frozen=True)
class Verdict:
    """What was decided, why (fit to be given to the model), and the rule that did it, if one did."""

    action: Action
    reason: str
    rule: Rule | None = None


@dataclass(frozen=True)
class Call:
    """One call, and what it is judged by."""

    tool: str
    given: dict[str, Any]
    rules: Rules
    mode: PermissionMode
    workspace: Path
    effects: bool
    sandboxed: bool
    read_only_sandbox: bool
    plan_file: Path | None


def judge_call(call: Call) -> Verdict:
    for rule in call.rules.about("deny", call.tool):
        if matches(rule, call):
            return by_rule("deny", rule)
    planned = _is_plan_file(call)
    if call.mode == "plan" and call.effects and not planned and not _is_runtime(call.tool):
        return Verdict("deny", _plan_reason(call))
    for rule in call.rules.about("ask", call.tool):
        if matches(rule, call):
            return by_rule("ask", rule)
    if call.tool in EDITING_TOOLS and not planned and call.mode != "bypassPermissions":
        path = _path_of(call)
        if path is not None and is_protected(path, call.workspace):
            return Verdict("ask", f"{path} is configuration that tools obey; changing it is always asked about")
    for rule in call.rules.about("allow", call.tool):
        if matches(rule, call):
            return by_rule("allow", rule)
    return _by_mode(call, planned)


def _by_mode(call: Call, planned: bool) -> Verdict:
    mode, tool = call.mode, call.tool
    if mode == "bypassPermissions":
        return Verdict("allow", "allowed in the mode bypassPermissions")
    if planned and mode == "plan":
        return Verdict("allow", "the plan file may be written in plan mode")
    if _is_runtime(tool):
        return Verdict("allow", f"{tool} is carried out by the runtime")
    if tool in NETWORK_TOOLS:
        return Verdict("ask", f"{tool} reaches the network and no rule allows this call")
    if not call.effects:
        return Verdict("allow", f"{tool} changes nothing")
    if tool in EDITING_TOOLS and mode == "acceptEdits":
        path = _path_of(call)
        if path is not None and is_inside(path, call.workspace):
            return Verdict("allow", "edits in the workspace are allowed in the mode acceptEdits")
        return Verdict("ask", "the file is outside of the workspace")
    return Verdict("ask", f"{tool} has effects and no rule allows this call")


def matches(rule: Rule, call: Call) -> bool:
    if not _matches_spec(rule, call):
        return False
    return not any(_excepts(exception, rule, call) for exception in rule.exceptions)


def _excepts(exception: Rule, rule: Rule, call: Call) -> bool:
    """Whether an exception takes the call out of the rule: in doubt it does for rules that allow, and only for them."""
    if rule.action == "allow":
        exception = exception.model_copy(update={"action": "deny"})
    return exception.names(call.tool) and _matches_spec(exception, call)


def _matches_spec(rule: Rule, call: Call) -> bool:
    spec, tool, given = rule.spec, call.tool, call.given
    if spec is None:
        return True
    broad = rule.action != "allow"
    if tool in EDITING_TOOLS:
        path = _path_of(call)
        return broad if path is None else matches_file(rule, path, call.workspace, folder=False)
    if tool in READING_TOOLS:
        paths = _paths_read(tool, given)
        hits = (matches_file(rule, path, call.workspace, folder=tool != "Read") for path in paths)
        return any(hits) if broad else bool(paths) and all(hits)
    if tool == "WebFetch":
        return matches_domain(spec, given.get("url"), broad=broad)
    if tool == "Agent" and ":" not in spec:
        kind = given.get("subagent_type") or DEFAULT_AGENT_TYPE
        if given.get("agent_id") and not given.get("subagent_type"):
            return not broad  # an agent that runs already was judged when it was started
        return any(fnmatchcase(str(kind), pattern.strip()) for pattern in spec.split(","))
    return broad and matches_parameter(spec, given)


def matches_file(rule: Rule, path: str, workspace: Path, *, folder: bool) -> bool:
    if rule.spec is None:
        return True
    broad = rule.action != "allow"
    try:
        return matches_path(rule.spec, path, workspace=workspace, broad=broad, folder=folder)
    except ValueError:  # the spec of a rule about all tools need not be a path pattern
        return broad


def _path_of(call: Call) -> str | None:
    path = call.given.get("file_path") or call.given.get("notebook_path")
    return path if isinstance(path, str) else None


def _paths_read(tool: str, given: dict[str, Any]) -> list[str]:
    """What a reading tool looks at; text kept from another tool's output is no file."""
    if tool == "Read":
        path = given.get("file_path")
        return [path] if isinstance(path, str) and not path.startswith(_OUTPUT_HANDLE) else []
    folder = given.get("path")
    folder = folder if isinstance(folder, str) and folder else "."
    inner = given.get("pattern" if tool == "Glob" else "glob") if tool != "LS" else None
    # A pattern without wildcards names a file; the folder itself is looked through by all of these tools.
    return [folder, f"{folder}/{inner}"] if isinstance(inner, str) else [folder]


def _is_runtime(tool: str) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in RUNTIME_TOOLS)


def _is_plan_file(call: Call) -> bool:
    path = _path_of(call)
    if call.plan_file is None or call.mode != "plan" or call.tool not in EDITING_TOOLS or path is None:
        return False
    named, real = locate(path, call.workspace)
    plan_named, plan_real = locate(str(call.plan_file), call.workspace)
    if named not in (plan_named, plan_real):
        return False
    # Others can write in the workspace: a link in the plan file's place would have something else written.
    root_named, root_real = locate(".", call.workspace)
    return real == plan_real == os.path.join(root_real, os.path.relpath(plan_named, root_named))


def _plan_reason(call: Call) -> str:
    where = f" but the plan file {call.plan_file}" if call.plan_file is not None else ""
    return f"in plan mode nothing may be changed{where}: {call.tool} was not carried out"


def by_rule(action: Action, rule: Rule) -> Verdict:
    words = {"deny": "denied by", "ask": "must be asked about by", "allow": "allowed by"}[action]
    limit = f", which leaves only {', '.join(rule.unless)[:200]}" if rule.unless and action != "allow" else ""
    return Verdict(action, f"{words} the rule {rule.text} of {rule.source}{limit}", rule)
