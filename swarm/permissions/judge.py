"""Decides about one call of a tool: allow it, ask a person, or deny it, with the reason in a sentence.

The order: rules that deny; what plan mode forbids; rules that ask; rules that allow; the mode. So a deny
survives every mode, and nothing but a person gets past a rule that asks.

| mode | what no rule decides |
|---|---|
| `default`, `bubble` | looking is allowed; edits, shell commands that do more than look, and the network are asked about |
| `acceptEdits` | edits in the workspace too, and shell commands that a sandbox holds to it |
| `auto` | as `acceptEdits`; of what would be asked about, a small model may allow or deny what it is sure of |
| `plan` | looking only, and the plan file |
| `dontAsk` | as `default`, but whatever would be asked is denied |
| `bypassPermissions` | everything; the recursive removal of a critical folder is asked about |
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swarm.definitions.tools import READ
from swarm.permissions.calls import Call, Verdict, judge_call, matches_file
from swarm.permissions.rules import Rules
from swarm.permissions.shell.judge import judge_shell

__all__ = ["Call", "Verdict", "judge", "may_read"]


def judge(call: Call) -> Verdict:
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
    denying = (rule for rule in rules.about("deny", READ) if rule.spec is not None)
    return not any(matches_file(rule, str(path), workspace, folder=False) for rule in denying)
