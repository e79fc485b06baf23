"""Finds files that programs outside a sandbox obey: git's hooks and settings, files in people's settings, the names in `names.py`.

`look` searches from the workspace's folder down and follows no link; `guard.py` undoes a command's changes.

The supervisor of shell commands imports this module before each command, as it does `enter.py`, so it imports next to nothing.
"""

from __future__ import annotations

import os
import stat
from _blake2 import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from swarm.permissions.sandbox.names import LASTS, TOLD, who_obeys
else:
    from names import LASTS, TOLD, who_obeys

HELD = ".swarm-held"
_PACKAGES = frozenset(("node_modules", "site-packages"))
"""Package folders, which contain unused editor settings of their authors. Git folders in them count as everywhere."""
_UNSEEN = "unseen"
_MAX_ENTRIES, _MAX_DEPTH, _MAX_BYTES = 300_000, 60, 1 << 20
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_PATHS = frozenset(("core.hookspath", "include.path", "includeif.path", "core.attributesfile"))
"""Settings whose whole value is a path; in other settings that run programs, a word with a slash or a suffix is one."""
_SAFE = frozenset(
    (
        *("core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase"),
        *("core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath"),
        *("core.sharedrepository", "core.untrackedcache", "core.preloadindex", "core.abbrev", "core.commentchar"),
        *("user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email"),
        *("init.defaultbranch", "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "fetch.prune"),
        *("merge.conflictstyle", "merge.ff", "rerere.enabled", "gc.auto", "diff.algorithm", "diff.renames"),
        *("extensions.objectformat", "extensions.worktreeconfig", "extensions.refstorage", "extensions.partialclone"),
        *("submodule.active", "submodule.recurse", "lfs.repositoryformatversion", "maintenance.auto"),
        *("core.excludesfile", "commit.template", "blame.ignorerevsfile", "mailmap.file"),
    )
)
_SAFE_OF_ONE = {
    "remote": frozenset(("url", "pushurl", "fetch", "push", "tagopt", "prune", "promisor", "partialclonefilter")),
    "branch": frozenset(("remote", "merge", "rebase", "pushremote", "description", "vscode-merge-base")),
    "submodule": frozenset(("url", "active", "branch", "ignore", "shallow", "fetchrecursesubmodules")),
}
"""Settings that make git run nothing; every other setting counts as running something."""


class Obeyed:
    """The obeyed files below one folder; all paths are relative to it."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        """File → digest of its obeyed content, without configs that run nothing."""
        self.guards: set[str] = set()
        """Existing files and folders to protect from changes."""
        self.repositories: set[str] = set()
        """Git folders of any name."""
        self.links: set[str] = set()
        """Files that are symbolic links, which cannot be mounted over."""


def look(root: str, own: tuple[tuple[str, str], ...] = ()) -> Obeyed:
    """Find everything obeyed below `root`, including targets of links and settings, and unreadable places.

    `own` are people's settings from elsewhere: git settings by key, for every repository, and as `hook` the files that hooks run.
    """
    walk = _Walk(root, [(key, value) for key, value in own if key != "hook"])
    try:
        with ObeyedFolder(root, "") as folder:
            walk.enter(folder, "", 0, editors=True)
        for key, value in own:
            if key == "hook":
                walk.refer(value, key, "", 0)
    except OSError:
        walk.found.digests["/"] = _UNSEEN
    return walk.found


# -- the walk ------------------------------------------------------------------------------------------------


class _Walk:
    def __init__(self, root: str, own: list[tuple[str, str]]) -> None:
        self.root, self.found, self._own, self._left = root, Obeyed(), own, _MAX_ENTRIES

    def enter(self, folder: int, path: str, depth: int, *, editors: bool) -> None:
        with os.scandir(folder) as listing:
            entries = list(listing)
        self._left -= len(entries)
        if self._left < 0 or depth > _MAX_DEPTH:
            self.found.digests[f"{path}/"] = _UNSEEN
            return
        names = {entry.name for entry in entries}
        if "HEAD" in names and not names.isdisjoint({"objects", "commondir"}):
            self.judge(folder, path)
        for entry in entries:
            self._visit(folder, entry, f"{path}/{entry.name}" if path else entry.name, depth, editors=editors)

    def _visit(self, folder: int, entry: os.DirEntry[str], place: str, depth: int, *, editors: bool) -> None:
        name, lowered = entry.name, entry.name.casefold()
        known = who_obeys(place) if editors and lowered in LASTS else ""
        if lowered == ".git":
            self._git(folder, name, place, entry, depth)
        elif known and known not in TOLD:
            self.take(folder, name, place)
        elif entry.is_dir(follow_symlinks=False):
            self._go_in(folder, name, place, depth, editors=editors and name not in _PACKAGES)
        elif known:
            self._note(folder, name, place)

    def _go_in(self, folder: int, name: str, place: str, depth: int, *, editors: bool) -> None:
        try:
            deeper = os.open(name, OPEN_FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError:
            self.found.digests[f"{place}/"] = _UNSEEN
            return
        try:
            self.enter(deeper, place, depth + 1, editors=editors)
        finally:
            os.close(deeper)

    def _note(self, folder: int, name: str, place: str) -> None:
        """Note a file whose changes are only reported."""
        try:
            self.found.digests[place] = _digest(read_file(folder, name)[0])
        except (OSError, ValueError):
            return

    def take(self, folder: int, name: str, place: str, *, stamp: bool = False) -> None:
        """Note a file, or all files of a folder; `stamp` as in `read_file`."""
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                deeper = os.open(name, OPEN_FOLDER, dir_fd=folder)
                try:
                    self._take_all(deeper, place)
                finally:
                    os.close(deeper)
                self.found.guards.add(place)
            elif stat.S_ISLNK(mode):
                self.found.links.add(place)
                self.found.digests[place] = _digest(b"link", os.fsencode(os.readlink(name, dir_fd=folder)))
                self._follow(place, os.readlink(name, dir_fd=folder))
            else:
                data, mode = read_file(folder, name, stamp=stamp)
                self.found.digests[place] = _digest(b"run" if mode & 0o111 else b"read", data)
                self.found.guards.add(place)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            self.found.digests[place] = _UNSEEN

    def _take_all(self, folder: int, place: str) -> None:
        for name in os.listdir(folder):
            self._left -= 1
            if self._left < 0:
                self.found.digests[f"{place}/"] = _UNSEEN
                return
            if name == "worktrees":  # whole checkouts
                self._go_in(folder, name, f"{place}/{name}", place.count("/"), editors=True)
            elif name != "plans" and HELD not in name and not name.endswith(".sample"):
                self.take(folder, name, f"{place}/{name}")

    # -- git -------------------------------------------------------------------------------------------------

    def _git(self, folder: int, name: str, place: str, entry: os.DirEntry[str], depth: int) -> None:
        if entry.is_dir(follow_symlinks=False):
            self.found.repositories.add(place)
            for inner in ("modules", "worktrees", ""):
                try:
                    with ObeyedFolder(self.root, f"{place}/{inner}".rstrip("/")) as deeper:
                        if inner:
                            self.enter(deeper, f"{place}/{inner}", depth + 1, editors=False)
                        elif exists(deeper, "HEAD"):
                            self.judge(deeper, place)
                except FileNotFoundError:
                    continue
                except OSError:
                    self.found.digests[f"{place}/{inner}".rstrip("/") + "/"] = _UNSEEN
            return
        # A file or a link that points to the git folder. If that folder is judged, the pointer need not be noted.
        self.take(folder, name, place)
        if entry.is_symlink() or place not in self.found.digests:
            return
        try:
            text = read_file(folder, name)[0].decode().strip()
            target = self._inside(os.path.join(os.path.dirname(place), text.removeprefix("gitdir:").strip()))
            if text.startswith("gitdir:") and target is not None:
                with ObeyedFolder(self.root, target) as deeper:
                    self.judge(deeper, target)
                del self.found.digests[place]
        except (OSError, ValueError):
            pass  # it leads outside or cannot be followed, so it must stay unchanged

    def judge(self, folder: int, place: str) -> None:
        """Note the files of a git folder that make git run programs."""
        self.found.repositories.add(place)
        if exists(folder, "hooks"):
            self.take(folder, "hooks", f"{place}/hooks".lstrip("/"))
        for name in ("config", "config.worktree"):
            self._config(folder, name, f"{place}/{name}".lstrip("/"), place, 0)
        self._refer_all(self._own, [os.path.dirname(place), place], place, 0)
        if exists(folder, "commondir"):
            at = f"{place}/commondir".lstrip("/")
            self.take(folder, "commondir", at)
            try:
                text = read_file(folder, "commondir")[0].strip()
                linked = os.path.basename(os.path.dirname(place)) == "worktrees"
                if text == b"." or (linked and text == b"../.."):
                    self.found.digests.pop(at, None)
            except (OSError, ValueError):
                pass

    def _config(self, folder: int, name: str, at: str, place: str, depth: int) -> None:
        try:
            data, _ = read_file(folder, name)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            self.take(folder, name, at)
            return
        self.found.guards.add(at)
        text = data.decode("utf-8", "surrogateescape")
        top = os.path.dirname(place)
        running = running_settings(text)
        if running is None:
            self.found.digests[at] = _digest(b"config", data)
            return
        kept = [
            (key, value)
            for key, value in running
            if key != "core.worktree" or self._inside(os.path.join(place, value)) is None
        ]
        if kept:
            self.found.digests[at] = _digest(
                b"config", *(f"{key}={value}".encode("utf-8", "replace") for key, value in sorted(kept))
            )
        bases = [top, place, *(os.path.join(place, value) for key, value in running if key == "core.worktree")]
        self._refer_all(kept, bases, at, depth)

    def _refer_all(self, settings: list[tuple[str, str]], bases: list[str], at: str, depth: int) -> None:
        """Follow the paths in settings from git's base folder; for includes, the folder of the file."""
        for key, value in settings:
            for word in named_paths(key, value):
                for base in [os.path.dirname(at)] if key.startswith("include") else bases:
                    self.refer(os.path.join(base, word), key, bases[1], depth)

    def refer(self, given: str, key: str, place: str, depth: int) -> None:
        """Note a file that a setting names, or all files of a folder."""
        target = self._inside(given)
        if not target or target in self.found.guards or depth > 8:
            return
        try:
            with ObeyedFolder(self.root, os.path.dirname(target)) as folder:
                name = os.path.basename(target)
                if key.startswith("include"):
                    self._config(folder, name, target, place, depth + 1)
                elif key in _PATHS or not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    self.take(folder, name, target, stamp=key == "hook")
        except OSError:
            return

    def _follow(self, place: str, link: str) -> None:
        """Note the target of a link into the workspace, which is obeyed too."""
        target = self._inside(os.path.join(os.path.dirname(place), link))
        if target and target not in self.found.digests:
            try:
                with ObeyedFolder(self.root, os.path.dirname(target)) as folder:
                    self.take(folder, os.path.basename(target), target)
                with ObeyedFolder(self.root, target) as folder:
                    if exists(folder, "HEAD"):
                        self.judge(folder, target)
            except OSError:
                return

    def _inside(self, given: str) -> str | None:
        """Return a path relative to the root; None if it leads out."""
        path = os.path.normpath(os.path.join(self.root, given))
        if path == self.root:
            return ""
        return path[len(self.root) :].lstrip("/") if path.startswith(self.root.rstrip("/") + "/") else None


def running_settings(text: str) -> list[tuple[str, str]] | None:
    """Return the settings of a git config that can make git run something; None if git would not write it like this.

    Strict on purpose: if git might read a line differently, the whole file counts.
    """
    found: list[tuple[str, str]] = []
    section, one = "", False
    for line in text.split("\n"):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if "\r" in line or "\0" in line or line.endswith("\\"):
            return None
        if line[0] == "[":
            head = _read_section(line)
            if head is None:
                return None
            section, one = head
            continue
        key, _, value = line.partition("=")
        key, value = key.strip().lower(), value.strip()
        if not section or not key.replace("-", "").isalnum():
            return None
        if may_run(section, key, value, one=one):
            found.append((f"{section}.{key}", value))
    return found


def _read_section(line: str) -> tuple[str, bool] | None:
    """Return the section of a header line, and whether it has a subsection; None if git would not write it like this."""
    name, quote, rest = line[1:-1].partition('"')
    section, one = name.strip().lower(), bool(quote)
    strange = one and (not rest.endswith('"') or not {'"', "\\", "]"}.isdisjoint(rest[:-1]))
    return None if line[-1] != "]" or strange or not section.replace("-", "").isalnum() else (section, one)


def may_run(section: str, key: str, value: str, *, one: bool) -> bool:
    """Report whether a setting can make git run something; `one`: it lies in a subsection."""
    safe = key in _SAFE_OF_ONE.get(section, ()) if one else f"{section}.{key}" in _SAFE
    return not safe or (section == "remote" and "::" in value)


def named_paths(key: str, value: str) -> list[str]:
    """Return the words of a setting that can be paths."""
    if key in _PATHS:
        return [value.strip("\"'")]
    return [word.strip("\"'") for word in value.strip('"!').split() if "/" in word or "." in word[1:-1]]


# -- files ---------------------------------------------------------------------------------------------------


class ObeyedFolder:
    """The descriptor of a folder below `root`, opened without following links."""

    def __init__(self, root: str, path: str) -> None:
        self._opened = os.open(root, OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            for part in filter(None, path.split("/")):
                deeper = os.open(part, OPEN_FOLDER, dir_fd=self._opened)
                os.close(self._opened)
                self._opened = deeper
        except BaseException:
            os.close(self._opened)
            raise

    def __enter__(self) -> int:
        return self._opened

    def __exit__(self, *failure: object) -> None:
        os.close(self._opened)


def read_file(folder: int, name: str, *, stamp: bool = False) -> tuple[bytes, int]:
    """Read content and mode of a file. Raises `ValueError` if it is not a regular file, or too large for settings.

    With `stamp`, a large file's content is replaced by its change time, which a command cannot set back.
    """
    opened = os.open(name, OPEN_FILE, dir_fd=folder)
    with open(opened, "rb") as file:
        found = os.fstat(opened)
        large = found.st_size > _MAX_BYTES
        if not stat.S_ISREG(found.st_mode) or (large and not stamp):
            raise ValueError("it is not a file of a usual size")
        return b"%d %d" % (found.st_ino, found.st_ctime_ns) if large else file.read(_MAX_BYTES), found.st_mode


def exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    except OSError:
        return False


def _digest(*parts: bytes) -> str:
    found = blake2b(digest_size=12)
    for part in parts:
        found.update(b"%d:" % len(part) + part)
    return str(found.hexdigest())
