"""Decides about one call of a tool: allow it, ask a person, or deny it, with the reason in a sentence.

The order: rules that deny; what plan mode forbids; rules that ask; rules that allow; the mode. So a deny
survives every mode, and nothing but a person gets past a rule that asks.

| mode | what no rule decides |
|---|---|
| `default`, `bubble` | looking is allowed; edits and the network are asked about, and shell commands for which a look is not enough |
| `acceptEdits` | edits in the workspace too, and shell commands that a sandbox holds to it |
| `auto` | as `acceptEdits`; of what would be asked about, a small model may allow or deny what it is sure of |
| `plan` | looking only, and the plan file |
| `dontAsk` | as `default`, but whatever would be asked is denied |
| `bypassPermissions` | everything; the recursive removal of a critical folder is asked about |
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
    """Decide about a call."""
    if call.mode == "auto":
        # Who answers its questions is another matter.
        call = replace(call, mode="acceptEdits")
    verdict = judge_shell(call) if call.row.matching == "command" else judge_call(call)
    if call.mode == "dontAsk" and verdict.action == "ask":
        return replace(verdict, action="deny", reason=f"{verdict.reason}; nobody is asked in the mode dontAsk")
    return verdict


def may_read(path: Path, rules: Rules, workspace: Path) -> bool:
    """Whether no rule denies reading this file: for tools that search many."""
    return not any(matches_file(rule, str(path), workspace, folder=False) for rule in rules_against_reading(rules))


def find_unreadable(folders: Iterable[Path], rules: Rules, workspace: Path) -> Iterator[Path]:
    """What lies below the folders and may not be read: each file, or a folder of which nothing may be read."""
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
