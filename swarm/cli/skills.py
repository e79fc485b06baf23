"""`swarm skills`: list a workspace's skills and commands with their users, or print one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from swarm.capabilities.skills.model import Package, Skill, Skills
from swarm.capabilities.skills.places import load_skills
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import one_line, plain, print_json, print_line, print_note
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.project import is_trusted
from swarm.core.errors import ConfigurationError
from swarm.core.settings import load_settings
from swarm.definitions.catalogue import load_catalogue


def show_skills(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Skill or command to print.")] = None,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """List skills and commands, or print one.

    Agents load skills when they need them; people call the ones that begin with `/`: swarm run "/name arguments".
    """
    folder = find_workspace(workspace)
    trusted = is_trusted(folder, load_settings())
    skills = load_skills(folder, trusted=trusted)
    if name is not None:
        _print_one(skills, name, as_json=as_json)
        return
    if as_json:
        problems = [problem.model_dump() for problem in skills.problems]
        print_json({"skills": [one.model_dump() for one in skills.skills], "problems": problems})
    else:
        _SKILLS.show(skills.skills)
    for grant in () if trusted else skills.grants:
        print_note(
            f"not trusted: {grant.text} ({grant.source}); `swarm trust {shlex.quote(str(folder))}` lets it count"
        )
    for source, by in skills.hidden:
        print_note(f"hidden: {plain(source)}, by {plain(by)}")
    for one in skills.skills:
        for note in one.notes:
            print_note(f"note: {plain(one.source)}: {note}")
    for problem in skills.problems:
        print_note(f"problem: {problem}")
    for definition in load_catalogue(folder, trusted=trusted).definitions.values():
        for wanted in definition.skills:
            if skills.find(wanted) is None:
                print_note(f"note: the type {definition.name} names the skill {plain(wanted)}, which does not exist")


def _users(skill: Skill) -> str:
    return " and ".join(filter(None, ["people" * skill.by_person, "agents" * skill.by_model])) or "nobody"


_SKILLS = Listing[Skill](
    Column("name", lambda one: f"{'/' * one.by_person}{one.name} {one.hint}"),
    Column("for", _users, drop=2),
    Column("bytes", lambda one: f"{one.size:,}", right=True, drop=4),
    Column("files", lambda one: one.files, right=True, drop=4),
    Column("source", lambda one: one.source, drop=3),
    Column("about", lambda one: one_line(one.description, 300), drop=5, flexible=True),
    otherwise="there are none here; put skills into .claude/skills/NAME/SKILL.md, commands in .claude/commands/NAME.md",
)


def _print_one(skills: Skills, name: str, *, as_json: bool) -> None:
    found = skills.find(name)
    if found is None:
        near = ", ".join(skills.near(name)) or "`swarm skills` lists them"
        raise ConfigurationError(f"there is no skill or command {name!r} here ({near})")
    package = Package.model_validate_json(skills.packages[found.digest])
    if as_json:
        print_json({**found.model_dump(), "body": package.body, "paths": list(package.files)})
        return
    print_line(plain(package.body))
    print_note(f"{found.kind} {found.name} of {plain(found.source)}, sha256 {found.digest[:12]}")
    for path in package.files:
        print_note(f"file: {plain(path)}")
    for path in package.left_out:
        print_note(f"left out: {plain(path)}")
