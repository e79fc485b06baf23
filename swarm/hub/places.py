"""Which repository a request is about, by its path. Pure; whatever is not exactly one of git's requests is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BASE = "base"
"""The repository of a project that its others borrow from."""

MOST_FOLDERS = 3
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}"
_PATH = re.compile(
    rf"/({_NAME}(?:/{_NAME}){{0,{MOST_FOLDERS - 1}}})/({_NAME})\.git/(info/refs|git-upload-pack|git-receive-pack)"
)
_SERVICES = {"service=git-upload-pack": "fetch", "service=git-receive-pack": "push"}

Act = Literal["fetch", "push"]


@dataclass(frozen=True)
class Place:
    """One repository: what it is below, and its name, for a job its id."""

    project: str
    """The folders, at most `MOST_FOLDERS`, that its URL names before it."""
    name: str

    def below(self, folder: Path) -> Path:
        """Where it lies in the hub's folder."""
        return folder / self.project / f"{self.name}.git"

    @property
    def is_base(self) -> bool:
        """Whether others of its project borrow from it."""
        return self.name == BASE

    def __str__(self) -> str:
        return f"{self.project}/{self.name}"


@dataclass(frozen=True)
class Ask:
    """What a request asks for."""

    place: Place
    act: Act
    begins: bool
    """It asks what is there, before the fetch or push itself."""


def read_ask(method: str, path: str, query: str) -> Ask | None:
    """What this request asks for; None: it is none of git's."""
    if (found := _PATH.fullmatch(path)) is None:
        return None
    place, last = Place(found[1], found[2]), found[3]
    if last == "info/refs":
        act = _SERVICES.get(query)
        return Ask(place, act, True) if method == "GET" and act else None  # type: ignore[arg-type]
    if method != "POST" or query:
        return None
    return Ask(place, "push" if last == "git-receive-pack" else "fetch", False)
