"""`swarm diff` and `swarm apply`: show and apply the changes of agents that work on copies."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from swarm.cli.completion import complete_agent
from swarm.cli.diff import show_comparison
from swarm.cli.lookup import find_agent, open_swarm
from swarm.cli.options import JsonOption
from swarm.cli.output import print_bytes, print_json, print_line, print_note, show_number
from swarm.cli.prompter import open_terminal
from swarm.client.swarm import Job
from swarm.client.work import Applied, Work, accept_all
from swarm.core.errors import GitFailed, NoWork, SwarmError
from swarm.core.records import JobView

AgentArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB|AGENT]",
        autocompletion=complete_agent,
        help="A job (its merged work) or an agent. Default: the newest job.",
    ),
]


def show_diff(
    agent: AgentArgument = None,
    other: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="A second job: show how the two differ, instead.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Show one line per file, not the patch.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a job's or agent's changes in its copy of the workspace; for two jobs, where and how they part.

    Unmerged work of an agent can be shown, too: it is kept as long as its job.
    """
    if other is not None:
        return show_comparison(agent or "", other, as_json=as_json)
    with open_swarm() as swarm:
        work = swarm.work(find_agent(swarm, agent))
        print_bytes(work.diff(stat=stat))


def apply_work(
    agent: AgentArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show the changes without making them.")] = False,
    branch: Annotated[
        bool, typer.Option("--branch", help="Make a branch swarm/JOB, and leave the folder unchanged.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="For conflicts: merge (both, marked), ours (yours), theirs (job's).",
        ),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Apply to this folder, such as another clone.", file_okay=False)
    ] = None,
    pick: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Apply only this file or folder; repeatable.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last apply back.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply risky files without a question: see below.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Apply a job's changes in its copy to the workspace; changes made there meanwhile are merged, never overwritten.

    It can be repeated: files that were undone since are changed again, others stay as they are. --undo keeps later changes.

    Links that lead out of the workspace, and files that programs outside of the sandbox obey (settings of editors, git and agents),
    are listed, and you are asked. Without a terminal they are left out and named, unless --yes is given.

    Exit code 1, with nothing changed, after a conflict or if an untracked file is in the way.
    """
    _check_options(strategy, undo=undo, pick=bool(pick), branch=branch)
    with open_swarm() as swarm, contextlib.ExitStack() as opened:
        work = swarm.work(find_agent(swarm, agent))
        work = work if into is None else work.into(into)
        if branch:
            return _make_branch(work, as_json=as_json)
        terminal = None if as_json or dry_run else open_terminal(opened)
        if undo:
            applied = work.undo(strategy, dry_run=dry_run)  # type: ignore[arg-type]
        else:
            accept = accept_all if yes else partial(_ask, terminal)
            applied = work.apply(strategy, pick=pick or (), dry_run=dry_run, accept=accept)  # type: ignore[arg-type]
    if as_json:
        print_json({"folder": str(work.folder), "dry_run": dry_run, **vars(applied)})
    else:
        _tell(work, applied, strategy, undo=undo, dry_run=dry_run)
    if applied.conflicts or applied.in_the_way:
        raise typer.Exit(1)


def _check_options(strategy: str | None, *, undo: bool, pick: bool, branch: bool) -> None:
    if strategy not in (None, "merge", "ours", "theirs"):
        raise typer.BadParameter("merge, ours or theirs", param_hint="--strategy")
    if undo + pick + branch > 1:
        raise typer.BadParameter("only one of --undo, --pick and --branch can be given")


def _make_branch(work: Work, *, as_json: bool) -> None:
    name = work.make_branch()
    for path, why in {**work.find_arrivals(), **work.find_lfs_files()}.items():
        print_note(f"the branch has {path}: {why}")
    print_json({"branch": name}) if as_json else print_line(name)


def _ask(terminal: TextIO | None, found: Mapping[str, str]) -> bool:
    """Whether the person accepts these paths, too; False without a terminal."""
    if terminal is None:
        return False
    print_note("Files that could do harm in your folder:")
    for path, why in sorted(found.items()):
        print_note(f"  {path}  ({why})")
    print_note("`swarm diff` shows them. Apply them, too? [y]es, anything else: leave them out")
    return terminal.readline().strip().lower() in ("y", "yes")


def _tell(work: Work, applied: Applied, strategy: str | None, *, undo: bool, dry_run: bool) -> None:
    for path, kind in sorted(applied.changed.items()):
        print_line(f"{kind} {path}")
    _tell_left_out(work, applied)
    if applied.conflicts:
        print_line(applied.conflicts)
        what = "these files cannot hold both versions" if strategy == "merge" else "there are conflicts"
        how = "--pick FILE with --strategy ours or theirs" if strategy == "merge" else "--strategy or --branch"
        how = (
            "--strategy ours, which keeps your versions, or theirs, which takes these files back, too" if undo else how
        )
        print_note(f"nothing was changed in {work.folder}: {what}; use {how}")
    elif applied.in_the_way:
        print_note(f"nothing was changed: untracked files are in the way: {', '.join(applied.in_the_way)}")
    elif not applied.changed:
        print_note(f"{work.folder} has all {'else' if applied.left_out else 'of it'} already")
    elif not dry_run:
        print_note(f"{show_number(len(applied.changed), 'file')} changed in {work.folder}")


def _tell_left_out(work: Work, applied: Applied) -> None:
    for path, why in sorted(applied.left_out.items()):
        print_note(f"left out: {path}  ({why})")
    if applied.left_out:
        print_note(f"`swarm apply {work.job.id}` asks about these files, and applies them with --yes")


def bring_home(job: Job, *, completed: bool, quiet: bool) -> None:
    """After a watched job, apply its work if that touches none of the person's changes; else say where it is."""
    try:
        work = job.work()
        changed = work.changes
        if not changed:
            return
        if not completed:
            print_note(
                f"the changes are not in {work.folder}: `swarm diff {job.id}` shows them, `swarm apply {job.id}` merges them"
            )
        elif not work.is_folder_as_it_was():
            print_note(f"{work.folder} has changed meanwhile: `swarm apply {job.id}` merges the job's changes")
        else:
            applied = work.apply()
            if applied.changed and not quiet:
                print_note(
                    f"{show_number(len(applied.changed), 'file')} changed in {work.folder}; `swarm diff {job.id} --stat`"
                )
            _tell_left_out(work, applied)
    except NoWork:
        return
    except (GitFailed, SwarmError) as error:
        print_note(f"the changes could not be applied ({error}); `swarm apply {job.id}` tries again")


def tell_push(view: JobView) -> None:
    """Print where the work of a job from a repository is."""
    if view.branch:
        print_note(f"the work is in the branch {view.branch}{f': {view.pull_request}' if view.pull_request else ''}")
    elif view.state == "completed" and not view.unpushed:
        print_note("no file was changed, so no branch was made")
    elif view.state != "completed":
        print_note(f"nothing was pushed: `swarm diff {view.id}` shows what there is, `swarm send {view.id}` goes on")
    if view.unpushed:
        print_note(view.unpushed)
