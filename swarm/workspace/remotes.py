"""Repositories at other places: what their servers answer, and one copy of each per host that jobs share.

`.repositories/MARK` below the checkouts holds the objects of one repository. A job's store gets its files of objects as further names
of the same files, so it can be removed at any time. Git's settings are the runtime's; a token goes to the repository's own site only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from swarm.core.errors import GitFailed, NoSuchRef
from swarm.core.settings import Settings
from swarm.workspace.git_command import OBJECT_ID, SiteToken, call_git, form_of, has_commit, locked, make_git_folder
from swarm.workspace.inner import link_objects, mark_shallow
from swarm.workspace.origin import Standing, list_tags
from swarm.workspace.repository import Repository
from swarm.workspace.sites import LOCAL, Site

FOLDER = ".repositories"
UNUSED_SECONDS = 7 * 86_400.0
FETCH_SECONDS = 1_800.0
ASK_SECONDS = 30.0
_RECEIVE = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true -c receive.autogc=false "
    "-c receive.denyCurrentBranch=refuse receive-pack"
)
"""Git's other side of a push to a path. It runs as the worker, so it must start no program that the repository names."""
_COMMIT = re.compile(OBJECT_ID)
_GONE = re.compile(r"not found|does not appear to be a git repository|does not exist|error: 404")
_PATH = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.M)
_LFS = re.compile(r"^\s*([^#\s]\S*)\s.*\bfilter=lfs\b", re.M)
_MOST_NAMED = 10
Answer = TypeVar("Answer")


# -- what a server answers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The present commit of a ref of a repository."""

    commit: str
    target: str
    """The branch that a pull request is for: the one that was named, else the default one."""


