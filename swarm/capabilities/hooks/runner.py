"""Run one hook: a command in the agent's sandbox or as the worker, or a request to an address. Decides nothing.

An agent's processes can write in its home at any moment. Files made there therefore have a new name and are read through the descriptor
of their creation. Files for hooks on the host lie in the runtime's own folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import httpx2

from swarm.capabilities.hooks.answers import HookAnswer, fail, read_exit, read_ruling, read_text, refuse_unrun
from swarm.capabilities.hooks.events import HookEvent
from swarm.capabilities.hooks.judging import Judges
from swarm.capabilities.hooks.placement import Run
from swarm.core.errors import ConfigurationError, ModelError, ToolError, UnfitWorker
from swarm.definitions.hooks import Hook
from swarm.definitions.plugins.words import FOLDERS, name_of
from swarm.tools import Hold, ToolContext
from swarm.tools.processes import run_command, shell_argv
from swarm.tools.web.page import post

MAX_ANSWER_BYTES = 1024 * 1024
MAX_PROFILE_BYTES = 16 * 1024
SETS_PROFILE = ("SessionStart",)
"""Events whose hooks may set variables of later commands."""
_WIRED = 'exec <"$1" 2>"$2"; shift 2; exec "$@"'
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class HookCaller:
    """What every hook of one agent is run with."""

    context: ToolContext
    home: Path
    """A folder that the agent's processes see and write in."""
    private: Path
    """A folder of the runtime alone."""
    network: bool
    """Whether the agent's processes may use the network."""
    judges: Judges
    data: Path
    """The person's folder for the data of plugins, for hooks outside of the sandbox."""

    def run(self, hook: Hook, event: HookEvent, told: dict[str, Any], how: Run) -> HookAnswer:
        """Run the hook and return its answer. Raises only if it is interrupted."""
        began = time.monotonic()
        if how.place == "off":
            return refuse_unrun(event, hook, how.why)
        try:
            match hook.kind:
                case "command":
                    said = self._command(hook, event, told, how)
                case "http":
                    said = self._request(hook, event, told, how)
                case "prompt" | "agent":
                    said = self._judge(hook, event, told)
                case "mcp_tool":
                    said = read_text(event, hook, self.judges.call(hook, told, self.context))
        except ToolError as error:
            said = refuse_unrun(event, hook, str(error))
        return replace(said, seconds=time.monotonic() - began)

    # -- commands ------------------------------------------------------------------------------------------

    def _command(self, hook: Hook, event: HookEvent, told: dict[str, Any], how: Run) -> HookAnswer:
        on_host = how.place == "host"
        context = self._context(hook, how)
        if not on_host and context.confine is None:
            raise ToolError(f"it runs in a sandbox only{f' ({how.why})' if how.why else ''}, and this worker has none")
        argv = [] if on_host else shell_argv(context, context.confine)
        folder = self.private if on_host else self.home
        seen = _seen_as(argv, folder)
        told = told | {key: f"{seen}/{Path(told[key]).name}" for key in told if key.endswith("transcript_path")}
        with ExitStack() as stack:
            given = stack.enter_context(made_file(folder, "told.json", json.dumps(told).encode()))
            complaints = stack.enter_context(made_file(folder, "complaints"))
            # The launcher's own channels are its lifeline and one file for all output.
            wires = (f"{seen}/{given.path.name}", f"{seen}/{complaints.path.name}")
            profile = stack.enter_context(made_file(folder, "profile.sh")) if event.name in SETS_PROFILE else None
            if profile is not None:
                context.environment["CLAUDE_ENV_FILE"] = f"{seen}/{profile.path.name}"
            text = "" if on_host else _wired_script(hook, *wires)
            if on_host:
                argv = ["/bin/sh", "-c", _WIRED, "hook", *wires, *stack.enter_context(_copied(how, folder))]
            ran = run_command(context, text, None, hook.seconds, argv=argv)
            complaints.open.seek(0)
            err = complaints.open.read()
            written = b"" if profile is None else profile.open.read(MAX_PROFILE_BYTES + 1)
        said = read_exit(event, hook, ran.exit_code, _plain(ran.output), _plain(err), timed_out=ran.timed_out)
        if len(written) > MAX_PROFILE_BYTES:
            return fail(event, hook, f"it wrote more than {MAX_PROFILE_BYTES:,} bytes to $CLAUDE_ENV_FILE")
        return replace(said, profile=_plain(written).strip()) if said.outcome == "ok" else said

    def _context(self, hook: Hook, how: Run) -> ToolContext:
        """The context of a command's process."""
        folder = str(self.context.workspace)
        variables = {"CLAUDE_PROJECT_DIR": folder, "SWARM_PROJECT_DIR": folder, **how.variables}
        if hook.plugin:
            variables["CLAUDE_PLUGIN_ROOT"] = f"{self.context.environment.get(FOLDERS, '')}/{hook.plugin}"
            variables["CLAUDE_PLUGIN_DATA"] = str(self._data(hook, how))
        hold = None if how.place == "host" else Hold(network=self.network)
        return replace(self.context, environment={**self.context.environment, **variables}, hold=hold)

    def _data(self, hook: Hook, how: Run) -> Path:
        """The folder for the data of a hook's plugin, as the command sees it.

        It lasts on the person's own machine; in a sandbox it is this agent's alone.
        """
        if how.place == "host":
            folder = self.data / name_of(hook.plugin)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder
        # Made by the command itself: agents write in their home, and could have put a link there.
        argv = [] if self.context.confine is None else shell_argv(self.context, self.context.confine)
        return Path(_seen_as(argv, self.home)) / ".plugins" / name_of(hook.plugin)

    # -- addresses -----------------------------------------------------------------------------------------

    def _request(self, hook: Hook, event: HookEvent, told: dict[str, Any], how: Run) -> HookAnswer:
        reach = None
        if how.place == "sandbox":
            if self.context.reach is None:
                raise ToolError("agents of this worker have no network (SWARM_NETWORK)")
            reach = self.context.reach()
        known = os.environ if how.place == "host" else {}
        headers = {name: fill(value, hook.variables, known) for name, value in hook.headers.items()}
        try:
            status, body = post(
                hook.url,
                json.dumps(told).encode(),
                {"Idempotency-Key": told["event_id"].replace(" ", "/"), **headers, "Content-Type": "application/json"},
                reach,
                hook.seconds,
                self.context.check,
            )
        except httpx2.HTTPError as error:
            late = isinstance(error, httpx2.TimeoutException)
            why = f"{hook.url} {'did not answer in time' if late else f'could not be asked: {error}'}"
            return fail(event, hook, why, outcome="timed_out" if late else "failed")
        if not 200 <= status < 300:
            return fail(event, hook, f"{hook.url} answered with status {status}")
        return read_text(event, hook, body[:MAX_ANSWER_BYTES].decode("utf-8", "replace"))

    # -- models --------------------------------------------------------------------------------------------

    def _judge(self, hook: Hook, event: HookEvent, told: dict[str, Any]) -> HookAnswer:
        try:
            ruling = self.judges.judge(hook, told, self.context)
        except TimeoutError:
            return fail(event, hook, f"it took longer than {hook.seconds:g} s", outcome="timed_out")
        except (ModelError, UnfitWorker, ConfigurationError, ValueError, RecursionError) as error:
            return fail(event, hook, str(error))
        return read_ruling(event, hook, ok=ruling.ok, reason=ruling.reason)


