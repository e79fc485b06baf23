"""Asks a person's Git repository about a folder: which files belong to it, which rules ignore files, where its history stands.

Git itself answers, in that repository, by calls that run no program that a repository names (`swarm.workspace.git`). Where the
history stands is read from the files of its git folder, because the same reader also reads the git folders of agents' copies,
which agents may have written: it follows no link there and runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from swarm.core.errors import ConfigurationError, GitFailed, ToolError
from swarm.workspace.files import open_file
from swarm.workspace.git import run_git, settings_in_effect
from swarm.workspace.git_command import OBJECT_ID, Form

LISTING_SECONDS = 600.0
_ID = re.compile(OBJECT_ID)
_BRANCH = re.compile(r"refs/heads/(?!.*(\.\.|//|@\{|\.lock(/|$)))[\w][\w./@+#=-]{0,200}")
_MOST_BRANCHES, _MOST_TAGS = 50, 100
_MOST_BYTES = 1 << 20
_MOST_SPECIAL = 100
_SAFE_SETTINGS = ("core.autocrlf", "core.eol", "core.ignorecase", "core.precomposeunicode", "diff.renames")
"""Settings that change what Git says about unchanged files, and that name no program."""


@dataclass(frozen=True)
class GitFolders:
    """The parts of a repository that a folder lies in."""

    top: Path
    """The checkout."""
    own: Path
    """The git folder with `HEAD`: of a linked worktree, the worktree's own."""
    common: Path
    """The git folder with the objects and branches."""


@dataclass(frozen=True)
class Standing:
    """The place of a folder in its history; the message of a snapshot holds it whenever it has changed."""

    head: str = ""
    """A commit, or `ref: ` and the branch that is checked out."""
    branches: dict[str, str] = field(default_factory=dict)
    """Full names of branches, and their commits."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags of the history, by name: a commit, or an annotated tag's text."""
    rules: str = ""
    """Ignore rules from outside the folder's files, in the order in which the later one counts."""
    shallow: str = ""
    """The ends of a shallow history, as in Git's file of that name."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the repository that its copies need."""

    @property
    def commit(self) -> str:
        """The commit that is checked out; empty before the first one."""
        return self.branches.get(self.head.removeprefix("ref: "), "") if self.head.startswith("ref: ") else self.head

    @property
    def tips(self) -> list[str]:
        """All commits that it names, the checked-out one first."""
        return list(dict.fromkeys(filter(None, [self.commit, *self.branches.values()])))

    def as_record(self) -> dict[str, Any]:
        """Return it for a snapshot's message."""
        return {name: value for name, value in asdict(self).items() if value}


def find_git(folder: Path) -> GitFolders | None:
    """Find the repository whose checkout a folder is or lies in; None without one. No setting is read."""
    for above in (folder, *folder.parents):
        if not (above / ".git").exists():
            continue
        with suppress(OSError, ValueError):
            own = _follow(above / ".git")
            common = own
            if (own / "commondir").exists():
                common = (own / (own / "commondir").read_text().strip()).resolve()
            if (common / "objects").is_dir():
                return GitFolders(above, own, common)
        return None
    return None


def find_form(folder: Path) -> Form:
    """Return the form of the repository that a folder lies in; without one, the usual form."""
    git = find_git(folder)
    told = b"" if git is None else ask(git, git.top, "rev-parse", "--show-object-format")
    return "sha256" if (told or b"").strip() == b"sha256" else "sha1"


def _follow(git: Path) -> Path:
    if git.is_dir():
        return git.resolve()
    return (git.parent / git.read_text().removeprefix("gitdir:").strip()).resolve()


# -- files ---------------------------------------------------------------------------------------------------


def list_held(folder: Path) -> list[bytes] | None:
    """List the files that belong to a folder by its own repository: tracked ones, and others that it does not ignore.

    Those of repositories and submodules in it are listed, too. A repository that cannot be listed ends with `/`. None if the folder
    lies in no repository, or is itself ignored by the one that it lies in. Raises `GitFailed` if its repository does not answer:
    its rules are unknown then.
    """
    git = find_git(folder)
    if git is None or is_ignored(folder, git):
        return None
    root, found, todo = os.fsencode(folder), list[bytes](), [b""]
    while todo:
        below = todo.pop()
        listed = _list(Path(os.fsdecode(os.path.join(root, below))))
        if listed is None and not below:
            raise GitFailed(f"the Git repository of {folder} does not tell which files it ignores", "failed")
        if listed is None:
            found.append(below)
        for path in listed or ():
            full = below + path.rstrip(b"/")
            if os.path.lexists(os.path.join(root, full, b".git")) and not os.path.islink(os.path.join(root, full)):
                todo.append(full + b"/")
            elif not path.endswith(b"/"):
                found.append(full)
    return found


