"""Results of a map: a file of JSON lines that can be continued, or stdout.

Guarantee: a line in the file is never written again, however the last command ended. An incomplete last line is removed and rewritten.
The file's contents are the only record of written lines.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from swarm.capabilities.mapping.maps import LineResult
from swarm.cli.output import plain_json
from swarm.core.errors import ConfigurationError


class ResultFile:
    """Results of one map as JSON lines. Only completed lines are written, each once."""

    def __init__(self, map_id: str, path: Path | None, *, resumed: bool) -> None:
        self.map_id, self.path = map_id, path
        self.written: set[int] = set()
        """Numbers of the lines in the file."""
        if path is None:
            self._descriptor = os.dup(sys.stdout.fileno())
            if resumed and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                self._take_up()
        else:
            self._descriptor = _open(path)
            try:
                self._take_up()
            except ConfigurationError:
                os.close(self._descriptor)
                raise

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is not None:
            os.fsync(self._descriptor)
        os.close(self._descriptor)

    def write(self, result: LineResult) -> None:
        """Write a result, unless the file has it. Raises `OSError`; a partial line is removed on resume."""
        if not result.ok or result.line in self.written:
            return
        line = json.dumps(describe_result(self.map_id, result), ensure_ascii=False)
        data = memoryview((plain_json(line) if self.path is None else line).encode() + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]
        self.written.add(result.line)

    def _take_up(self) -> None:
        name = str(self.path or "stdout")
        with open(f"/dev/fd/{self._descriptor}" if self.path is None else name, "rb") as file:
            whole = 0
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    whole += len(line)
                    self._note(line, f"{name}, line {number}")
        # The last line may be incomplete.
        os.ftruncate(self._descriptor, whole)

    def _note(self, line: bytes, where: str) -> None:
        try:
            found = json.loads(line)
            map_id, number = found["map"], int(found["line"])
        except (ValueError, KeyError, TypeError):
            map_id, number = "", 0
        if map_id == self.map_id:
            self.written.add(number)
        elif self.path is not None:
            held = f"a result of {map_id}" if map_id else "something else"
            raise ConfigurationError(f"{where} holds {held}, not of {self.map_id}; name another file with --output")


def check_new(path: Path | None) -> None:
    """Check, before a new map is made, that its results can be written. Raises `ConfigurationError`."""
    if path is None:
        return
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is not a regular file; name another one")
    if path.exists() and path.stat().st_size:
        raise ConfigurationError(f"{path} is not empty; name another file, or continue its map: swarm map --resume ID")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"the folder of {path} does not exist")


def describe_result(map_id: str, result: LineResult) -> dict[str, Any]:
    """Describe a result for programs: `result` for a completed line, else `state` and `reason`."""
    shown: dict[str, Any] = {"map": map_id, "line": result.line, "input": result.input}
    if result.ok:
        shown["result"] = result.text if result.data is None else result.data
    else:
        shown |= {"state": result.state, "reason": result.reason}
    about = {"job": result.job_id, "attempts": result.attempts, "tokens": result.tokens}
    return (
        shown | about | {"cost_usd": result.cost_usd and round(result.cost_usd, 6), "seconds": round(result.seconds, 3)}
    )


def _open(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigurationError(f"another command writes to {path}; wait for it, or name another file") from None
    return descriptor
