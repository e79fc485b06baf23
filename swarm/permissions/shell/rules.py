"""Holds rules of the form `Bash(spec)` against a whole command line.

To allow is to allow every part: each simple command, wherever it stands. To deny or to ask is to match any
part, also behind wrappers and inside carried code. What cannot be told for certain never allows, and where
it could be what a rule denies, a person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swarm.definitions.tools import SHELL
from swarm.permissions.rules import Rule
from swarm.permissions.shell.parse import ShellCommand, SimpleCommand
from swarm.permissions.shell.patterns import CommandPattern, compile_pattern
from swarm.permissions.shell.readonly import SAFE_VARIABLES, is_read_only_command
from swarm.permissions.shell.views import FINDERS, strip_transparent, view_command
from swarm.permissions.shell.words import UNKNOWN, literal

__all__ = ["Finding", "allowing_rule", "find_rule", "is_read_only_command", "whole_rule"]

_SEPARATORS = re.compile(r"[;&|\n(){}<>`]|\$\(")
_QUOTES = re.compile(r"\\\n|[\\'\"]|\$(?=['\"])")
_MAX_TAILS = 40
_FIND_WRITES = re.compile(r"-(delete|fprint\w*|fls)")


@dataclass(frozen=True)
class Finding:
    """A rule that denies or asks, and whether it matches for certain."""

    rule: Rule
    certain: bool
    doubt: str = ""
    """Why it is not certain."""


def find_rule(command: ShellCommand, rules: Iterable[Rule]) -> Finding | None:
    """The first rule (all deny, or all ask) that matches a part of the command; those that match for certain first."""
    possible: Finding | None = None
    for rule in rules:
        finding = _hold_against(command, rule)
        if finding is not None and finding.certain:
            return finding
        possible = possible or finding
    return possible


def whole_rule(command: ShellCommand, rules: Iterable[Rule]) -> Rule | None:
    """The allow rule for all commands, or for exactly this text: it holds whether the command is understood or not."""
    text = command.text.strip()
    for rule in rules:
        if not rule.exceptions and (rule.spec is None or compile_pattern(rule.spec).exact == text):
            return rule
    return None


def allowing_rule(part: SimpleCommand, rules: Iterable[Rule]) -> Rule | None:
    """The allow rule that covers one simple command for certain."""
    return next((rule for rule in rules if _covers(rule, part)), None)


def _covers(rule: Rule, part: SimpleCommand) -> bool:
    if any(_may_be(part, exception) for exception in rule.exceptions):
        return False
    if rule.spec is None:
        return True
    pattern = compile_pattern(rule.spec)
    if pattern.exact is not None and pattern.exact == part.raw:
        return True
    if not part.words or part.is_dynamic or not all(SAFE_VARIABLES.fullmatch(name) for name in part.assigned):
        return False
    bare = strip_transparent(part.words)
    if bare[0] == "xargs" and len(bare) > 1 and not bare[1].startswith("-"):
        bare = (*bare[1:], UNKNOWN)
    return any(_matches_openly(pattern, words) for words in {part.words, bare} if words)


def _matches_openly(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    """Whether the pattern matches, and says itself what `find` is to run or delete."""
    if not pattern.matches(words):
        return False
    actions = FINDERS.get(words[0], ()) if words[0] != "git" else ()
    hidden = [word for word in words[1:] if word in actions or (words[0] == "find" and _FIND_WRITES.fullmatch(word))]
    return all(word in pattern.tokens.split() for word in hidden)


def _may_be(part: SimpleCommand, rule: Rule) -> bool:
    """Whether an exception to an allow rule could be meant."""
    if not rule.names(SHELL) or rule.spec is None:
        return rule.names(SHELL)
    return any(compile_pattern(rule.spec).may_match(words) for words in view_command(part).commands)


def _hold_against(command: ShellCommand, rule: Rule) -> Finding | None:
    certain = Finding(rule, certain=True)
    exceptions = [exception for exception in rule.exceptions if exception.names(SHELL)]
    if any(exception.spec is None for exception in exceptions):
        return None
    parts = [part for part in command.parts if allowing_rule(part, exceptions) is None]
    if rule.spec is None:
        return certain if parts or command.opaque or not exceptions or not command.parts else None
    pattern = compile_pattern(rule.spec)
    if pattern.loose.fullmatch(_collapse(command.text)) and (parts or not exceptions):
        return certain
    doubt = command.opaque or ""
    for part in parts:
        views = view_command(part)
        if pattern.loose.fullmatch(_collapse(part.raw)) or any(map(pattern.matches_loosely, views.commands)):
            return certain
        if views.opaque or any(map(pattern.may_match, views.commands)):
            doubt = doubt or views.opaque or "it has words that are known only when it runs"
    if command.broken and any(map(pattern.matches_loosely, _guess_commands(command.text))):
        return certain
    return Finding(rule, certain=False, doubt=doubt) if doubt else None


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _guess_commands(text: str) -> Iterable[Sequence[str]]:
    """Pieces of a command line that could not be taken apart, which may be commands of it."""
    for piece in _SEPARATORS.split(_QUOTES.sub("", text)):
        words = literal(piece).split()
        for start in range(min(len(words), _MAX_TAILS)):
            yield words[start:]
            name = words[start].rpartition("/")[2]
            if name and name != words[start]:
                yield [name, *words[start + 1 :]]