def list_ignored(folder: Path) -> list[str]:
    """List a folder's ignored files; a folder of nothing else ends with `/`. Empty without a repository."""
    git = find_git(folder)
    words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    return [] if git is None or is_ignored(folder, git) else _split(ask(git, folder, *words))


def list_special(folder: Path) -> dict[str, str]:
    """List up to a hundred pipes, sockets and devices of a folder, which Git does not see: path → its kind. Ignored ones are not listed."""
    found, todo = dict[str, str](), [os.fspath(folder)]
    # Such as `node_modules`: often most of all files.
    ignored = {os.path.join(folder, path[:-1]) for path in list_ignored(folder) if path.endswith("/")}
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo += [entry.path] if entry.name != ".git" and entry.path not in ignored else []
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    mode = entry.stat(follow_symlinks=False).st_mode
                    what = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
                    found[os.path.relpath(entry.path, folder)] = f"it is a {what}"
    git = find_git(folder) if found else None
    some = sorted(found.items())[:_MOST_SPECIAL]
    return {path: what for path, what in some if git is None or not is_ignored(folder / path, git)}


def list_dirty(folder: Path) -> list[str] | None:
    """List a folder's tracked files that its repository takes for changed since its commit; None without one."""
    git, found = find_git(folder), dict(settings_in_effect(folder))
    if git is None or is_ignored(folder, git):
        return None
    given = [word for name in _SAFE_SETTINGS if name in found for word in ("-c", f"{name}={found[name]}")]
    words = ("--name-only", "--no-renames", "--relative", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    listed = ask(git, folder, *given, "diff", "-z", *words, "HEAD")
    return None if listed is None else _split(listed)


def list_untracked(folder: Path) -> set[str] | None:
    """List a folder's files that its repository does not track; None without a repository."""
    git = find_git(folder)
    return None if git is None else set(_split(ask(git, folder, "ls-files", "-z", "--others")))


def _split(listed: bytes | None) -> list[str]:
    return [os.fsdecode(path) for path in (listed or b"").split(b"\0")[:-1]]


def is_ignored(folder: Path, git: GitFolders) -> bool:
    """Whether a repository ignores a file or the whole folder: someone who names such a workspace means its files."""
    inner = str(folder.relative_to(git.top))
    return folder != git.top and ask(git, git.top, "check-ignore", "-q", "--", inner) is not None


def _list(folder: Path) -> list[bytes] | None:
    git = find_git(folder)
    listed = None if git is None else ask(git, folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return None if listed is None else list(dict.fromkeys(listed.split(b"\0")[:-1]))


def ask(git: GitFolders, folder: Path, *words: str) -> bytes | None:
    """Return the repository's answer to a command in a folder of its checkout; None if it fails. Its own ignore rules hold."""
    # A setting of the repository may name another checkout.
    where = [f"--git-dir={git.own}", f"--work-tree={git.top}"]
    try:
        asked = run_git(folder, [*where, *words], settings=_ignoring(folder), timeout_seconds=LISTING_SECONDS)
    except ConfigurationError:
        return None
    return None if asked.returncode else asked.stdout


def _ignoring(folder: Path) -> dict[str, str]:
    """Settings that make a call read the person's own list of ignored files, and any user's repository."""
    named = [value for name, value in settings_in_effect(folder) if name == "core.excludesfile"]
    return {"safe.directory": "*"} | ({"core.excludesFile": os.path.expanduser(named[-1])} if named else {})


def read_rules(folder: Path, git: GitFolders) -> str:
    """Return the ignore rules that stand outside the folder's files: the person's, then the repository's, then those above it."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    own = _ignoring(folder).get("core.excludesFile", f"{home}/git/ignore")
    inner, texts = folder.relative_to(git.top).parts, []
    for file, base in [(Path(own), inner), (git.common / "info/exclude", inner)]:
        texts += _read_rules(git.top / file, base)
    for depth in range(len(inner)):
        texts += _read_rules(git.top.joinpath(*inner[:depth], ".gitignore"), inner[depth:])
    return "".join(texts)


def _read_rules(file: Path, inner: tuple[str, ...]) -> list[str]:
    """Return a file's rules for a folder that lies `inner` below the one that they are written for."""
    try:
        text = file.read_bytes()[:_MOST_BYTES].decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    except OSError:
        return []
    return [f"{moved}\n" for line in text.split("\n") for moved in move_rule(line, inner)]


def move_rule(line: str, inner: tuple[str, ...]) -> Iterator[str]:
    """Rewrite an ignore rule for a folder that lies `inner` below, and that is not ignored; nothing if it cannot match there."""
    rule = line.removesuffix("\r")
    bare = rule.removeprefix("!").rstrip()
    if not bare or rule.startswith("#"):
        return
    if not inner or "/" not in bare.rstrip("/"):
        # A rule without a folder holds at any depth.
        yield rule
        return
    for rest in dict.fromkeys(_beyond(tuple(bare.strip("/").split("/")), inner)):
        yield f"{'!' * rule.startswith('!')}/{'/'.join(rest)}{'/' * bare.endswith('/')}"


def _beyond(parts: tuple[str, ...], inner: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the rest of a pattern below the folder; nothing for one that matches the folder itself."""
    if not inner or not parts:
        yield from [parts] if parts else []
    elif parts == ("**",):
        yield parts
    elif parts[0] == "**":
        yield from _beyond(parts[1:], inner)
        yield from _beyond(parts, inner[1:])
    elif _matches(inner[0], parts[0]):
        yield from _beyond(parts[1:], inner[1:])


def _matches(name: str, pattern: str) -> bool:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    regex = GitIgnoreSpecPattern(f"/{pattern}").regex
    return regex is not None and regex.match(name) is not None


# -- history -------------------------------------------------------------------------------------------------


def read_standing(folder: Path, known: Standing) -> Standing:
    """Return where the history of a person's folder stands, and where it stood before if it has none of its own.

    A folder below a repository's top has its rules, and no history.
    """
    git = find_git(folder)
    if git is None or is_ignored(folder, git):
        return replace(known, rules="")
    rules = read_rules(folder, git)
    head, branches = read_head(git)
    if git.top != folder or not (branches or _ID.fullmatch(head)):
        return replace(known, rules=rules)
    is_same = (head, branches) == (known.head, known.branches)
    found = dict(settings_in_effect(folder))
    settings = {name: found[name] for name in _SAFE_SETTINGS if name in found}
    tags = known.tags if is_same else _read_tags(git)
    return Standing(head, branches, tags, rules, _read(git.common, "shallow"), settings)


def read_head(git: GitFolders) -> tuple[str, dict[str, str]]:
    """Return `HEAD` and the branch that it names, with its commit. Empty for a repository of another form."""
    head = _read(git.own, "HEAD").strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return (head, {}) if _ID.fullmatch(head) else ("", {})
    commit = _read(git.common, name).strip() or _read_packed(_read(git.common, "packed-refs")).get(name, "")
    return (head, {name: commit} if _ID.fullmatch(commit) else {}) if _BRANCH.fullmatch(name) else ("", {})


def read_copy(tree: Path, known: Standing) -> Standing:
    """Return where the history of an agent's copy stands, by the agent's own git folder; `known` if it has none."""
    head, inner = _read(tree, ".git/HEAD").strip(), tree / ".git/refs/heads"
    name = head.removeprefix("ref: ")
    if not _ID.fullmatch(head) and (name == head or not _BRANCH.fullmatch(name)):
        return known
    found = _read_packed(_read(tree, ".git/packed-refs"))
    for top, _, files in os.walk(inner):
        for file in files:
            path = os.path.relpath(os.path.join(top, file), tree)
            found[path.removeprefix(".git/")] = _read(tree, path).strip()
    kept = sorted(found, key=lambda one: one != name)[:_MOST_BRANCHES]
    branches = {one: found[one] for one in kept if _BRANCH.fullmatch(one) and _ID.fullmatch(found[one])}
    return replace(known, head=head, branches=branches)


def _read_packed(text: str) -> dict[str, str]:
    lines = (line.partition(" ") for line in text.splitlines())
    return {name: commit for commit, _, name in lines if name.startswith("refs/heads/")}


def _read(folder: Path, name: str) -> str:
    """Read a small file below a folder, not through a link; empty if there is none."""
    try:
        opened, _ = open_file(folder, folder / name)
        with open(opened, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ToolError):
        return ""


def _read_tags(git: GitFolders) -> dict[str, str]:
    return list_tags(lambda *words: ask(git, git.top, *words), "HEAD")


def list_tags(answer: Callable[..., bytes | None], commit: str) -> dict[str, str]:
    """Return the newest tags of a commit's history; `answer` runs a command of Git there."""
    shown = "%(objecttype) %(objectname) %(refname:strip=2)"
    words = ["for-each-ref", f"--merged={commit}", "--sort=-creatordate", f"--count={_MOST_TAGS}", f"--format={shown}"]
    listed, found = answer(*words, "refs/tags") or b"", {}
    for line in listed.decode("utf-8", "surrogateescape").splitlines():
        kind, object_id, name = line.split(" ", 2)
        text = object_id.encode() if kind == "commit" else answer("cat-file", "tag", object_id)
        with suppress(UnicodeDecodeError):
            found[name] = (text or b"").decode()
    return {name: text for name, text in found.items() if text}
