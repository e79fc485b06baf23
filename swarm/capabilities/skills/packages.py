"""A job's skills on its workers: the index, the packages, and their files on this host for the shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from swarm.capabilities.skills.model import Package, Skill, Skills
from swarm.core.errors import ToolError
from swarm.definitions.carried_files import write_files
from swarm.store.documents import RecordT, read_once
from swarm.store.store import Store
from swarm.tools import ToolContext
from swarm.tools.processes import scratch_folder
from swarm.workspace import SKILL_PREFIX

FOLDER = "skills"
VARIABLE = SKILL_PREFIX.strip("$/")
"""The environment variable that holds their folder."""


def find_skills(store: Store, job_id: str) -> Skills:
    """Load the job's skills. Raises `UnreadableRecord`."""
    return load_skills(store, store.jobs.carried(job_id).get("skills", ""))


def load_skills(store: Store, digest: str) -> Skills:
    """Load the skills of an index; an empty digest has none. Raises `UnreadableRecord`."""
    return _read(store, digest, Skills) if digest else Skills()


def load_package(store: Store, skill: Skill) -> Package:
    """Load the text and the files of a skill. Raises `UnreadableRecord`."""
    return _read(store, skill.digest, Package)


def read_file(context: ToolContext, given: str) -> bytes:
    """Read a file by its path for agents, unless rules refuse its skill. Raises `ToolError`."""
    name, _, path = given.removeprefix(SKILL_PREFIX).partition("/")
    skill = find_skills(context.store, context.job_id).find(name)
    if skill is None:
        raise ToolError(f"there is no skill {name!r}")
    if refusal := context.refuse_skill(skill):
        raise ToolError(f"the skill {name}: {refusal}")
    package = load_package(context.store, skill)
    wanted = os.path.normpath(path) if path else ""
    if wanted not in package.files:
        known = ", ".join(list(package.files)[:40]) or "none"
        raise ToolError(f"the skill {name} has no file {path!r}; it has: {known}")
    return package.files[wanted].content()


def unpack(context: ToolContext, wanted: Sequence[Skill]) -> Path | None:
    """Unpack the files of these skills, read-only for the agent's commands; None if there are none."""
    if not wanted:
        return None
    # Outside the folder of its processes, where their links could lead elsewhere.
    root = scratch_folder(context) / FOLDER
    root.mkdir(mode=0o700, exist_ok=True)
    for skill in wanted:
        if not (root / skill.name).is_dir():
            write_files(load_package(context.store, skill).files, root / skill.name)
    return root.resolve()


def _read(store: Store, digest: str, kind: type[RecordT]) -> RecordT:
    return read_once(kind, digest, store.jobs.document, f"the document {digest[:12]} with skills of its job")
