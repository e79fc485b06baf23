"""`git http-backend` for one request, as a CGI process: it reads the body and writes the reply."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

from swarm.core.errors import ConfigurationError
from swarm.workspace.git import config_variables
from swarm.workspace.git_command import BARE_ENVIRONMENT, NEVER_CHECKED

_BUFFER_BYTES = 1 << 20
"""Buffer for a reply while the body is still read, because git writes little before the body's end."""
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsPrefixes": "refs/swarm/base refs/swarm/part",
    # Comparing large objects with each other would take longer than sending them.
    "core.bigFileThreshold": "2m",
    "core.fsync": "committed",
    "core.fsyncMethod": "batch",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.receivepack": "true",
    "pack.threads": "1",
    "receive.autogc": "false",
    "receive.denyDeletes": "true",
    "receive.denyNonFastForwards": "true",
    "receive.fsckObjects": "true",
    "receive.shallowUpdate": "true",
    "receive.unpackLimit": "100",
    "safe.directory": "*",
    "uploadpack.allowReachableSHA1InWant": "true",
    **{f"receive.fsck.{fault}": "ignore" for fault in NEVER_CHECKED},
}


def git_environment(**settings: str) -> dict[str, str]:
    """Environment in which git obeys only the hub's settings and these."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, **BARE_ENVIRONMENT, "GIT_HTTP_EXPORT_ALL": "1", **config_variables({**_SETTINGS, **settings})}


async def run_git(*arguments: str, cwd: Path) -> None:
    """Run a git command; raises `OSError` with its error output if it fails."""
    process = await asyncio.create_subprocess_exec(
        "git",
        *arguments,
        cwd=cwd,
        env=git_environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, complaint = await process.communicate()
    if process.returncode:
        raise OSError(f"git {arguments[0]}: {complaint.decode(errors='replace').strip()[-500:]}")


class GitBackend:
    """One request handled by git. Call `end` in every case."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls, folder: Path, request: Mapping[str, str], most_bytes: int) -> GitBackend:
        """Start git on a request (CGI variables) in the hub's folder; a pushed pack may have `most_bytes`."""
        environment = git_environment(**{"receive.maxInputSize": str(max(1, most_bytes))})
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                "http-backend",
                env={**environment, "GIT_PROJECT_ROOT": str(folder), "REMOTE_USER": "swarm", **request},
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Its stderr goes to the hub's log; messages to the client are in the reply.
                stderr=None,
                process_group=0,
                limit=_BUFFER_BYTES,
            )
        except FileNotFoundError as error:
            raise ConfigurationError("git is not on the PATH of the hub; install git 2.38 or newer") from error
        return cls(process)

    async def feed(self, chunk: bytes) -> None:
        """Send a part of the body, and wait for room for the next one. An ended git ignores it."""
        with suppress(ConnectionError):
            self._stdin.write(chunk)
            await self._stdin.drain()

    async def read_head(self) -> tuple[int, dict[str, str]]:
        """End the body, and wait for the reply's status and headers."""
        with suppress(ConnectionError):
            self._stdin.write_eof()
        headers: dict[str, str] = {}
        async for line in self._stdout:
            name, _, value = line.decode("latin-1").strip().partition(": ")
            if not name:
                return int(headers.pop("Status", "200").split()[0]), headers
            headers[name] = value
        return 500, {}

    async def read_body(self) -> AsyncIterator[bytes]:
        """Yield the body of the reply in parts."""
        while chunk := await self._stdout.read(65_536):
            yield chunk

    async def ended_well(self) -> bool:
        """Wait until git has ended; returns whether it succeeded."""
        return await self._process.wait() == 0

    def end(self) -> None:
        """End git and all processes that it started, if they still run."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
