"""Judges one shell command: by rules if its text is understood, else by a trial without effects.

If neither a rule nor the mode allows a command, it is first tried without effects (`Judgement.look`). The trial runs in a read-only
sandbox without network or, without a sandbox, as one of few programs that only read. If the trial is not enough, a person is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from swarm.definitions.tools import EDIT, READ, SHELL
from swarm.permissions.calls import JudgedCall, Judgement, by_rule, judge_call, matches, rules_against_reading
from swarm.permissions.path_rules import is_inside, is_protected
from swarm.permissions.rules import Action, Rule
from swarm.permissions.shell.looks import is_harmless_part, plain_look
from swarm.permissions.shell.parse import ShellCommand, parse_command
from swarm.permissions.shell.paths import (
    folders_of,
    named_paths,
    removes_critical_folder,
    resolve_assigned,
    resolve_home,
    written_targets,
)
from swarm.permissions.shell.rules import Finding, allowing_rule, find_rule, surest, whole_rule
from swarm.permissions.shell.views import strip_transparent
from swarm.permissions.shell.words import UNKNOWN, literal


def judge_shell(call: JudgedCall) -> Judgement:
    text = call.given.get(call.row.subject)
    if not isinstance(text, str):
        return Judgement("deny", "the call names no command")
    command = parse_command(text)
    # `$HOME/x` and `~/x` name the same file, and `x=rm; $x` runs rm.
    resolved, forms = parse_command(resolve_home(text)), _forms_of(text)
    denied = _find_in(forms, call.rules.about("deny", SHELL))
    if denied is not None and denied.certain:
        return by_rule("deny", denied.rule)
    folders = folders_of(resolved, call.workspace)
    on_paths = _judge_paths(forms, resolved, call, folders)
    if on_paths is not None and on_paths.action == "deny":
        return on_paths
    may_look = not (call.given.get("run_in_background") or call.given.get("changes"))
    looks = replace(Judgement("ask", "no rule allows it"), look=may_look)
    if call.mode == "plan" and not call.read_only_sandbox:
        return replace(looks, action="deny", reason="in plan mode only commands that change nothing are carried out")
    if denied is not None:
        return Judgement("ask", f"{_doubtful(denied.rule)}: {denied.doubt}", denied.rule)
    asked = _find_in(forms, call.rules.about("ask", SHELL))
    if asked is not None:
        return by_rule("ask", asked.rule)
    if on_paths is not None:
        return replace(on_paths, look=on_paths.by_person and may_look)
    if removes_critical_folder(command, call.workspace):
        return Judgement(
            "ask", "it removes a whole system folder, home or workspace, which always needs an approval", by_person=True
        )
    found = _allow_shell(command, call, folders)
    return replace(looks, reason=found) if isinstance(found, str) else found


def _forms_of(text: str) -> list[ShellCommand]:
    """Parse a command as written, and with its known variables replaced."""
    return [parse_command(one) for one in dict.fromkeys((text, resolve_home(text), resolve_assigned(text)))]


def _find_in(forms: Sequence[ShellCommand], rules: Sequence[Rule]) -> Finding | None:
    """Find the rule that matches one of a command's forms, a certain match first."""
    return surest(find_rule(one, rules) for one in forms)


def find_plain_look(call: JudgedCall) -> list[str] | None:
    """Return the words of a command that only reads and can run unconfined; None for other commands."""
    text = call.given.get(call.row.subject)
    guarded = bool(rules_against_reading(call.rules))

    def may_read(name: str) -> bool:
        inside = any(is_inside(name, folder, call.workspace) for folder in (call.workspace, *call.folders))
        return inside and judge_call(replace(call, tool=READ, given={"file_path": name})).action == "allow"

    return plain_look(parse_command(str(text)), call.workspace, may_read, guarded=guarded)


def _allow_shell(command: ShellCommand, call: JudgedCall, folders: list[Path] | None) -> Judgement | str:
    """Return the judgement that allows the command at once; else the part that nothing allows, in words."""
    if call.mode == "bypassPermissions":
        return Judgement("allow", "allowed in the mode bypassPermissions")
    allowing = call.rules.about("allow", SHELL)
    whole = whole_rule(command, allowing)
    if whole is not None:
        return by_rule("allow", whole)
    if call.read_only_sandbox:
        return Judgement("allow", "the command runs in a sandbox where it cannot change anything")
    if call.mode == "acceptEdits" and call.sandboxed:
        return Judgement("allow", "the command runs in a sandbox that restricts it to the workspace")
    if command.doubt:
        return f"the command is not understood: {command.doubt}"
    if command.grouped:
        return "rules allow no groups of commands and none in the background"
    if command.parts and (folders is None or not all(is_inside(str(folder), call.workspace) for folder in folders)):
        return "no rule allows it outside the workspace"
    # A lasting approval covers only a whole command.
    usable = allowing if len(command.parts) == 1 else [rule for rule in allowing if not rule.plain]
    return _allow_parts(command, call, folders, usable)