def resolve(url: str, ref: str, site: Site, *, seconds: float = ASK_SECONDS) -> Found:
    """Ask a repository for a branch, a tag or a commit; without a ref, for its default branch. Raises `GitFailed`."""
    named = [f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"] if ref else []
    refs, default = _list_refs(url, ["HEAD", *named], site, seconds)
    if not ref:
        if not (commit := refs.get("HEAD", "")):
            raise GitFailed(f"{url} has no commit yet; push a first one", "missing")
        return Found(commit, default)
    if commit := refs.get(f"refs/heads/{ref}", ""):
        return Found(commit, ref)
    if commit := refs.get(f"refs/tags/{ref}^{{}}") or refs.get(f"refs/tags/{ref}", ""):
        return Found(commit, default)
    if _COMMIT.fullmatch(ref):
        return Found(ref, default)
    raise NoSuchRef(url, ref)


def find_branch(url: str, branch: str, site: Site) -> str:
    """Return the commit of a branch; empty if it does not exist. Raises `GitFailed`."""
    return _list_refs(url, [f"refs/heads/{branch}"], site, ASK_SECONDS)[0].get(f"refs/heads/{branch}", "")


def _list_refs(url: str, patterns: list[str], site: Site, seconds: float) -> tuple[dict[str, str], str]:
    words = ["ls-remote", "--symref", "-q", url, *patterns]
    listed = _reach(lambda: call_git(Path("/"), words, token=token_for(site), seconds=seconds)[1], url, site)
    refs, default = dict[str, str](), ""
    for line in listed.decode("utf-8", "replace").splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            default = value.removeprefix("ref: refs/heads/")
        elif _COMMIT.fullmatch(value):
            refs[name] = value
    return refs, default


def token_for(site: Site) -> SiteToken | None:
    secret = site.secret
    return SiteToken(f"{site.origin}/", site.user, secret) if secret else None


def _reach(act: Callable[[], Answer], url: str, site: Site) -> Answer:
    """Do something at a repository, and explain a failure in one sentence."""
    try:
        return act()
    except GitFailed as error:
        trouble = "missing" if error.trouble == "away" and _GONE.search(str(error)) else error.trouble
        told = {
            "denied": f"{site.name} refuses access to {url}: {site.lack}",
            "missing": f"{url} is not there, or not for this worker: {site.lack}",
        }.get(trouble, f"{url} cannot be reached: {error}")
        raise GitFailed(told, trouble) from error


# -- a job's beginning ---------------------------------------------------------------------------------------


def fetch_beginning(
    settings: Settings, repository: Repository, url: str, found: Found, ref: str, site: Site
) -> Standing:
    """Bring a commit with its history into a job's store; returns where the history stands. Raises `GitFailed`."""
    place = settings.checkouts_folder() / FOLDER / hashlib.sha256(url.encode()).hexdigest()[:32]
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (place / "objects").exists():
            make_git_folder(place, form_of(found.commit))
    except OSError as error:
        raise GitFailed(f"{place} cannot be made: {error}", "failed") from error
    with locked(place):
        os.utime(place)
        if not has_commit(place, found.commit):
            _fetch(place, url, found.commit, ref, site, settings.history_depth)
        shallow = (place / "shallow").read_text() if (place / "shallow").exists() else ""
        store = (repository.git_dir / "objects").resolve()
        try:
            link_objects(place / "objects", store)
        except OSError as error:
            raise GitFailed(f"objects cannot be linked from {place} to {store}: {error}", "failed") from error
        if shallow:
            mark_shallow(repository.git_dir, shallow)
        branch = f"refs/heads/{found.target or 'main'}"
        tags = list_tags(lambda *words: call_git(place, words)[1], found.commit)
        return Standing(f"ref: {branch}", {branch: found.commit}, tags, shallow=shallow)


def _fetch(place: Path, url: str, commit: str, ref: str, site: Site, depth: int) -> None:
    for wanted in dict.fromkeys([*([f"refs/heads/{ref}", f"refs/tags/{ref}"] if ref else ["HEAD"]), commit]):
        words = ["fetch", "-q", "--no-write-fetch-head", "--no-auto-gc", *([f"--depth={depth}"] if depth else [])]
        mark = hashlib.sha256(wanted.encode()).hexdigest()[:16]
        words += [url, f"+{wanted}:refs/swarm/{mark}"]
        try:
            _reach(lambda w=words: call_git(place, w, token=token_for(site), seconds=FETCH_SECONDS), url, site)  # type: ignore[misc]
        except GitFailed as error:
            if error.trouble != "missing" or wanted == commit:
                raise
        if has_commit(place, commit):
            return


def begin(repository: Repository, standing: Standing, about: Mapping[str, str]) -> str:
    """Commit the files of a history's head as the beginning of a job. Raises `GitFailed`."""
    tree = repository.tree_of(standing.commit)
    return repository.commit_tree(tree, standing.tips, {**about, "git": standing.as_record()})


def find_lack(repository: Repository, commit: str) -> str:
    """Say which contents of a commit are not fetched: those of submodules, and of files of Git LFS. Empty if it has none."""
    lacks = []
    if modules := _PATH.findall(_read_setting(repository, commit, ".gitmodules")):
        lacks.append(f"submodules stay empty: {', '.join(modules[:_MOST_NAMED])}")
    if patterns := _LFS.findall(_read_setting(repository, commit, ".gitattributes")):
        lacks.append(f"files of Git LFS are their pointers: {', '.join(patterns[:_MOST_NAMED])}")
    return "; ".join(lacks)


def _read_setting(repository: Repository, commit: str, path: str) -> str:
    found = call_git(repository.git_dir, ["cat-file", "blob", f"{commit}:{path}"], accept=(0, 128))[1]
    return found.decode("utf-8", "replace")


def remove_repositories(checkouts: Path, *, every: bool) -> None:
    """Remove the copies that no new job has used for a week, or every one."""
    for place in (checkouts / FOLDER).glob("*"):
        with suppress(OSError, GitFailed):
            if every or time.time() - place.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(place, ignore_errors=True)


# -- a job's end ---------------------------------------------------------------------------------------------


def push_branch(git_dir: Path, url: str, commit: str, branch: str, expected: str, site: Site) -> None:
    """Make a branch, or move it from the `expected` commit; empty: it must not exist. Raises `GitFailed`: `refused` if it moved."""
    ref = f"refs/heads/{branch}"
    words = ["push", "-q", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{expected}"]
    words += [*([f"--receive-pack={_RECEIVE}"] if site.name == LOCAL else []), url, f"{commit}:{ref}"]
    try:
        call_git(git_dir, words, token=token_for(site), seconds=FETCH_SECONDS)
    except GitFailed as error:
        told = str(error)
        if re.search(r"stale info|fetch first|cannot lock ref|reference already exists", told):
            raise GitFailed(f"the branch {branch} has changed meanwhile", "refused") from error
        if "protected branch" in told or "GH006" in told:
            raise GitFailed(f"the branch {branch} is protected; choose another name with --branch", "failed") from error
        if error.trouble == "denied":
            raise GitFailed(f"{site.name} refuses the push to {url}: {site.lack}", "denied") from error
        if re.search(r"\[remote rejected\]|pre-receive hook declined", told):
            raise GitFailed(f"{site.name} refuses the branch {branch}: {told}", "failed") from error
        raise
