"""An agent's work as a branch of the person's repository. Its index, hooks and working tree are not used.

The branch stands on the commit that was checked out at the job's start.
"""

from __future__ import annotations

from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.workspace.git import run_git
from swarm.workspace.git_command import call_git, form_of
from swarm.workspace.inner import take_history
from swarm.workspace.origin import Standing, find_form, find_git
from swarm.workspace.result import Result

_FETCH = ("-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")


def make_branch(result: Result, name: str, ref: str) -> str:
    """Make a branch of the work in the repository of its folder; `ref` keeps the commit in the job's store. Returns the name.

    Raises `ConfigurationError` if there is no repository, or the branch exists with different contents.
    """
    repository, store = result.repository, result.copies.store
    folder = repository.tree
    git = find_git(folder)
    if git is None:
        raise ConfigurationError(f"{folder} is in no Git repository, so no branch can be made; omit --branch")
    if (form := find_form(folder)) != form_of(result.base):
        raise ConfigurationError(f"{folder} has {form} commits, and the job's are of another form; omit --branch")
    inner = str(folder.relative_to(git.top))
    head, ended = result.history
    if inner != ".":
        head = ended = _ask(folder, "rev-list", "-1", f"--before=@{int(result.job.created_at)}", "HEAD") or head
        take_history(repository.git_dir, git, Standing(head))
    commit = result.put_on(head, ended, "" if inner == "." else f"{inner}/")
    call_git(store, ["update-ref", ref, commit])
    there = _ask(folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}^{{tree}}")
    if there and there == repository.tree_of(commit):
        return name
    if there:
        raise ConfigurationError(f"the branch {name} exists with different contents; rename or delete it")
    _fetch(folder, store, f"{ref}:refs/heads/{name}", f"the branch {name} cannot be made")
    return name


def _fetch(folder: Path, store: Path, refspec: str, failure: str) -> None:
    given = {"protocol.file.allow": "always", "safe.directory": "*"}
    done = run_git(folder, ["fetch", *_FETCH, str(store), refspec], settings=given, timeout_seconds=600)
    if done.returncode:
        raise ConfigurationError(f"{failure}: {done.stderr.decode(errors='replace').strip()[-300:]}")


def _ask(folder: Path, *words: str) -> str:
    done = run_git(folder, words, settings={"safe.directory": "*"})
    return "" if done.returncode else done.stdout.decode(errors="replace").strip()
