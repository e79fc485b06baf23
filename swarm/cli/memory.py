"""`swarm memory`: read, correct, export, import and remove what agents remember across jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer
from click import edit

from swarm.capabilities.memory.files import read_folder, take_in, write_folder
from swarm.capabilities.memory.mounts import ROOT, read_path, title_of
from swarm.capabilities.memory.pages import Author, Memories, PageView, Version
from swarm.capabilities.memory.revert import take_back
from swarm.cli.lookup import find_job, open_swarm
from swarm.cli.options import JsonOption, WorkspaceOption
from swarm.cli.output import print_json, print_line, print_note, print_result, show_number, show_since
from swarm.cli.tables import Column, Listing
from swarm.client.preparation import find_workspace
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError, ToolError, UnknownAgent
from swarm.core.secrets import strip_secrets
from swarm.definitions.memory_stores import MemoryStore, find_places
from swarm.definitions.model import MemoryScope

group = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)
_HELP = "A memory store's id or prefix (`swarm memory list`), or this workspace's: project:TYPE, local:TYPE, user:TYPE, team."
MemoryStoreArgument = Annotated[str, typer.Argument(metavar="MEMORY_STORE", help=_HELP)]
PageArgument = Annotated[str, typer.Argument(metavar="PAGE", help="A page, such as notes/api.md.")]


@group.callback()
def memory() -> None:
    """Show, correct, export, import and remove what agents remember across jobs."""


@group.command("list")
def list_memory(
    memory_store: Annotated[str | None, typer.Argument(metavar="[SHELF]", help=_HELP)] = None,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """List the memory stores, or the pages of one."""
    with open_swarm() as swarm:
        memories = Memories(swarm.store.keyspace)
        if memory_store is not None:
            _PAGES.show(memories.pages(_find(swarm, memory_store, workspace)), as_json=as_json)
            return
        found = [(each, memories.pages(each)) for each in memories.memory_stores()]
    _MEMORY_STORES.show(found, as_json=as_json)


@group.command("show")
def show_memory(
    memory_store: MemoryStoreArgument,
    page: PageArgument,
    versions: Annotated[bool, typer.Option("--versions", help="List its versions instead.")] = False,
    workspace: WorkspaceOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Print a page, or the authors of its versions."""
    with open_swarm() as swarm:
        memories, found = Memories(swarm.store.keyspace), _find(swarm, memory_store, workspace)
        name = _page(page)
        kept = memories.versions(found, name)
        current = memories.read(found, name)
    if versions:
        _VERSIONS.show(kept, as_json=as_json)
    elif current is None:
        raise ConfigurationError(f"{found.id} has no page {name!r}; `swarm memory list {found.id}` lists them")
    elif as_json:
        print_json({**current[0].model_dump(), "text": current[1]})
    else:
        print_result(current[1])


@group.command("edit")
def edit_memory(
    memory_store: MemoryStoreArgument,
    page: PageArgument,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Read the text from a file (- is stdin), not an editor."),
    ] = None,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Edit or create a page in your editor; refused if an agent changes it meanwhile."""
    with open_swarm() as swarm:
        memories, found, name = Memories(swarm.store.keyspace), _find(swarm, memory_store, workspace), _page(page)
        current = memories.read(found, name)
        before = current[1] if current else ""
        text = _edit(before, file)
        if text is None or text == before:
            print_note("nothing was changed")
            return
        text, removed = strip_secrets(text)
        seen = current[0].version if current else 0
        done = memories.change(found, "write", name, Author(), text=text, if_version=seen)
    if removed:
        print_note(f"{show_number(removed, 'value')} that looked like secrets were left out")
    print_note(f"{found.id} {name} has version {done['version']} now")


@group.command("export")
def export_memory(
    memory_store: MemoryStoreArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Target, such as .claude/agent-memory/TYPE.")],
    workspace: WorkspaceOption = Path(),
) -> None:
    """Write the pages of a memory store as files, to read or commit."""
    with open_swarm() as swarm:
        written = write_folder(Memories(swarm.store.keyspace), _find(swarm, memory_store, workspace), folder)
    for path in written:
        print_line(str(path))


@group.command("import")
def import_memory(
    memory_store: MemoryStoreArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder whose .md and .txt files become pages.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also replace pages changed since the export.")
    ] = False,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Import files as pages; pages changed here since their export are kept."""
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder")
    with open_swarm() as swarm:
        found = _find(swarm, memory_store, workspace)
        taken, problems = take_in(Memories(swarm.store.keyspace), read_folder(folder, found), overwrite=overwrite)
    for page in taken:
        print_line(page)
    for problem in problems:
        print_note(f"note: {problem}")
    print_note(f"{show_number(len(taken), 'page')} of {found.id} imported")