def _allow_parts(
    command: ShellCommand, call: JudgedCall, folders: list[Path] | None, allowing: Sequence[Rule]
) -> Judgement | str:
    """Return the judgement if rules allow each part and each written file; else the first that they do not allow, in words."""
    covering: Rule | None = None
    for part in command.parts:
        rule = allowing_rule(part, allowing)
        covering = covering or rule
        # A folder can lie in another repository, whose settings make Git run programs.
        strays = strip_transparent(part.words)[:1] == ("git",) and not _stays_in_repository(folders, call.workspace)
        if strays or (rule is None and not is_harmless_part(part)):
            shown = part.raw if len(part.raw) <= 100 else f"{part.raw[:99]}…"
            return f"no rule allows {shown}"
    if covering is None:
        return "no rule allows it"
    for target in written_targets(command):
        if _judge_target(target, call, folders).action != "allow":
            return f"no rule allows writing its output to {literal(target)}"
    return by_rule("allow", covering)


def _stays_in_repository(folders: list[Path] | None, workspace: Path) -> bool:
    """Report whether Git finds the same repository in each folder that a command changes to."""
    for folder in folders or [Path("/")]:
        if ".." in folder.parts:  # for `..` after a link, the shell uses its name and the system its target
            return False
        real = Path(os.path.realpath(folder))
        while real != Path(os.path.realpath(workspace)):
            if (
                not real.is_relative_to(os.path.realpath(workspace))
                or (real / ".git").exists()
                or (real / "HEAD").exists()
            ):
                return False
            real = real.parent
    return True


def _judge_paths(
    forms: Sequence[ShellCommand], resolved: ShellCommand, call: JudgedCall, folders: list[Path] | None
) -> Judgement | None:
    """Judge the files that the command names by the rules for files: deny before ask, None if no rule matches."""
    command, looked_from = forms[0], folders or [call.workspace]
    bypassing = replace(call, mode="bypassPermissions")
    on_targets = (_judge_target(target, bypassing, folders) for target in written_targets(command))

    def hold_against(action: Action) -> Iterator[Judgement]:
        for tool, writers_only in ((READ, False), (EDIT, True)):
            rules = [rule for rule in call.rules.about(action, tool) if rule.spec is not None]
            if not rules:
                continue
            paths = [path for one in forms for path in named_paths(one, looked_from, writers_only=writers_only)]
            yield from _hold_against_paths(rules, paths, replace(call, tool=tool))
            relative = folders is None and _names_relative(resolved, writers_only=writers_only)
            if command.doubt or command.braces or UNKNOWN in paths or relative:
                doubt = f"{_doubtful(rules[0])}: its files are known only when it runs"
                yield Judgement("ask", doubt, rules[0])

    worst = _worst(chain(on_targets, hold_against("deny"))) or _worst(hold_against("ask"))
    return worst or _judge_protected(command, call, looked_from)


def _worst(verdicts: Iterable[Judgement]) -> Judgement | None:
    """Return the first denial, else the first question."""
    asks: Judgement | None = None
    for verdict in verdicts:
        if verdict.action == "deny":
            return verdict
        asks = asks or (verdict if verdict.action == "ask" else None)
    return asks


def _hold_against_paths(rules: Sequence[Rule], paths: Iterable[str], call: JudgedCall) -> Iterator[Judgement]:
    for path in dict.fromkeys(path for path in paths if UNKNOWN not in path):
        named = replace(call, given={"file_path": path})
        yield from (by_rule(rule.action, rule) for rule in rules if matches(rule, named))


def _judge_protected(command: ShellCommand, call: JudgedCall, folders: list[Path]) -> Judgement | None:
    """Ask about a written file that tools obey."""
    if call.mode == "bypassPermissions":
        return None
    targets = [str(folder / os.path.expanduser(target)) for folder in folders for target in written_targets(command)]
    for path in (*named_paths(command, folders, writers_only=True), *targets):
        if UNKNOWN not in path and is_protected(path, call.workspace):
            return Judgement(
                "ask", f"{path} is configuration that tools obey; a change always needs an approval", by_person=True
            )
    return None


def _judge_target(target: str, call: JudgedCall, folders: list[Path] | None) -> Judgement:
    """Judge a redirection's target as an edit."""
    edit = replace(call, tool=EDIT)
    target = os.path.expanduser(target)
    if os.path.isabs(target):
        folders = [call.workspace]
    # The shell also expands patterns and other tildes.
    if folders is None or UNKNOWN in target or literal(target) != target or target.startswith("~"):
        return _judge_unknown_target(call)
    worst: Judgement | None = None
    for folder in folders:
        verdict = judge_call(replace(edit, given={"file_path": str(folder / target)}))
        if verdict.action == "deny":
            return verdict
        worst = verdict if worst is None or verdict.action == "ask" else worst
    return worst or Judgement("ask", "the file for its output is not known")


def _judge_unknown_target(call: JudgedCall) -> Judgement:
    denying = call.rules.about("deny", EDIT)
    for rule in denying:
        if rule.spec is None and not rule.exceptions:
            return by_rule("deny", rule)
    about = (*denying, *call.rules.about("ask", EDIT), *rules_against_reading(call.rules))
    if call.mode != "bypassPermissions" or about:
        return Judgement("ask", "the file for its output is known only when it runs")
    return Judgement("allow", "allowed in the mode bypassPermissions")


def _names_relative(command: ShellCommand, *, writers_only: bool) -> bool:
    nowhere = Path("/\ue000")
    return any(
        Path(path).is_relative_to(nowhere) for path in named_paths(command, [nowhere], writers_only=writers_only)
    )


def _doubtful(rule: Rule) -> str:
    what = "denies" if rule.action == "deny" else "asks about"
    return f"it may be a command that the rule {rule.text} of {rule.source} {what}"
