"""Judges one shell command: as strictly as the strictest of its parts and of the files that it writes to."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

from swarm.definitions.tools import EDIT, READ, SHELL
from swarm.permissions.calls import Call, Verdict, by_rule, judge_call, matches, rules_against_reading
from swarm.permissions.path_rules import is_protected
from swarm.permissions.rules import Rule
from swarm.permissions.shell.parse import ShellCommand, parse_command
from swarm.permissions.shell.paths import (
    folders_of,
    looks_outside,
    named_paths,
    removes_critical_folder,
    resolve_home,
    uses_loose_repository,
    written_targets,
)
from swarm.permissions.shell.readonly import enters_repository, is_read_only_part
from swarm.permissions.shell.rules import allowing_rule, find_rule, whole_rule
from swarm.permissions.shell.words import UNKNOWN, literal


def judge_shell(call: Call) -> Verdict:
    text = call.given.get(call.row.subject)
    if not isinstance(text, str):
        return Verdict("deny", "the call names no command")
    command = parse_command(text)
    denied = find_rule(command, call.rules.about("deny", SHELL))
    if denied is not None and denied.certain:
        return by_rule("deny", denied.rule)
    # `$HOME/x` names what `~/x` does.
    resolved = parse_command(resolve_home(text))
    folders = folders_of(resolved, call.workspace)
    looks = _only_looks(command, call.workspace)
    on_paths = _judge_paths(command, resolved, call, folders, looks=looks)
    if on_paths is not None and on_paths.action == "deny":
        return on_paths
    if call.mode == "plan" and not (looks or call.read_only_sandbox):
        return Verdict("deny", "in plan mode only commands that change nothing are carried out")
    if denied is not None:
        return Verdict("ask", f"{_doubtful(denied.rule)}: {denied.doubt}", denied.rule)
    asked = find_rule(command, call.rules.about("ask", SHELL))
    if asked is not None:
        return by_rule("ask", asked.rule)
    if on_paths is not None:
        return on_paths
    if removes_critical_folder(command, call.workspace):
        return Verdict(
            "ask", "it removes a whole system folder, home or workspace; that is always asked about", by_person=True
        )
    if call.mode == "bypassPermissions":
        return Verdict("allow", "allowed in the mode bypassPermissions")
    return _allow_shell(command, call, folders, looks=looks)


def _allow_shell(command: ShellCommand, call: Call, folders: list[Path] | None, *, looks: bool) -> Verdict:
    allowing = call.rules.about("allow", SHELL)
    whole = whole_rule(command, allowing)
    if whole is not None:
        return by_rule("allow", whole)
    confined = call.sandboxed or call.read_only_sandbox
    reads_elsewhere = not all(is_read_only_part(part, confined=confined) for part in command.parts)
    outside = not confined and ((looks and reads_elsewhere) or looks_outside(command, call.workspace))
    if looks and not outside:
        return Verdict("allow", "the command changes nothing")
    if call.read_only_sandbox:
        return Verdict("allow", "the command runs in a sandbox in which it can change nothing")
    if call.mode == "acceptEdits" and call.sandboxed:
        return Verdict("allow", "the command runs in a sandbox that holds it to the workspace")
    if looks:
        return Verdict("ask", "it may look at files outside of the workspace, and no rule allows it")
    if command.opaque:
        return Verdict("ask", f"the command is not understood: {command.opaque}")
    covering: Rule | None = None
    for part in command.parts:
        rule = allowing_rule(part, allowing)
        reads = not outside and is_read_only_part(part, confined=confined) and not enters_repository(command)
        if rule is None and (not reads or uses_loose_repository(command, call.workspace)):
            shown = part.raw if len(part.raw) <= 100 else f"{part.raw[:99]}…"
            return Verdict("ask", f"no rule allows this part of the command: {shown}")
        covering = covering or rule
    for target in written_targets(command):
        edit = _judge_target(target, call, folders)
        if edit.action != "allow":
            return (
                edit if edit.rule else replace(edit, reason=f"no rule allows writing its output to {literal(target)}")
            )
    if covering is not None:
        return by_rule("allow", covering)
    return Verdict("allow", "every part of the command is allowed")


def _only_looks(command: ShellCommand, workspace: Path) -> bool:
    if command.opaque or written_targets(command) or enters_repository(command):
        return False
    if uses_loose_repository(command, workspace):
        return False
    return bool(command.text.strip()) and all(is_read_only_part(part) for part in command.parts)


def _judge_paths(
    command: ShellCommand, resolved: ShellCommand, call: Call, folders: list[Path] | None, *, looks: bool
) -> Verdict | None:
    """What rules about files say of the files that the command names: deny before ask, nothing if they are silent."""
    worst: Verdict | None = None
    for target in written_targets(command):
        verdict = _judge_target(target, replace(call, mode="bypassPermissions"), folders)
        if verdict.action == "deny":
            return verdict
        if verdict.action == "ask":
            worst = worst or verdict
    looked_from = folders or [call.workspace]
    for action in ("deny", "ask"):
        reading = [rule for rule in call.rules.about(action, READ) if rule.spec is not None]
        editing = [rule for rule in call.rules.about(action, EDIT) if rule.spec is not None]
        for rules, tool, writers_only in ((reading, READ, False), (editing, EDIT, True)):
            if not rules or (writers_only and looks) or (action == "ask" and worst is not None):
                continue
            if folders is None and worst is None and _names_relative(resolved, writers_only=writers_only):
                doubt = f"{_doubtful(rules[0])}: the folder that it goes to is known only when it runs"
                worst = Verdict("ask", doubt, rules[0])
            paths = (
                named_paths(one, looked_from, writers_only=writers_only, attached=True) for one in (command, resolved)
            )
            for path in dict.fromkeys(itertools.chain(*paths)):
                named = replace(call, tool=tool, given={"file_path": path})
                for rule in rules:
                    if matches(rule, named):
                        verdict = by_rule(action, rule)
                        if action == "deny":
                            return verdict
                        worst = worst or verdict
    if worst is None and call.mode != "bypassPermissions" and not looks:
        named_files = [*named_paths(command, looked_from, writers_only=True)]
        targets = [
            str(folder / os.path.expanduser(target)) for folder in looked_from for target in written_targets(command)
        ]
        for path in (*named_files, *targets):
            if UNKNOWN not in path and is_protected(path, call.workspace):
                return Verdict(
                    "ask", f"{path} is configuration that tools obey; changing it is always asked about", by_person=True
                )
    return worst


def _judge_target(target: str, call: Call, folders: list[Path] | None) -> Verdict:
    """A file that output is redirected to is edited."""
    edit = replace(call, tool=EDIT)
    target = os.path.expanduser(target)
    if os.path.isabs(target):
        folders = [call.workspace]
    # The shell also looks a pattern up, and knows more tildes.
    if folders is None or UNKNOWN in target or literal(target) != target or target.startswith("~"):
        for rule in call.rules.about("deny", EDIT):
            if rule.spec is None and not rule.exceptions:
                return by_rule("deny", rule)
        about = (*call.rules.about("deny", EDIT), *call.rules.about("ask", EDIT), *rules_against_reading(call.rules))
        if call.mode != "bypassPermissions" or about:
            return Verdict("ask", "which file its output is written to is known only when it runs")
        return Verdict("allow", "allowed in the mode bypassPermissions")
    worst: Verdict | None = None
    for folder in folders:
        verdict = judge_call(replace(edit, given={"file_path": str(folder / target)}))
        if verdict.action == "deny":
            return verdict
        worst = verdict if worst is None or verdict.action == "ask" else worst
    return worst or Verdict("ask", "which file its output is written to cannot be told")


def _names_relative(command: ShellCommand, *, writers_only: bool) -> bool:
    nowhere = Path("/\ue000")
    return any(
        Path(path).is_relative_to(nowhere) for path in named_paths(command, [nowhere], writers_only=writers_only)
    )


def _doubtful(rule: Rule) -> str:
    what = "denies" if rule.action == "deny" else "asks about"
    return f"it may be what the rule {rule.text} of {rule.source} {what}"
