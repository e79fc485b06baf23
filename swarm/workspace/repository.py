"""Commits of a workspace's files in the runtime's own git folder, which lies outside the workspace.

Guarantees:

- The workspace's `.git` is never written, and no program that its files or settings name is run. The same holds without git.
- A commit holds each file byte for byte (no line ends, no filters, no encodings), its executable bit, and symbolic links as
  such, under any name. It does not hold empty folders, files that the person's repository ignores, or files in
  `Snapshot.left_out`. Ignored files that `.worktreeinclude` names are held.
- The index is kept between calls, so a snapshot costs one look at each file and reads only changed ones.
- The next call can continue after a process died in the middle of one. Calls from several processes wait for each other.
- Everything raises `GitFailed` and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from swarm.core.errors import GitFailed, ToolError
from swarm.workspace.changes import Changes, LeftOut, is_empty, look, sort_changes
from swarm.workspace.files import opened_folder
from swarm.workspace.git_command import OBJECT_ID, Form, SiteToken, call_git, has_commit, locked, make_git_folder
from swarm.workspace.inner import make_inner
from swarm.workspace.large import LargeFiles, find_pointers, find_store, note_pointers
from swarm.workspace.origin import list_dirty, list_held, list_special, read_copy
from swarm.workspace.parts import REFETCH, fetch_parts, keep_parts, push_parts
from swarm.workspace.workspace_history import WorkspaceHistory

ROUNDS = 4
"""Most attempts of a snapshot while files change under it."""
SETTLE_SECONDS = 0.05
NETWORK_SECONDS = 120.0
INCLUDE_FILE = ".worktreeinclude"
"""Lists, in the syntax of `.gitignore`, ignored files that commits of a folder hold: `.env`, say."""
_ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding\n"
"""Overrides the workspace's own attributes: contents are kept as they are."""
_COMMIT = re.compile(OBJECT_ID)


@dataclass(frozen=True)
class Snapshot:
    """A snapshot's commit, or None if no file changed since the previous one."""

    commit: str | None
    left_out: list[LeftOut]
    """All files that the commit does not hold, whether or not they changed."""
    unsettled: list[str]
    """Files that changed while they were read: the commit may hold half of a write. The next snapshot reads them again."""


