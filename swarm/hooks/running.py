"""Runs one hook: a command, in the agent's sandbox or as the worker, or a request to an address. Nothing is decided here."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from swarm.definitions.hooks import Hook
from swarm.errors import ToolError
from swarm.hooks.answers import Said, fail, read_exit, read_text, refuse_unrun
from swarm.hooks.choosing import Place
from swarm.hooks.events import Event
from swarm.tools import Hold, ToolContext
from swarm.tools.processes import run_command, shell_argv
from swarm.tools.web.fetching import post

TRANSCRIPT = "transcript.jsonl"
"""The conversation, in the agent's private folder."""
MAX_ANSWER_BYTES = 1024 * 1024
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Calling:
    """What every hook of one agent is run with."""

    context: ToolContext
    home: Path
    """A folder that its processes see."""
    network: bool
    """Its processes may use the network."""

    def run(self, hook: Hook, event: Event, told: dict[str, Any], place: Place) -> Said:
        """What it says. Raises only for being told to stop."""
        began = time.monotonic()
        if place == "off":
            return refuse_unrun(event, hook, "this worker runs no hooks of people's (SWARM_USER_HOOKS)")
        try:
            ask = self._command if hook.kind == "command" else self._request
            said = ask(hook, event, told, place)
        except ToolError as error:
            said = refuse_unrun(event, hook, str(error))
        return replace(said, seconds=time.monotonic() - began)

    # -- commands ------------------------------------------------------------------------------------------

    def _command(self, hook: Hook, event: Event, told: dict[str, Any], place: Place) -> Said:
        variables = {
            "CLAUDE_PROJECT_DIR": str(self.context.workspace),
            "SWARM_PROJECT_DIR": str(self.context.workspace),
        }
        hold = Hold(network=self.network) if place == "sandbox" else None
        context = replace(self.context, environment={**self.context.environment, **variables}, hold=hold)
        if place == "sandbox" and context.confine is None:
            raise ToolError("it runs in a sandbox only, and there is none")
        argv = shell_argv(context, context.confine if place == "sandbox" else None)
        name, seen = secrets.token_hex(6), _seen_as(argv, self.home)
        told = told | {key: f"{seen}/{TRANSCRIPT}" for key in told if key.endswith("transcript_path")}
        given, complaints = self.home / f"hook-{name}.json", self.home / f"hook-{name}.err"
        # The launcher's own channels are its lifeline and one file for all output.
        wires = [shlex.quote(f"{seen}/{path.name}") for path in (given, complaints)]
        text = hook.command if hook.args is None else shlex.join(["exec", hook.command, *hook.args])
        try:
            given.write_text(json.dumps(told), "utf-8")
            complaints.touch()
            ran = run_command(context, f"exec <{wires[0]} 2>{wires[1]}\n{text}", None, hook.seconds, argv=argv)
            err = complaints.read_bytes()
        finally:
            given.unlink(missing_ok=True)
            complaints.unlink(missing_ok=True)
        plain = [text[:MAX_ANSWER_BYTES].decode("utf-8", "replace").replace("\0", "") for text in (ran.output, err)]
        return read_exit(event, hook, ran.exit_code, *plain, timed_out=ran.timed_out)

    # -- addresses -----------------------------------------------------------------------------------------

    def _request(self, hook: Hook, event: Event, told: dict[str, Any], place: Place) -> Said:
        reach = None
        if place == "sandbox":
            if self.context.reach is None:
                raise ToolError("agents of this worker have no network (SWARM_NETWORK)")
            reach = self.context.reach()
        known = os.environ if place == "host" else {}
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


def fill(text: str, allowed: tuple[str, ...], known: Mapping[str, str]) -> str:
    """A header with the variables that it may name; all others are empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return known.get(name, "") if name in allowed else ""

    return _VARIABLE.sub(value, text)


def _seen_as(argv: list[str], home: Path) -> str:
    """Where a command sees the private folder: a sandbox may have it in another place."""
    said = (word.removeprefix("set=TMPDIR=") for word in argv if word.startswith("set=TMPDIR="))
    return next(said, str(home))
