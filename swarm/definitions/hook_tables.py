"""Reads `hooks` tables, as Claude Code's settings files and definitions have them, and Codex's `hooks.json`.

Each event has a list of groups, and each group a matcher and handlers. Unsupported parts are named in one line per table.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swarm.definitions.hooks import (
    DECIDED,
    EVENTS,
    MAX_SECONDS,
    NO_MOMENT,
    Hook,
    Origin,
)
from swarm.definitions.names import suggest
from swarm.definitions.sources import enumerate_briefly, show

MAX_HOOKS = 100
MAX_TEXT_BYTES = 16 * 1024
_FIELDS = {
    "command": ("command", "args", "async", "shell"),
    "http": ("url", "headers", "allowedEnvVars"),
    "prompt": ("prompt", "model", "continueOnBlock"),
    "agent": ("prompt", "model", "continueOnBlock"),
    "mcp_tool": ("server", "tool", "input"),
}
_COMMON = ("type", "timeout", "if", "statusMessage", "onFailure")
_SECONDS = {"prompt": 30.0, "agent": 60.0, "UserPromptSubmit": 30.0}
"""Time limits without a `timeout`, by type, else by event."""
_SHELLS = ("", "bash", "sh")


def read_hooks(table: Any, origin: Origin, source: str) -> tuple[list[Hook], list[str]]:
    """Return the hooks of a `hooks` table, and a message for each part that cannot be used; never raises."""
    reading = _HookReader(origin, source)
    if isinstance(table, Mapping):
        for event, groups in table.items():
            reading.read_event(str(event), groups)
    elif table is not None:
        reading.faults.append('it is not a table; write for example {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}')
    return reading.hooks[:MAX_HOOKS], list(reading.tell())


class _HookReader:
    def __init__(self, origin: Origin, source: str) -> None:
        self.origin, self.source = origin, source
        self.hooks: list[Hook] = []
        self.faults: list[str] = []
        self.events: list[str] = []
        self.types: list[str] = []
        self.fields: list[str] = []

    def tell(self) -> Iterator[str]:
        named = {"events": self.events, "types": self.types, "fields": self.fields}
        told = [f"the {what} {enumerate_briefly(list(dict.fromkeys(found)))}" for what, found in named.items() if found]
        if told:
            yield f"not supported here and not run: {'; '.join(told)}"
        if len(self.hooks) > MAX_HOOKS:
            yield f"more than {MAX_HOOKS} hooks; the rest are not run"
        yield from dict.fromkeys(self.faults)

    def read_event(self, event: str, groups: Any) -> None:
        if why := NO_MOMENT.get(event):
            self.faults.append(f"hooks of `{event}` are not run: {why}")
            return
        if event not in EVENTS:
            self.events.append(show(event) + suggest(event, EVENTS))
            return
        for group in groups if isinstance(groups, list) else [groups]:
            matcher = group.get("matcher") if isinstance(group, Mapping) else None
            handlers = group.get("hooks") if isinstance(group, Mapping) else None
            if not isinstance(handlers, list) or not isinstance(matcher, str | None):
                self.faults.append(f'`{event}` has an entry that is not like {{"matcher": "Bash", "hooks": [...]}}')
            elif fault := _fault_of_matcher(matcher or ""):
                self.faults.append(f"the matcher {show(matcher or '')} of `{event}` {fault}")
            else:
                for handler in handlers:
                    self.read_handler(event, matcher or "", handler)

    def read_handler(self, event: str, matcher: str, handler: Any) -> None:
        kind = handler.get("type", "command") if isinstance(handler, Mapping) else None
        if not isinstance(kind, str):
            self.faults.append(f"`{event}` has a handler that is not a table with a `type`")
            return
        if kind not in _FIELDS:
            self.types.append(f"{show(kind)} ({event})")
            return
        self.fields += [show(key) for key in map(str, handler) if key not in (*_COMMON, *_FIELDS[kind])]
        try:
            given = _READERS[kind](handler)
            if given.get("prompt") and event not in DECIDED:
                raise ValueError(f"a model can decide nothing there; it can at {', '.join(DECIDED)}")
            usual = _SECONDS.get(kind) or _SECONDS.get(event, MAX_SECONDS)
            given |= {"seconds": _read_seconds(handler.get("timeout"), usual), "condition": _text(handler, "if")}
            given |= {"required": _text(handler, "onFailure") == "block"}
        except ValueError as error:
            self.faults.append(f"a hook of `{event}` cannot be run: {error}")
            return
        self.hooks.append(
            Hook(event=event, matcher=matcher, kind=kind, origin=self.origin, source=self.source, **given)
        )


def _read_command(handler: Mapping[str, Any]) -> dict[str, Any]:
    args = handler.get("args")
    if args is not None and not (isinstance(args, list) and all(isinstance(arg, str) for arg in args)):
        raise ValueError("`args` is not a list of texts")
    if _text(handler, "shell") not in _SHELLS:
        raise ValueError(f"there is no shell {show(str(handler['shell']))} here")
    command = _text(handler, "command", needed=True)
    return {"command": command, "args": args, "listens": handler.get("async") is True}


def _read_http(handler: Mapping[str, Any]) -> dict[str, Any]:
    url, headers, names = _text(handler, "url", needed=True), handler.get("headers"), handler.get("allowedEnvVars")
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"{show(url)} is not a URL that begins with http:// or https://")
    if headers is not None and not (isinstance(headers, Mapping) and all(isinstance(v, str) for v in headers.values())):
        raise ValueError("`headers` is not a table of texts")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("`allowedEnvVars` is not a list of names")
    return {"url": url, "headers": dict(headers or {}), "variables": tuple(names or ())}


def _read_prompt(handler: Mapping[str, Any]) -> dict[str, Any]:
    words = {"prompt": _text(handler, "prompt", needed=True), "model": _text(handler, "model")}
    return {**words, "goes_on": handler.get("continueOnBlock") is True}


def _read_call(handler: Mapping[str, Any]) -> dict[str, Any]:
    given = handler.get("input", {})
    if not isinstance(given, Mapping):
        raise ValueError("`input` is not a table")
    if len(json.dumps(given)) > MAX_TEXT_BYTES:
        raise ValueError(f"its `input` has more than {MAX_TEXT_BYTES // 1024} KiB")
    return {name: _text(handler, name, needed=True) for name in ("server", "tool")} | {"input": dict(given)}


_READERS = {
    **{"command": _read_command, "http": _read_http, "mcp_tool": _read_call},
    **{"prompt": _read_prompt, "agent": _read_prompt},
}


def _text(handler: Mapping[str, Any], key: str, *, needed: bool = False) -> str:
    value = handler.get(key, "")
    if not isinstance(value, str) or "\0" in value or (needed and not value.strip()):
        raise ValueError(f"its `{key}` is not text")
    if len(value.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise ValueError(f"its `{key}` has more than {MAX_TEXT_BYTES // 1024} KiB")
    return value


def _read_seconds(value: Any, usual: float) -> float:
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"its `timeout` is {show(str(value))}, not a positive number of seconds")
    return min(float(value), MAX_SECONDS)


def _fault_of_matcher(matcher: str) -> str:
    if len(matcher) > 1_000:
        return "is too long"
    try:
        re.compile("" if matcher == "*" else matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is not a valid pattern: {error}"
    return ""
