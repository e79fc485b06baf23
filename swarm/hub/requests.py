"""Checks of a request before git sees it: its repository, and a push's changes to refs. Pure.

Anything that is not exactly one of git's requests is refused. Git can forbid to rewind or delete branches, but not other refs, which must
never change here. So the beginning of a push is parsed: a list of `OLD NEW REF` in git's packet lines up to an empty one. The push passes
if it only makes refs, or moves a branch `swarm/…`, which git then only lets go forward.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from swarm.workspace.git_command import Form

BASE = "base"
"""Name of the repository that a project's others borrow from."""

MOST_FOLDERS = 4
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}"
PLACE = rf"/({_NAME}(?:/{_NAME}){{0,{MOST_FOLDERS - 1}}})/({_NAME})"
"""Path of a repository without its ending: its project and its name."""
_PATH = re.compile(rf"{PLACE}\.git/(info/refs|git-upload-pack|git-receive-pack)")
_SERVICES = {"service=git-upload-pack": "fetch", "service=git-receive-pack": "push"}

Act = Literal["fetch", "push"]
_MOST_BYTES = 1 << 20
_ID = rb"([0-9a-f]{40}|[0-9a-f]{64})"
_MAKES = re.compile(rb"0{40}(0{24})? " + _ID + rb" refs/swarm/[^\0\n]+(\0[^\n]*)?\n?")
_MOVES = re.compile(_ID + rb" " + _ID + rb" refs/heads/swarm/[^\0\n]+(\0[^\n]*)?\n?")
_NOTHING = re.compile(rb"0+")


@dataclass(frozen=True)
class RepositoryPlace:
    """One repository: its project, and its name (a job's id)."""

    project: str
    """Folders before the name in its URL, at most `MOST_FOLDERS`."""
    name: str

    def below(self, folder: Path) -> Path:
        """Path of the repository in the hub's folder."""
        return folder / self.project / f"{self.name}.git"

    @property
    def form(self) -> Form:
        """The form of its objects, which the last folder names."""
        return "sha256" if self.project.rpartition("/")[2] == "sha256" else "sha1"

    @property
    def is_base(self) -> bool:
        """Whether other repositories of the project borrow from it."""
        return self.name == BASE

    def __str__(self) -> str:
        return f"{self.project}/{self.name}"


@dataclass(frozen=True)
class Query:
    """The parsed URL of a request."""

    place: RepositoryPlace
    act: Act
    begins: bool
    """Whether this is the request for refs before the fetch or push itself."""


def read_ask(method: str, path: str, query: str) -> Query | None:
    """Parse a request; None if it is not one of git's."""
    if (found := _PATH.fullmatch(path)) is None:
        return None
    place, last = RepositoryPlace(found[1], found[2]), found[3]
    if last == "info/refs":
        act = _SERVICES.get(query)
        return Query(place, act, True) if method == "GET" and act else None  # type: ignore[arg-type]
    if method != "POST" or query:
        return None
    return Query(place, "push" if last == "git-receive-pack" else "fetch", False)


@dataclass
class CommandReader:
    """Holds back the beginning of a push until its commands are checked."""

    refused: str = ""
    """Reason for refusing the push; empty while there is none."""
    _held: bytes = b""
    _at: int = 0
    _passed: bool = field(default=False, repr=False)

    def take(self, chunk: bytes) -> bytes:
        """Take the next part of the body; returns the bytes that may be passed on now."""
        if self._passed:
            return chunk
        if self.refused:
            return b""
        self._held += chunk
        while len(self._held) >= self._at + 4 and not self.refused:
            size = _read_size(self._held[self._at : self._at + 4])
            if size == 0:
                self._passed, passed, self._held = True, self._held, b""
                return passed
            if size < 5 or self._at > _MOST_BYTES:
                self.refused = "this is not a push"
            elif len(self._held) < self._at + size:
                break
            else:
                self.refused = _judge(self._held[self._at + 4 : self._at + size])
                self._at += size
        return b""


def was_taken(report: bytes) -> bool:
    """Whether git's report on a push says that all of it was accepted."""
    return b"unpack ok" in report and b"ng refs/" not in report


def _judge(command: bytes) -> str:
    """Reason for refusing a command; empty if it makes a ref, or moves a branch of ours."""
    found = _MAKES.fullmatch(command) or _MOVES.fullmatch(command)
    if found is not None and not _NOTHING.fullmatch(found[2]):
        return ""
    told = command.split(b"\0")[0].decode("utf-8", "replace").strip()[-200:]
    return f"the hub only makes refs below refs/swarm/ and moves branches swarm/… forward; refused: {told}"


def _read_size(digits: bytes) -> int:
    try:
        return int(digits, 16)
    except ValueError:
        return -1
