"""Decides the oracle's cases as this project does, from the same files, and compares the two."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import yaml

from swarm.capabilities.context.instructions import load_instructions
from swarm.capabilities.context.nested import find_reached, render_reached
from swarm.capabilities.skills.model import Skills
from swarm.capabilities.skills.places import load_skills
from swarm.core.errors import ToolError
from swarm.definitions.tools import row_of
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.sources import PermissionSettings, load_permission_settings
from swarm.workspace.paths import resolve_path
from tests.oracle.world import (
    ANSWERS,
    HERE,
    READS,
    Case,
    build_texts,
    build_world,
    find_marks,
    list_cases,
    make_input,
    read_sets,
    two_folders,
)

SEVERITY = {"allow": 0, "look": 1, "ask": 1, "deny": 2}
"""How much a decision restricts. A look changes nothing, and a person is asked if it is not enough."""


def decide_set(name: str) -> dict[Case, str]:
    """Return our decisions about the cases of a set, on a host without a sandbox."""
    with two_folders() as (workspace, home), patch.dict(os.environ, {"HOME": str(home)}):
        build_world(workspace, home, name)
        loaded = load_permission_settings(workspace, home, trusted=True)
        skills = load_skills(workspace, home, trusted=True)
        return {case: _decide(case, workspace, home, loaded, skills) for case in list_cases(name)}


def _decide(case: Case, workspace: Path, home: Path, loaded: PermissionSettings, skills: Skills) -> str:
    given, row = make_input(case, workspace, home), row_of(case.tool)
    verdict = judge(
        JudgedCall(
            tool=case.tool,
            given=given,
            rules=loaded.rules,
            mode=loaded.default_mode or "default",
            workspace=workspace,
            sandboxed=False,
            names=skills.names_of(row, given),
        )
    )
    try:
        if row.matching in ("read", "edited"):
            resolve_path(workspace, given["file_path"])
    except ToolError:
        return "deny"  # the tools themselves use no file outside
    return "look" if verdict.look else verdict.action


def give_texts() -> dict[str, list[str]]:
    """Return the marks of the texts that our agents are given, by occasion."""
    with two_folders() as (workspace, home), patch.dict(os.environ, {"HOME": str(home)}):
        build_texts(workspace, home)
        known = load_instructions(workspace, home, managed=home / "none")
        skills = load_skills(workspace, home, trusted=True).for_model()
        begun = " ".join([known.text, *(skill.description for skill in skills)])
        given = {source.name for source in known.sources}
        found = {"begun": find_marks(begun)}
        for name, path in READS.items():
            if path is not None:
                parts = find_reached(workspace, workspace / path, known, given, may_read=lambda _: True)
                found[name] = find_marks(render_reached(parts)) - found["begun"]
        return {name: sorted(marks) for name, marks in found.items()}


class Difference(NamedTuple):
    """A case that the two decide otherwise."""

    case: Case
    there: str
    here: str

    @property
    def name(self) -> str:
        """The case in `differences.yaml`."""
        return f"{self.case.set}: {self.case.subject}"

    @property
    def is_weaker(self) -> bool:
        """Whether ours restricts less. A mode that asks nothing denies only what a look does not do."""
        by_mode = self.here == "look" and read_sets()[self.case.set].get("defaultMode") == "dontAsk"
        return SEVERITY[self.here] < SEVERITY[self.there] and not by_mode


@cache
def read_answers() -> Mapping[str, Any]:
    """Read the oracle's answers."""
    return json.loads(ANSWERS.read_text())


@cache
def read_reasons() -> Mapping[str, list[str]]:
    """Read the reasons of the differences, each with its cases."""
    return yaml.safe_load((HERE / "differences.yaml").read_text())


@cache
def find_differences() -> tuple[Difference, ...]:
    """Compare all decisions. A look instead of leave, or of a question, is no difference."""
    answers = read_answers()["rules"]
    pairs = [
        Difference(case, answers[case.set][case.tool][case.subject], here)
        for name in read_sets()
        for case, here in decide_set(name).items()
    ]
    return tuple(one for one in pairs if one.there != one.here and (one.here, one.there) not in _AS_GOOD)


_AS_GOOD = (("look", "allow"), ("look", "ask"))


def render_differences() -> str:
    """Render the differences as a table, for people who come from there."""
    by_name: dict[str, list[Difference]] = {}
    for one in find_differences():
        by_name.setdefault(one.name, []).append(one)
    count = sum(len(subjects) for tools in read_answers()["rules"].values() for subjects in tools.values())
    rows = [
        f"Of {count} calls, each judged by Claude Code {read_answers()['version']} and here under the same rules:",
        "",
    ]
    rows += ["| difference | for example | there | here |", "|---|---|---|---|"]
    for reason, names in read_reasons().items():
        first = by_name[names[0]][0]
        shown = f"{first.case.tool} {first.case.subject}".replace("|", "\\|")
        rows.append(f"| {reason} ({len(names)}) | `{shown}` | {first.there} | {first.here} |")
    return "\n".join(rows)
