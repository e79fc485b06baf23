"""Kinds of commands for lasting approvals: subcommands whose calls are alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from swarm.permissions.shell.looks import Grammar
from swarm.permissions.shell.words import UNKNOWN, literal

_OF_REMOTE = ("git fetch", "git pull", "git push")
"""Subcommands whose first operand is the remote, which belongs to the kind."""
_KINDS: dict[str, Grammar] = {
    "git add": Grammar("AuvnN", "all update verbose dry-run intent-to-add"),
    "git commit": Grammar("aqvsm:", "all quiet signoff allow-empty message="),
    "git fetch": Grammar("pqvt", "prune tags quiet verbose depth="),
    "git pull": Grammar("qv", "ff-only rebase no-rebase quiet verbose"),
    "git push": Grammar("uqvn", "set-upstream quiet verbose dry-run"),
    "git switch": Grammar("cq", "create quiet"),
    **dict.fromkeys(
        (f"cargo {name}" for name in ("build", "test", "check", "clippy")),
        Grammar("qvrp:", "release all workspace all-targets all-features package= quiet"),
    ),
    "ruff check": Grammar("q", "quiet statistics"),
    "ruff format": Grammar("q", "check diff quiet"),
    "pytest": Grammar("qvxslk:m:", "lf ff exitfirst collect-only maxfail= tb= durations="),
    "mypy": Grammar("v", "strict pretty"),
}
"""Subcommand → its options that start no program, write no file and loosen no check."""
_OPERAND = re.compile(r"(?!.*(^|/)\.\.(/|$))[\w.][\w./@^~-]*")
"""A plain word: no path that leads elsewhere, no URL, no refspec that forces or removes."""
_REMOTE = re.compile(r"[\w.-]+")


def kind_of(words: Sequence[str]) -> str:
    """Return the kind of a command, the first words of all its commands; empty if it has none."""
    if any(UNKNOWN in word or literal(word) != word for word in words):
        return ""
    name = next((" ".join(words[:count]) for count in (2, 1) if " ".join(words[:count]) in _KINDS), "")
    if not name:
        return ""
    operands = _KINDS[name].operands_of(tuple(words[name.count(" ") + 1 :]), values=False)
    if operands is None or not all(map(_OPERAND.fullmatch, operands)):
        return ""
    if name == "git commit" and not any(re.match(r"-\w*m|--message=", word) for word in words):
        return ""  # an editor would be started
    if name not in _OF_REMOTE:
        return name
    return f"{name} {operands[0]}" if operands and _REMOTE.fullmatch(operands[0]) else ""
