"""The commands of a session: a few about its job, and the commands and skills of its folder, which begin a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from swarm.client.project import gather
from swarm.client.swarm import Swarm
from swarm.client.work import Accept, Applied, Work
from swarm.core.errors import NoWork

_SHOWN_PATCH = 40_000


class EditorCommand(NamedTuple):
    """A command that a person may type."""

    name: str
    about: str
    hint: str = ""

    def show(self) -> dict[str, Any]:
        """Return it as the protocol has it."""
        told: dict[str, Any] = {"name": self.name, "description": self.about or self.name}
        return {**told, "input": {"hint": self.hint}} if self.hint else told


APPLY, DIFF, COMPACT = "apply", "diff", "compact"
OWN = (
    EditorCommand(APPLY, "Bring the job's changes from its copy into your folder", "files; default: all"),
    EditorCommand(DIFF, "Show the job's changes in its copy"),
    EditorCommand(COMPACT, "Summarize the conversation before the next turn", "main subject"),
)
"""Commands about the session's job."""


def list_commands(swarm: Swarm, folder: str) -> list[EditorCommand]:
    """List the commands and skills of a folder, which a first message may call."""
    parts = gather(Path(folder), swarm.settings).parts.values()
    return [EditorCommand(one.name, one.about, one.hint) for part in parts for one in part.commands()]


def find_command(text: str) -> tuple[str, Sequence[str]]:
    """Return the command about the job that a message calls, and its words; an empty name if it calls none."""
    name, *words = text.split() or [""]
    return (name[1:], words) if name[:1] == "/" and name[1:] in {one.name for one in OWN} else ("", ())


def apply_work(swarm: Swarm, job_id: str, folder: str, pick: Sequence[str], accept: Accept) -> str:
    """Bring a job's work into its folder, or into the editor's if that one is elsewhere; return an account. Raises `GitFailed`."""
    try:
        work = _find_work(swarm, job_id, folder)
    except NoWork as error:
        return str(error)
    return describe_applied(work.folder, work.apply(pick=pick, accept=accept))


def show_work(swarm: Swarm, job_id: str, folder: str) -> str:
    """Return a job's changes as a patch. Raises `GitFailed`."""
    try:
        patch = _find_work(swarm, job_id, folder).diff().decode(errors="replace")
    except NoWork as error:
        return str(error)
    if not patch.strip():
        return "The job has changed no file."
    rest = len(patch) - _SHOWN_PATCH
    more = f"\n{rest:,} characters more: `swarm diff {job_id}`" if rest > 0 else ""
    return f"````diff\n{patch[:_SHOWN_PATCH].rstrip()}\n````{more}"


def _find_work(swarm: Swarm, job_id: str, folder: str) -> Work:
    work = swarm.job(job_id).work()
    return work if work.folder.is_dir() else work.into(Path(folder))


def describe_applied(folder: Path, applied: Applied) -> str:
    """Describe the fate of the work in a folder."""
    if applied.conflicts:
        told = f"Nothing was changed in {folder}, because there are conflicts:"
        return f"{told}\n\n````\n{applied.conflicts}\n````\n`swarm apply` resolves them."
    if applied.in_the_way:
        return f"Nothing was changed: files that Git does not know are in the way: {', '.join(applied.in_the_way)}"
    lines = [f"- `{path}` ({kind})" for path, kind in sorted(applied.changed.items())]
    lines += [f"- left out: `{path}` ({why})" for path, why in sorted(applied.left_out.items())]
    if not applied.changed:
        return "\n".join([f"{folder} has all {'else' if applied.left_out else 'of it'} already.", *lines])
    number = len(applied.changed)
    return "\n".join([f"{number} {'file' if number == 1 else 'files'} changed in {folder}:", *lines])