class Repository:
    """The git folder `git_dir` and the workspace `tree`, both absolute."""

    def __init__(self, git_dir: Path, tree: Path, *, owner: str = "") -> None:
        self.git_dir, self.tree, self._owner = git_dir, tree, owner
        self._tip_file = git_dir / "swarm-tip"
        self.history = WorkspaceHistory(git_dir, tree, is_copy=bool(owner))
        self._large = LargeFiles(git_dir, tree)

    @classmethod
    def make(cls, git_dir: Path, tree: Path, *, owner: str = "", form: Form = "sha1") -> Repository:
        """Open the repository; make it and the workspace's folder if missing. `owner` is the agent whose copy the workspace is.

        `form` is that of a new git folder, and of the objects that it borrows.

        Raises `GitFailed` if the workspace holds the git folder: a snapshot would hold itself.
        """
        if git_dir.is_relative_to(tree):
            raise GitFailed(f"{tree} holds {git_dir}, where its own snapshots would be kept", "failed")
        try:
            tree.mkdir(parents=True, exist_ok=True)
            git_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not (git_dir / "info/attributes").exists():
                make_git_folder(git_dir, form)
                (git_dir / "info").mkdir(exist_ok=True)
                # Written last: it marks the git folder as complete.
                (git_dir / "info/attributes").write_text(_ATTRIBUTES)
        except OSError as error:
            raise GitFailed(f"the git folder {git_dir} cannot be made: {error}", "failed") from error
        return cls(git_dir, tree, owner=owner)

    # -- the files -----------------------------------------------------------------------------------------

    def snapshot(self, previous: str | None, about: Mapping[str, Any], *, always: bool = False) -> Snapshot:
        """Commit the workspace as it is now, with the parent `previous`, if it has changed since then, or `always`.

        `about` becomes the commit's message, as JSON, with the files left out under `left_out`. Files that others write
        meanwhile are read again until they settle.
        """
        if previous is not None:
            _check_commit(previous)
        with locked(self.git_dir) as lock:
            try:
                return self._snapshot(previous, about, lock, always=always)
            except GitFailed as error:
                if previous is None or error.trouble != "failed":
                    raise
                # An index can break in many ways. It is rebuilt from the previous commit, and all files are read.
                (self.git_dir / "index").unlink(missing_ok=True)
                return self._snapshot(previous, about, lock, always=always)

    def _snapshot(self, previous: str | None, about: Mapping[str, Any], lock: int, *, always: bool) -> Snapshot:
        if previous is not None and not (self.git_dir / "index").exists():
            self._tip_file.unlink(missing_ok=True)
            self._git("read-tree", previous, lock=lock)
        known = self.history.known()
        standing = self.history.look(known)
        found = self._take_in(lock)
        unchanged = Snapshot(None, found.list_left_out(), sorted(map(os.fsdecode, found.taken)))
        same = previous if standing == known and not always else None
        if same is not None and self.tip() == same:
            return unchanged
        tree = self._git("write-tree", lock=lock).decode().strip()
        if same is not None and self.tree_of(same) == tree:
            self._set_tip(same)
            return unchanged
        standing = standing if standing.commit else self.history.start(tree, standing.rules)
        told = {**about, "left_out": [[one.path, one.reason] for one in unchanged.left_out]}
        told |= {} if same is not None else {"git": standing.as_record()}
        earlier = [] if previous is None else [previous]
        new = [one for one in standing.tips if not (earlier and one in known.tips)]
        commit = self.commit_tree(tree, earlier + new, told)
        self.history.note(standing)
        self._set_tip(commit)
        return replace(unchanged, commit=commit)

    def begin(self, about: Mapping[str, Any], *, history: bool = True) -> Snapshot:
        """Commit the workspace as the beginning of a job: a commit whose parent is the history of the workspace.

        A folder without history, or one whose `history` is not wanted, has a first commit of its files as its history. `dirty` in
        the commit's message are the files that the person's repository takes for changed.
        """
        took = self.snapshot(self.tip(), about)
        tree, standing = self.tree_of(took.commit or self.tip() or ""), self.history.known()
        if not history:
            standing = self.history.start(tree, standing.rules)
        told = {**about, "git": standing.as_record(), "dirty": list_dirty(self.tree) if history else None}
        commit = self.commit_tree(tree, standing.tips, told)
        special = [LeftOut(path, what) for path, what in list_special(self.tree).items()]
        return Snapshot(commit, [*took.left_out, *special], took.unsettled)

    def _take_in(self, lock: int) -> Changes:
        """Update the index from the workspace; files in the returned `taken` are still changing."""
        for round_ in range(ROUNDS):
            try:
                found = self._look()
                self._update(found, lock)
            except GitFailed as error:
                # A file that turned into a folder meanwhile, say.
                if round_ == ROUNDS - 1 or error.trouble != "failed":
                    raise
                time.sleep(SETTLE_SECONDS)
                continue
            root = os.fsencode(self.tree)
            read = {**found.taken, **found.large}
            restless = {path: seen for path, seen in read.items() if look(os.path.join(root, path)) != seen}
            found.taken = {path: seen for path, seen in restless.items() if seen is not None}
            if not found.taken:
                break
            time.sleep(SETTLE_SECONDS * (round_ + 1))
        return found

    def survey(self) -> Changes:
        """Return what a snapshot would take in and leave out, and keep nothing."""
        return self._look()

    def _look(self) -> Changes:
        """Find the differences of the workspace from the index."""
        included = self._list_included()
        held = None if self._owner else list_held(self.tree)
        if held is None:
            listed = self._list("--others", "--modified", "--deleted", "--exclude-standard")
            listed = [inner for path in listed for inner in (self._enter(path) if path.endswith(b"/") else [path])]
        else:
            listed = self._list("--modified", "--deleted")
        listed += self._large.list_changed()
        if not included and held is None:
            found = sort_changes(self.tree, dict.fromkeys(listed))
            self._large.leave_out(found)
            return found
        known, wanted = set(self._list("--cached")), {*included, *(held or ())}
        found = sort_changes(self.tree, dict.fromkeys([*listed, *sorted(wanted - known)]))
        if held is not None:
            found.hidden += sorted(known - wanted)
            found.taken = {path: seen for path, seen in found.taken.items() if path in wanted}
            found.large = {path: seen for path, seen in found.large.items() if path in wanted}
        self._large.leave_out(found)
        return found

    def _list_included(self) -> list[bytes]:
        file = self.tree / INCLUDE_FILE
        words = ("--others", "--ignored", f"--exclude-from={file}")
        return self._list(*words, index=self.git_dir / "no-index") if file.is_file() else []

    def _enter(self, path: bytes) -> list[bytes]:
        """List the files of a repository in a copy, by this git folder: its own is never opened."""
        inner = self.tree / os.fsdecode(path)
        if inner.is_symlink():
            return []
        listed = self._list("--others", "--exclude-standard", index=self.git_dir / "no-index", tree=inner)
        return [path + one for one in listed] or [path]

    def _list(self, *which: str, index: Path | None = None, tree: Path | None = None) -> list[bytes]:
        listed = call_git(self.git_dir, ["ls-files", "-z", *which], tree=tree or self.tree, index=index)[1]
        return listed.split(b"\0")[:-1]

    def _update(self, found: Changes, lock: int) -> None:
        held = self._held(found.left_out) if found.left_out else []
        gone = [*found.hidden, *held, *self._large.list_known(found.taken)]
        if found.taken or found.large or gone:
            # From here on the index is ahead of any commit.
            self._tip_file.unlink(missing_ok=True)
        self._remove_entries(gone, lock)
        if found.taken:
            take = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            self._git(*take, stdin=_listed(found.taken), lock=lock)
        self._large.take(found.large, keep=(lock,))

    def _remove_entries(self, paths: Sequence[bytes], lock: int) -> None:
        if paths:
            self._git("update-index", "-z", "--force-remove", "--stdin", stdin=_listed(paths), lock=lock)
            self._large.drop(paths)

    def _held(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return the paths that the index has, and that a snapshot can no longer hold."""
        wanted, held = sorted(paths), []
        for part in (wanted[start : start + 500] for start in range(0, len(wanted), 500)):
            listed = self._git("ls-files", "-z", "--cached", "--", *map(os.fsdecode, part)).split(b"\0")
            held += [path for path in part if path in listed]
        return held

    def become(self, commit: str) -> None:
        """Make the workspace equal to the commit: remove other files, except ignored ones and those that a snapshot leaves out.

        An agent's copy gets a Git folder with the history of those files. If the workspace is equal already, nothing is written.
        """
        _check_commit(commit)
        with locked(self.git_dir) as lock:
            if self.tip() == commit and (self.git_dir / "index").exists() and not self._unlike():
                return
            if self._owner:
                # Its rules say which files are not removed.
                self.history.note(self.history.at(commit))
            self._tip_file.unlink(missing_ok=True)
            was_empty, pointers = is_empty(self.tree), self._large.find(commit)
            try:
                others = self._large.list_differing(pointers)
                for path in others:
                    self._remove(self.tree / os.fsdecode(path))
                self._remove_entries(others, lock)
                self._git("read-tree", "--reset", "-u", commit, lock=lock)
            except GitFailed as error:
                if error.trouble != "failed":
                    raise
                (self.git_dir / "index").unlink(missing_ok=True)
                self._large.drop_all()
                self._git("read-tree", "--reset", "-u", commit, lock=lock)
            self._large.write(pointers, keep=(lock,))
            # Removing a `.gitignore` reveals the files that it hid. An empty folder had no other files.
            for _ in range(0 if was_empty else ROUNDS):
                if not self._remove_others():
                    break
            standing = self.history.known()
            if self._owner and standing.commit:
                absent = self.history.list_absent(standing, commit)
                make_inner(self.git_dir, self.tree, standing, self._owner, absent=absent, large=pointers)
            self._set_tip(commit)

    def _unlike(self) -> bool:
        found, known = self._look(), self.history.known()
        return bool(
            found.taken or found.large or found.hidden or (self._owner and read_copy(self.tree, known) != known)
        )

    def _remove_others(self) -> bool:
        others = list(sort_changes(self.tree, self._list("--others", "--exclude-standard")).taken)
        for path in others:
            self._remove(self.tree / os.fsdecode(path))
        return bool(others)

    def _remove(self, path: Path) -> None:
        """Unlink a file, and the folders that this leaves empty."""
        try:
            with opened_folder(self.tree, path.parent) as folder, suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=folder)
            for parent in path.parents:
                if parent == self.tree:
                    break
                with opened_folder(self.tree, parent.parent) as folder:
                    os.rmdir(parent.name, dir_fd=folder)
        except ToolError:
            return  # A folder on the way is gone or became a link: so is the file.
        except OSError as error:
            if path.is_symlink() or path.exists():
                raise GitFailed(f"{path} cannot be removed: {error.strerror}", "failed") from error

    def tip(self) -> str | None:
        """The workspace's commit after the last `snapshot` or `become`; None while one runs, or after one was interrupted."""
        try:
            return self._tip_file.read_text()
        except OSError:
            return None

    # -- commits -------------------------------------------------------------------------------------------

    def commit_tree(self, tree: str, parents: Sequence[str], about: Mapping[str, Any]) -> str:
        """Make a commit of an existing tree and return its id. No file and no ref changes."""
        ancestry = [word for parent in parents for word in ("-p", parent)]
        if large := find_pointers(find_store(self.git_dir), tree):
            about = {**about, "large": large}
        message = json.dumps(about, ensure_ascii=True).encode()
        return self._git("commit-tree", tree, *ancestry, "-F", "-", stdin=message, work=False).decode().strip()

    def count_between(self, earlier: str, commit: str) -> int:
        """Count the commits that lead to a commit and not to the earlier one."""
        return int(self._git("rev-list", "--count", commit, f"^{earlier}", work=False))

    def tree_of(self, commit: str) -> str:
        """The id of a commit's tree."""
        return self._git("rev-parse", "--verify", "-q", f"{commit}^{{tree}}", work=False).decode().strip()

    def has(self, commit: str) -> bool:
        """Whether the git folder has the commit."""
        return has_commit(self.git_dir, commit)

    def about(self, commit: str) -> dict[str, Any]:
        """The `about` of the commit; empty if the runtime did not make it."""
        told = self._git("log", "-1", "--format=%B", "--no-show-signature", commit, work=False)
        try:
            read = json.loads(told)
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    def find_dependencies(self, commit: str) -> str:
        """Return the part that names the dependency folders of a snapshot, or of one before; empty without one."""
        told = self._git("log", "-z", "--first-parent", "-10", "--format=%B", "--no-show-signature", commit, work=False)
        for message in told.split(b"\0"):
            with suppress(ValueError, TypeError, KeyError):
                found = str(json.loads(message)["dependencies"])
                _check_commit(found)
                return found
        return ""

    def read_file(self, commit: str, path: str) -> bytes:
        """A file's content as the commit (or tree) holds it."""
        return self._git("cat-file", "blob", f"{commit}:{path}", work=False)

    def diff(self, before: str, after: str, *, stat: bool = False) -> bytes:
        """Return the difference of two commits for a reader: a patch, or a line for each file. Never paged, converted or coloured."""
        shown = ("--stat=120",) if stat else ("-p",)
        return self._diff(*shown, "-M", before, after)

    def changed_paths(self, before: str, after: str) -> dict[str, str]:
        """Path → `A`, `M`, `D` or `T` (another type), renames as both."""
        words = self._diff("-z", "--name-status", "--no-renames", before, after).decode("utf-8", "surrogateescape")
        parts = words.split("\0")[:-1]
        return dict(zip(parts[1::2], parts[::2], strict=True))

    def _diff(self, *arguments: str) -> bytes:
        fixed = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
        return self._git(*fixed, *arguments, work=False)

    # -- the hub -------------------------------------------------------------------------------------------

    def push(
        self,
        url: str,
        commit: str,
        ref: str,
        token: str | None = None,
        *,
        seconds: float = NETWORK_SECONDS,
        also: Mapping[str, str] | None = None,
    ) -> None:
        """Create `ref` at `url` for the commit; a ref is never changed. Succeeds if it names the same commit already.

        `also` are further refs, whose names say their commits.

        Raises `GitFailed`: `refused` if the ref names another commit.
        """
        if large := self.list_parts(commit):
            push_parts(self.git_dir, url, large, token, seconds)
        # An empty lease requires that the ref does not exist.
        refs = {ref: commit, **(also or {})}
        command = ["push", "-q", "--porcelain", "--no-verify", f"--force-with-lease={ref}:", url]
        command += [f"{one}:{name}" for name, one in refs.items()]
        try:
            call_git(self.git_dir, command, token=token, seconds=seconds)
        except GitFailed as error:
            if error.trouble not in ("failed", "missing"):
                raise
            there = self.find(url, ref, token, seconds=seconds)
            if there is None:
                raise
            if there != commit:
                raise GitFailed(f"{ref} is another commit already ({there})", "refused") from error

    def advance(
        self, url: str, commit: str, ref: str, token: str | None = None, *, seconds: float = NETWORK_SECONDS
    ) -> None:
        """Create a branch at `url`, or move it forward to the commit, never back. Raises `GitFailed`."""
        command = ("push", "-q", "--porcelain", "--no-verify", url, f"{commit}:{ref}")
        call_git(self.git_dir, command, token=token, seconds=seconds)

    def find(self, url: str, ref: str, token: str | None = None, *, seconds: float = NETWORK_SECONDS) -> str | None:
        """The commit that a ref at `url` names; None if there is no such ref."""
        _, printed = call_git(self.git_dir, ["ls-remote", "-q", url, ref], token=token, seconds=seconds)
        for line in printed.decode("utf-8", "replace").splitlines():
            commit, _, name = line.partition("\t")
            if name == ref:
                return commit
        return None

    def fetch(
        self,
        url: str,
        ref_or_commit: str,
        token: str | SiteToken | None = None,
        *,
        seconds: float = NETWORK_SECONDS,
        anew: bool = False,
    ) -> str:
        """Fetch a commit with its objects and return its id. A commit (not a ref) that exists here is not requested.

        `anew` requests all objects and prefers them to existing ones, for a git folder that may be broken.
        Raises `GitFailed`: `missing` if the hub has none.
        """
        is_commit = not ref_or_commit.startswith("refs/")
        if is_commit:
            _check_commit(ref_or_commit)
        if is_commit and not anew and self.has(ref_or_commit):
            self._fetch_large(url, ref_or_commit, token, seconds, ("fetch",))
            return ref_or_commit
        kept = "refs/swarm/fetched" if is_commit else ref_or_commit
        fetch = REFETCH if anew else ("fetch",)
        command = (
            *fetch,
            "-q",
            "--no-tags",
            "--update-shallow",
            "--no-write-fetch-head",
            "--no-auto-gc",
            url,
            f"+{ref_or_commit}:{kept}",
        )
        call_git(self.git_dir, command, token=token, seconds=seconds)
        commit = self._git("rev-parse", "--verify", "-q", kept, work=False).decode().strip()
        self._fetch_large(url, commit, token, seconds, fetch)
        return commit

    def _fetch_large(
        self, url: str, commit: str, token: str | SiteToken | None, seconds: float, command: Sequence[str]
    ) -> None:
        if large := self._told_large(commit):
            fetch_parts(self.git_dir, url, chain.from_iterable(large.values()), token, seconds, command)
            note_pointers(find_store(self.git_dir), large)

    def _told_large(self, commit: str) -> dict[str, list[str]]:
        large: dict[str, list[str]] = self.about(commit).get("large", {})
        for name in chain(large, *large.values()):
            _check_commit(name)
        return large

    def keep_large(self, commit: str) -> None:
        """Keep the large files of another store's commit, which this one borrows from. Raises `GitFailed`."""
        if large := self._told_large(commit):
            store = find_store(self.git_dir)
            note_pointers(store, large)
            keep_parts(store, chain.from_iterable(large.values()))

    def list_parts(self, commit: str) -> list[str]:
        """The parts of a commit's large files."""
        return list(chain.from_iterable(find_pointers(find_store(self.git_dir), commit).values()))

    # -- within --------------------------------------------------------------------------------------------

    def _git(self, *arguments: str, stdin: bytes | None = None, work: bool = True, lock: int | None = None) -> bytes:
        tree = self.tree if work else None
        keep = () if lock is None else (lock,)
        return call_git(self.git_dir, arguments, tree=tree, stdin=stdin, keep=keep)[1]

    def _set_tip(self, commit: str) -> None:
        # A later fetch offers this commit.
        known = self.git_dir / "refs/swarm/tip"
        known.parent.mkdir(parents=True, exist_ok=True)
        for file, text in ((known, f"{commit}\n"), (self._tip_file, commit)):
            new = file.with_name(f"{file.name}.new")
            new.write_text(text)
            new.replace(file)


def _check_commit(commit: str) -> None:
    """Raise `GitFailed` if the text is no commit's id: it may come from a record, and git would take some words for options."""
    if not _COMMIT.fullmatch(commit):
        raise GitFailed(f"{commit[:100]!r} is no commit's id", "failed")


def _listed(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
