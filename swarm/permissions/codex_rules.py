"""Reads Codex's command rules: `.codex/rules/*.rules`, calls of `prefix_rule` in Starlark. They are parsed, never run.

A rule's pattern is a list of words, each a text or a list of alternatives. The strictest matching rule decides, as here. A part
that cannot be read may forbid something, so every command is asked about until it is corrected.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swarm.definitions.sources import Unusable, show
from swarm.definitions.tools import SHELL, all_rows
from swarm.permissions.rules import Action, InvalidRule, Rule, parse_rule

_ACTIONS: Mapping[str, Action] = {"allow": "allow", "prompt": "ask", "forbidden": "deny", "deny": "deny"}
_PLAIN = re.compile(r"[\w@%+=,./-]+")
_CALLS = ("prefix_rule", "host_executable", "network_rule")
_MAX_RULES = 500
_REMEDY = "Write prefix_rule(pattern=[...], decision=...); until then every command is asked about."


def read_codex_rules(text: str, source: str) -> tuple[list[Rule], list[Unusable]]:
    """Return the rules of one file, and the problems of its unusable parts."""
    rules: list[Rule] = []
    problems: list[Unusable] = []
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        statements, problems = [], [Unusable("it is not a file of rules", _REMEDY, line)]
    for statement in statements:
        try:
            rules += _read_statement(statement, source)
        except (InvalidRule, ValueError) as error:
            fault = error.problem if isinstance(error, InvalidRule) else str(error)
            problems.append(Unusable(fault, _REMEDY, statement.lineno))
    if len(rules) > _MAX_RULES:
        problems.append(
            Unusable(f"it has more than {_MAX_RULES} rules", "Use shorter prefixes; until then all is asked.")
        )
    if problems:
        rules = rules[:_MAX_RULES]
        rules.append(Rule(action="ask", tool=SHELL, source=source))
    return rules, problems


def _read_statement(statement: ast.stmt, source: str) -> Iterator[Rule]:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return  # a text that explains
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[], keywords=keywords)) if name in _CALLS:
            given: dict[str, Any] = {one.arg or "": ast.literal_eval(one.value) for one in keywords}
        case _:
            raise ValueError("it has a statement that is not a rule")
    word = given.get("decision", "allow")
    action = _ACTIONS.get(word) if isinstance(word, str) else None
    if action is None:
        raise ValueError(f"the decision of a rule is {show(word)}")
    if name == "prefix_rule":
        yield from _prefix_rules(given.get("pattern"), action, source)
    elif name == "network_rule" and action != "allow":  # a host is reached only by the tools that fetch
        fetching = (row.name for row in all_rows() if row.matching == "domain")
        yield from (parse_rule(f"{tool}(domain:{given.get('host')})", action, source) for tool in fetching)


def _prefix_rules(pattern: Any, action: Action, source: str) -> Iterator[Rule]:
    if not isinstance(pattern, list) or not pattern:
        raise ValueError("a rule has no `pattern` of words")
    places = [one if isinstance(one, list) else [one] for one in pattern]
    if not all(isinstance(word, str) and word for words in places for word in words):
        raise ValueError("a word of a rule's `pattern` is not text")
    for words in itertools.islice(itertools.product(*places), _MAX_RULES):
        if action != "allow":
            words = tuple(re.sub(r"[^\w@%+=,./-]+", "*", word) for word in words)
        elif not all(map(_PLAIN.fullmatch, words)):
            continue
        yield parse_rule(f"{SHELL}({' '.join(words)}:*)", action, source)
