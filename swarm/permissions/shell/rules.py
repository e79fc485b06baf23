"""Matches rules of the form `Bash(spec)` with a whole command line.

To allow, rules must match every part: each simple command at any place. To deny or ask, one matching part is
enough, also behind wrappers and inside carried code. An uncertain match never allows. If it could be a match
of a rule that denies, a person is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from swarm.definitions.tools import SHELL
from swarm.permissions.rules import Rule
from swarm.permissions.shell.carriers import hides_option
from swarm.permissions.shell.kinds import kind_of
from swarm.permissions.shell.parse import ShellCommand, SimpleCommand
from swarm.permissions.shell.patterns import CommandPattern, compile_pattern, is_wildcard
from swarm.permissions.shell.variables import SAFE_VARIABLES
from swarm.permissions.shell.views import is_plain, runs_another, strip_transparent, view_command
from swarm.permissions.shell.words import UNKNOWN


@dataclass(frozen=True)
class Finding:
    """A rule that denies or asks, and whether it matches for certain."""

    rule: Rule
    certain: bool
    doubt: str = ""
    """Reason why the match is not certain."""


def find_rule(command: ShellCommand, rules: Iterable[Rule]) -> Finding | None:
    """Return the first rule (all deny, or all ask) that matches a part of the command, certain matches first."""
    return surest(_hold_against(command, rule) for rule in rules)


def surest(findings: Iterable[Finding | None]) -> Finding | None:
    """Return the first certain finding, else the first one."""
    possible: Finding | None = None
    for finding in findings:
        if finding is not None and finding.certain:
            return finding
        possible = possible or finding
    return possible


def whole_rule(command: ShellCommand, rules: Iterable[Rule]) -> Rule | None:
    """Return the allow rule for all commands or exactly this text, which needs no parsed command."""
    text = command.text.strip()
    for rule in rules:
        if not rule.exceptions and (rule.spec is None or compile_pattern(rule.spec).exact == text):
            return rule
    return None


def allowing_rule(part: SimpleCommand, rules: Iterable[Rule]) -> Rule | None:
    """Return the allow rule that certainly covers one simple command."""
    return next((rule for rule in rules if _covers(rule, part)), None)


def _covers(rule: Rule, part: SimpleCommand) -> bool:
    if any(_may_be(part, exception) for exception in rule.exceptions):
        return False
    if rule.spec is None:
        return True
    pattern = compile_pattern(rule.spec)
    if pattern.exact is not None and pattern.exact == part.raw:
        return True
    if not part.words or UNKNOWN in part.words[0] or not is_plain(part):
        return False
    if not all(map(SAFE_VARIABLES.fullmatch, part.assigned)):
        return False
    if rule.plain:
        return not part.assigned and f"{kind_of(part.settled_words)}:*" == rule.spec
    return _covers_words(pattern, part)


def _covers_words(pattern: CommandPattern, part: SimpleCommand) -> bool:
    bare = strip_transparent(part.words)
    settled = part.settled_words[len(part.words) - len(bare) :]
    if bare[0] == "xargs" and len(bare) > 1 and not bare[1].startswith("-"):
        bare, settled = (*bare[1:], UNKNOWN), (*settled[1:], UNKNOWN)
    if runs_another(bare):
        return False
    pattern_words = pattern.tokens.split()
    place = next((place for place, word in enumerate(part.words) if word == bare[0]), 0)
    # A pattern covers the program that it names, not any program behind `timeout`.
    names_it = len(pattern_words) > place and not any(map(is_wildcard, pattern_words[: place + 1]))
    candidates = {bare, part.words} if names_it else {bare}
    matched = any(map(pattern.matches, candidates)) and pattern.is_spelt(part.raw)
    return matched and not hides_option(pattern_words, bare, settled)


def _may_be(part: SimpleCommand, rule: Rule) -> bool:
    """Report whether an exception to an allow rule could match."""
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
        return certain if parts or command.doubt or not exceptions or not command.parts else None
    pattern = compile_pattern(rule.spec)
    if pattern.loose.fullmatch(_collapse(command.text)) and (parts or not exceptions):
        return certain
    doubtful = Finding(rule, certain=False, doubt=command.doubt) if command.doubt else None
    return surest(chain([doubtful], (_hold_part(part, pattern, rule) for part in parts)))


def _hold_part(part: SimpleCommand, pattern: CommandPattern, rule: Rule) -> Finding | None:
    views = view_command(part)
    if pattern.loose.fullmatch(_collapse(part.raw)) or any(map(pattern.matches_loosely, views.commands)):
        return Finding(rule, certain=True)
    if views.opaque or any(map(pattern.may_match, views.commands)):
        doubt = views.opaque or "it has words that are known only when it runs"
        return Finding(rule, certain=False, doubt=doubt)
    return None


def _collapse(text: str) -> str:
    return " ".join(text.split())
