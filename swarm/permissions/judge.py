"""Decides about one call of a tool: allow it, ask a person, or deny it, with a reason.

The order: rules that deny, plan mode, rules that ask, rules that allow, the mode. So a deny rule holds in
every mode, and only a person can allow a call that an ask rule matches.

| mode | calls that no rule decides |
|---|---|
| `default`, `bubble` | reads are allowed; edits, the network, and shell commands that must do more than read need an approval |
| `acceptEdits` | also allows edits in the workspace, and shell commands that a sandbox restricts to it |
| `auto` | as `acceptEdits`; a small model can allow or deny the remaining questions if it is sure |
| `plan` | reads only, and the plan file |
| `dontAsk` | as `default`, but questions become denials |
| `bypassPermissions` | everything is allowed, except that recursive removal of a critical folder needs an approval |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from swarm.permissions.calls import JudgedCall, Judgement, judge_call, matches_file, rules_against_reading
from swarm.permissions.path_rules import compile_paths
from swarm.permissions.rules import Rules
from swarm.permissions.shell.judge import find_plain_look, judge_shell

__all__ = ["JudgedCall", "Judgement", "find_plain_look", "find_unreadable", "judge", "may_read"]


def judge(call: JudgedCall) -> Judgement:
    """Decide about one call."""
    if call.mode == "auto":
        # The mode decides elsewhere who answers its questions.
        call = replace(call, mode="acceptEdits")
    verdict = judge_shell(call) if call.row.matching == "command" else judge_call(call)
    if call.mode == "dontAsk" and verdict.action == "ask":
        return replace(verdict, action="deny", reason=f"{verdict.reason}; the mode dontAsk asks no questions")
    return verdict


def may_read(path: Path, rules: Rules, workspace: Path) -> bool:
    """Report whether no rule denies reading this file; for tools that search many files."""
    return not any(matches_file(rule, str(path), workspace, folder=False) for rule in rules_against_reading(rules))


def find_unreadable(folders: Iterable[Path], rules: Rules, workspace: Path) -> Iterator[Path]:
    """List unreadable paths below the folders: files, and folders in which every file is unreadable."""
    specs = [rule.spec for rule in rules_against_reading(rules) if rule.spec is not None]
    patterns = [compile_paths(spec, workspace, broad=True) for spec in specs]
    for folder in folders:
        near = [one for one in patterns if one.may_reach(str(folder))]
        for place, below, files in os.walk(folder) if near else ():
            for names, is_folder in ((below, True), (files, False)):
                denied = {
                    name
                    for name in names
                    if any(one.matches(f"{place}/{name}", broad=True, folder=is_folder) for one in near)
                }
                yield from (Path(place, name) for name in sorted(denied))
                names[:] = [name for name in names if name not in denied]