@dataclass(frozen=True)
class Made:
    """A new file that is still open."""

    path: Path
    open: IO[bytes]


@contextmanager
def made_file(folder: Path, name: str, content: bytes = b"") -> Iterator[Made]:
    """A file under a new name, removed at the end of the block."""
    path = folder / f"hook-{secrets.token_hex(8)}-{name}"
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(opened, "w+b") as file:
            file.write(content)
            file.flush()
            yield Made(path, file)
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _copied(how: Run, folder: Path) -> Iterator[tuple[str, ...]]:
    """The command line for the host; a pinned script is copied, from the compared bytes, into a folder of its own."""
    if not how.pinned:
        yield how.argv
        return
    with tempfile.TemporaryDirectory(prefix="hook-", dir=folder) as alone:
        copy = Path(alone) / Path(how.pinned).name
        copy.write_bytes(how.content)
        yield (*how.argv[: how.at], str(copy), *how.argv[how.at + 1 :])


def _wired_script(hook: Hook, given: str, complaints: str) -> str:
    """The script of a command in the sandbox, which reads one file and complains to another."""
    command = hook.command if hook.args is None else shlex.join(["exec", hook.command, *hook.args])
    data = 'mkdir -p "$CLAUDE_PLUGIN_DATA"\n' if hook.plugin else ""
    return f"exec <{shlex.quote(given)} 2>{shlex.quote(complaints)}\n{data}{command}"


def fill(text: str, allowed: tuple[str, ...], known: Mapping[str, str]) -> str:
    """Fill a header with the variables that it may name; all others are empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return known.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)


def _plain(text: bytes) -> str:
    return text[:MAX_ANSWER_BYTES].decode("utf-8", "replace").replace("\0", "")


def _seen_as(argv: list[str], home: Path) -> str:
    """The command line with the private folder's path as the command sees it: a sandbox may mount it elsewhere."""
    said = (word.removeprefix("set=TMPDIR=") for word in argv if word.startswith("set=TMPDIR="))
    return next(said, str(home))
