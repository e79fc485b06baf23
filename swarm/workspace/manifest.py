"""The files of a folder before they are sent: which go, which stay and why, and which look like secrets."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm.core.errors import ToolError
from swarm.core.secrets import holds_secret
from swarm.workspace.files import open_file
from swarm.workspace.origin import list_ignored, list_special, list_untracked
from swarm.workspace.repository import Repository

REMEMBERED = "secrets-allowed"
"""File of the state folder with a line for each content that a person has let go."""
_READ_BYTES, _READ_FILES = 256 << 10, 5_000
_NAMES = re.compile(
    r"\.env(\..+)?|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ovpn)|id_(rsa|dsa|ecdsa|ed25519)|\.?(npmrc|pypirc|netrc|pgpass|htpasswd)|"
    r".*(credentials?|secrets?)(\.(json|ya?ml|toml|ini|txt|env))?",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r".*\.(example|sample|template|dist|pub|py|md)|.*example.*", re.IGNORECASE)


@dataclass(frozen=True)
class Manifest:
    """Files of a folder that a job would take along, and the others. Paths are relative to it."""

    goes: list[str]
    stays: dict[str, str]
    """Path → reason; a folder of ignored files ends with `/`."""
    secrets: dict[str, str]
    """Files that go and look like secrets: path → reason."""


def survey(folder: Path) -> Manifest:
    """List the files of a folder. Nothing is kept or sent. Raises `GitFailed`."""
    with tempfile.TemporaryDirectory(prefix="swarm-survey-") as place:
        found = Repository.make(Path(place, "git"), folder).survey()
    goes = sorted(os.fsdecode(path) for path, seen in {**found.taken, **found.large}.items() if seen is not None)
    stays = {os.fsdecode(path): reason for path, reason in found.left_out.items()}
    stays |= list_special(folder) | dict.fromkeys(set(list_ignored(folder)) - set(goes), "ignored")
    return Manifest(goes, stays, find_secrets(folder, goes))


def find_secrets(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the files that look like secrets: by their names, and untracked ones by their contents."""
    untracked = list_untracked(folder)
    found, left = dict[str, str](), _READ_FILES
    for path in paths:
        name = os.path.basename(path)
        if _NAMES.fullmatch(name) and not _HARMLESS.fullmatch(name):
            found[path] = "its name"
        elif (untracked is None or path in untracked) and left > 0:
            left -= 1
            if holds_secret(_read(folder, path).decode("utf-8", "replace")):
                found[path] = "its content"
    return found


def remember(state: Path, folder: Path, paths: Iterable[str]) -> None:
    """Remember these contents as files that may be sent."""
    with (state / REMEMBERED).open("a") as file:
        file.writelines(f"{_digest(folder, path)}\n" for path in paths)


def leave_remembered(state: Path, folder: Path, found: dict[str, str]) -> dict[str, str]:
    """Return the files whose contents a person has not let go yet."""
    known = set[str]()
    with suppress(OSError):
        known = set((state / REMEMBERED).read_text().split())
    return {path: why for path, why in found.items() if _digest(folder, path) not in known}


def _digest(folder: Path, path: str) -> str:
    return hashlib.sha256(_read(folder, path)).hexdigest()


def _read(folder: Path, path: str) -> bytes:
    try:
        opened, _ = open_file(folder, folder / path)
    except ToolError:
        return b""
    with open(opened, "rb") as file:
        return file.read(_READ_BYTES)
