"""The session of a harness: its own record of the conversation, carried from host to host with the agent.

The program in the box wrote it, and the agent can write there, too, so it is data: regular files of known names, of a bounded
size, read without following links, and given back to a program in a box alone. Each part that a file grew by is kept like a
long output of the agent. A lost or refused session costs no work, because the next prompt holds all that the journal knows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from swarm.core.errors import ObjectMissing, ObjectRefused, ObjectsAway, ToolError
from swarm.core.log import EventLog
from swarm.runtime.segment import Segment
from swarm.store.values import OutputBounds
from swarm.workspace.files import open_file, opened_folder

log = EventLog("swarm.harness")
MAX_BYTES = 24 << 20
"""The largest session that is carried."""
_MOST_FILES = 64
_DEEPEST = 8
_PREFIX = "session."
_KEY_OF_NAME = f"{_PREFIX}name"
_SESSION = re.compile(r"[\w.:-]{1,200}")
_NAME = re.compile(r"[\w.@+-][\w.@+ -]*")


class Session:
    """The session files of one running agent, in the home of its box."""

    def __init__(self, segment: Segment, home: Path, patterns: tuple[str, ...]) -> None:
        """`patterns` name the files, relative to the home."""
        self._segment, self._home, self._patterns = segment, home, patterns
        self._bounds = OutputBounds(segment.settings.agent_outputs_mib << 20, segment.settings.job_outputs_mib << 20)
        self._known: dict[str, tuple[int, bytes]] = {}
        """Kept bytes of each file, and their hash."""
        self._number = 0
        self._refused = ""
        self.name = ""
        """The program's own name of its session, if it chooses one."""

    def restore(self) -> bool:
        """Write the kept files into an empty home; returns whether there are any."""
        files: dict[str, bytearray] = {}
        try:
            for key, text in self._segment.store.outputs.all(self._segment.spec.agent_id):
                if not key.startswith(_PREFIX):
                    continue
                if key == _KEY_OF_NAME:
                    self.name = text if _SESSION.fullmatch(text) else ""
                    continue
                part = json.loads(text)
                path, at, data = part["path"], int(part["at"]), zlib.decompress(base64.b64decode(part["data"]))
                if not at:
                    files[path] = bytearray()
                content = files.setdefault(path, bytearray())
                if len(content) != at or not self._is_known(path):
                    raise ValueError(f"{path} has a gap at {at}")
                content += data
                if sum(map(len, files.values())) > MAX_BYTES:
                    raise ValueError("it is too large")
        except (ValueError, KeyError, TypeError, zlib.error, ObjectMissing, ObjectsAway, ObjectRefused) as error:
            log.warning("harness.session_lost", agent_id=self._segment.spec.agent_id, why=error)
            return False
        for path, content in files.items():
            place = self._home / path
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            place.write_bytes(content)
            self._known[path] = len(content), _hash(content)
        return bool(files)

    def keep_name(self, name: str) -> None:
        """Keep the program's name of its session."""
        if name != self.name and _SESSION.fullmatch(name):
            self.name = name
            self._segment.store.outputs.keep(self._segment.claim, _KEY_OF_NAME, name, self._bounds)

    def keep(self) -> None:
        """Keep the new parts of the files. A session that cannot be carried is left, once with a line in the log."""
        if self._refused:
            return
        try:
            for path, content in self._read():
                self._keep_file(path, content)
        except (ToolError, OSError, ValueError) as error:
            self._refused = str(error)
            log.warning("harness.session_not_kept", agent_id=self._segment.spec.agent_id, why=error)

    def text(self) -> str:
        """Return the text of all files."""
        try:
            return "\n".join(content.decode("utf-8", "replace") for _, content in self._read())
        except (ToolError, OSError, ValueError):
            return ""

    def _keep_file(self, path: str, content: bytes) -> None:
        size, known = self._known.get(path, (0, b""))
        at = size if len(content) >= size and _hash(content[:size]) == known else 0
        if at == len(content) and at:
            return
        data = base64.b64encode(zlib.compress(content[at:])).decode()
        self._number += 1
        key = f"{_PREFIX}{self._segment.claim.generation}.{self._number}"
        part = json.dumps({"path": path, "at": at, "data": data})
        kept = self._segment.store.outputs.keep(self._segment.claim, key, part, self._bounds)
        if kept.over:
            raise ValueError(f"there is no room for it ({kept.over})")
        self._known[path] = len(content), _hash(content)

    def _read(self) -> Iterator[tuple[str, bytes]]:
        total = 0
        for number, path in enumerate(self._find()):
            opened, status = open_file(self._home, self._home / path)
            total += status.st_size
            if number >= _MOST_FILES or total > MAX_BYTES:
                os.close(opened)
                raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB, or has more than {_MOST_FILES} files")
            with open(opened, "rb") as file:
                content = file.read(MAX_BYTES)
            yield path, _whole_lines(path, content) if path.endswith(".jsonl") else content

    def _find(self) -> list[str]:
        found: list[str] = []
        todo = [PurePosixPath()]
        while todo and len(found) <= _MOST_FILES:
            folder = todo.pop()
            try:
                with opened_folder(self._home, self._home / folder) as opened, os.scandir(opened) as entries:
                    for entry in sorted(entries, key=lambda one: one.name):
                        path = folder / entry.name
                        if entry.is_dir(follow_symlinks=False) and self._leads_on(path):
                            todo.append(path)
                        elif entry.is_file(follow_symlinks=False) and self._is_known(str(path)):
                            found.append(str(path))
            except ToolError:
                continue
        return sorted(found)

    def _leads_on(self, folder: PurePosixPath) -> bool:
        depth = len(folder.parts)
        heads = ("/".join(pattern.split("/")[:depth]) for pattern in self._patterns)
        return depth <= _DEEPEST and any(_matches(str(folder), head) for head in heads)

    def _is_known(self, path: str) -> bool:
        return any(_matches(path, pattern) for pattern in self._patterns)


def _hash(content: bytes | bytearray) -> bytes:
    return hashlib.sha256(content).digest()


def _matches(path: str, pattern: str) -> bool:
    """Whether each part of a path matches that of the pattern, and is a plain name."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        fnmatchcase(part, want) and _NAME.fullmatch(part) and part not in (".", "..")
        for part, want in zip(parts, wanted, strict=True)
    )


def _whole_lines(path: str, content: bytes) -> bytes:
    """Return the whole lines. Raises `ValueError` if one is no JSON object."""
    whole = content[: content.rfind(b"\n") + 1]
    for line in whole.splitlines():
        if line.strip() and not isinstance(json.loads(line), dict):
            raise ValueError(f"{path} has a line that is no JSON object")
    return whole