@group.command("forget")
def forget(
    memory_store: Annotated[str | None, typer.Argument(metavar="[SHELF]", help=_HELP)] = None,
    page: Annotated[str | None, typer.Argument(metavar="[PAGE]", help="Remove only this page.")] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Undo only this job's changes, in all memory stores."),
    ] = None,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Undo a job's changes; or remove a page, or a memory store, with all its versions."""
    if (job is None) == (memory_store is None):
        raise typer.BadParameter("name a memory store, or a job with --job")
    with open_swarm() as swarm:
        memories = Memories(swarm.store.keyspace)
        if memory_store is not None:
            found = _find(swarm, memory_store, workspace)
            name = "" if page is None else _page(page)
            if name and name not in memories.logged(found):
                raise ConfigurationError(f"{found.id} has no page {name!r}; `swarm memory list {found.id}` lists them")
            memories.purge(found, name)
            print_note(f"forgotten: {found.id} {name}".rstrip())
            return
        changed = take_back(memories, _job_id(swarm, str(job)))
    for each, changed_page in changed:
        print_line(f"{each.id} {changed_page}")
    print_note(
        f"{show_number(len(changed), 'page')} changed; `swarm memory show MEMORY_STORE PAGE --versions` shows them"
    )


def _job_id(swarm: Swarm, job: str) -> str:
    try:
        return find_job(swarm, job).id
    except UnknownAgent:
        # Memory outlives job records; an expired job needs its full id.
        return job


def _find(swarm: Swarm, text: str, workspace: Path) -> MemoryStore:
    known = Memories(swarm.store.keyspace).memory_stores()
    matches = [memory_store for memory_store in known if memory_store.id == text] or [
        memory_store for memory_store in known if memory_store.id.startswith(text)
    ]
    scope, _, kind = text.partition(":")
    if len(matches) != 1 and scope in get_args(MemoryScope) and (kind or scope == "team"):
        places = find_places(find_workspace(workspace), swarm.settings.memory_owner)
        short = places.memory_store(scope, kind)  # type: ignore[arg-type]
        matches = [short] if not matches or short in known else matches
    if len(matches) == 1:
        return matches[0]
    found = ", ".join(memory_store.id for memory_store in matches[:4])
    raise ConfigurationError(
        f"{text!r} could be {found}"
        if matches
        else f"there is no memory store {text!r}; `swarm memory list` lists them"
    )


def _page(page: str) -> str:
    try:
        return read_path(page if page.startswith(f"{ROOT}/") else f"{ROOT}/{page}")
    except ToolError as error:
        raise ConfigurationError(str(error)) from error


def _edit(before: str, file: Path | None) -> str | None:
    if file is None:
        return edit(before, extension=".md")
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error


_MEMORY_STORES = Listing[tuple[MemoryStore, Sequence[PageView]]](
    Column("memory_store", lambda row: row[0].id),
    Column("pages", lambda row: len(row[1]), right=True),
    Column("bytes", lambda row: f"{sum(page.size for page in row[1]):,}", right=True, drop=1),
    Column("changed", lambda row: show_since(max(page.at for page in row[1])) if row[1] else "", drop=2),
    Column("of", lambda row: row[0].about, drop=3, flexible=True),
    otherwise="there is no memory yet; agents whose definition has `memory:` write pages",
    describe=lambda row: {"id": row[0].id, **row[0].model_dump(), "pages": len(row[1])},
)
_PAGES = Listing[PageView](
    Column("page", lambda page: page.name),
    Column("bytes", lambda page: f"{page.size:,}", right=True, drop=1),
    Column("version", lambda page: page.version, right=True, drop=3),
    Column("changed", lambda page: show_since(page.at), drop=2),
    Column("by", lambda page: page.by, drop=4),
    Column("about", lambda page: title_of(page.head), flexible=True),
    otherwise="there are no pages",
)
_VERSIONS = Listing[Version](
    Column("version", lambda version: version.version, right=True),
    Column("change", lambda version: version.op),
    Column("by", lambda version: version.by),
    Column("job", lambda version: version.job, drop=1),
    Column("when", lambda version: show_since(version.at), drop=2),
)
