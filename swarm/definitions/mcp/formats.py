"""Reads one entry of an MCP configuration, in any of the known formats, into a `Server`. Pure.

The keys of Claude Code's `mcpServers` (`.mcp.json`), Codex's `[mcp_servers.NAME]` and OpenCode's `mcp.NAME` hardly collide, so one
reader handles them all. Where a key means different things, the dialect decides. Unknown keys are reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from swarm.core.errors import ConfigurationError
from swarm.definitions.mcp.servers import Approval, OAuth, Scope, Server, Transport

Dialect = Literal["claude", "codex", "opencode"]

MAX_TEXT = 16 * 1024
"""Maximum characters of one value, because the job's record contains it."""
_TRANSPORTS: Mapping[str, Transport] = {
    **{"stdio": "stdio", "local": "stdio", "command": "stdio"},
    **{"http": "http", "streamablehttp": "http", "remote": "http", "sse": "sse"},
}
_APPROVALS: Mapping[str, Approval] = {"prompt": "ask", "approve": "allow", "auto": "auto"}
_NOISE = frozenset(
    ("description", "name", "title", "id", "version", "icon", "note", "notes", "comment", "$schema", "env_file")
)


class Unreadable(ConfigurationError):
    """An entry that is not a usable server. The message gives the reason, without the entry's name."""


@dataclass
class ServerEntry:
    """The server of one configuration entry, with notes."""

    server: Server | None
    """None if the entry switches the name off."""
    notes: list[str] = field(default_factory=list)
    """Keys without effect, in sentences."""


def read_entry(name: str, value: Any, dialect: Dialect, *, scope: Scope = "user", source: str = "") -> ServerEntry:
    """Read the entry of one name. Raises `Unreadable`."""
    if not isinstance(value, Mapping):
        raise Unreadable("it is not a table")
    keys = _Keys(value)
    if keys.take_flag("disabled", default=False) or not keys.take_flag("enabled", default=True):
        return ServerEntry(None)
    given: dict[str, Any] = {"name": name, "scope": scope, "source": source, "transport": _read_transport(keys)}
    given |= _read_process(keys, dialect) if given["transport"] == "stdio" else _read_address(keys, dialect)
    given |= _read_limits(keys, dialect) | _read_choice(keys)
    try:
        return ServerEntry(Server(**given), keys.rest())
    except ValidationError as error:
        first = error.errors()[0]
        raise Unreadable(f"`{first['loc'][0]}` cannot be used: {first['msg']}") from None


class _Keys:
    """An entry's keys, taken one by one; `start_up`, `startUp` and `start-up` are one key."""

    def __init__(self, entry: Mapping[Any, Any]) -> None:
        self._left = {re.sub(r"[-_\s]", "", str(key)).lower(): (str(key), value) for key, value in entry.items()}

    def take(self, *names: str) -> Any:
        """Take these keys and return the first value that is not null."""
        found = [self._left.pop(name)[1] for name in names if name in self._left]
        return next((value for value in found if value is not None), None)

    def has(self, *names: str) -> bool:
        return any(name in self._left for name in names)

    def take_text(self, *names: str) -> str:
        """Take a text; empty if there is none."""
        value = self.take(*names)
        if value is not None and not isinstance(value, str):
            raise Unreadable(f"`{names[0]}` is not text")
        return _check(value or "", names[0])

    def take_texts(self, *names: str) -> list[str]:
        """Take a list of texts; numbers and booleans in it become text."""
        value = self.take(*names)
        if value is None:
            return []
        if not isinstance(value, list) or any(isinstance(one, list | Mapping) or one is None for one in value):
            raise Unreadable(f"`{names[0]}` is not a list of texts")
        return [_check(_spell(one), names[0]) for one in value]

    def take_table(self, *names: str) -> dict[str, str]:
        """Take a table of texts by name."""
        value = self.take(*names)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or any(
            isinstance(one, list | Mapping) or one is None for one in value.values()
        ):
            raise Unreadable(f"`{names[0]}` is not a table of texts")
        return {str(name): _check(_spell(one), names[0]) for name, one in value.items()}

    def take_flag(self, name: str, *, default: bool) -> bool:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise Unreadable(f"`{name}` is neither true nor false")
        return default if value is None else value

    def take_number(self, *names: str) -> float | None:
        value = self.take(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise Unreadable(f"`{names[0]}` is not a positive number")
        return float(value)

    def take_words(self, *names: str) -> str:
        """Take words separated by spaces, or a list of words."""
        value = next((self._left[name][1] for name in names if name in self._left), None)
        return " ".join(self.take_texts(*names)) if isinstance(value, list) else self.take_text(*names)

    def leave(self, name: str, inner: _Keys) -> None:
        """Add the remaining keys of a nested table to those of this entry."""
        self._left |= {f"{name}.{key}": (f"{name}.{written}", value) for key, (written, value) in inner._left.items()}

    def rest(self) -> list[str]:
        """List the remaining keys in one line."""
        names = [f"`{written}`" for key, (written, _) in self._left.items() if key not in _NOISE]
        return [f"without effect here: {', '.join(names[:12])}"] if names else []


def _read_transport(keys: _Keys) -> Transport:
    word = keys.take_text("type", "transport")
    if not word:
        return "http" if keys.has("url", "httpurl", "serverurl") else "stdio"
    found = _TRANSPORTS.get(re.sub(r"[-_\s]", "", word).lower())
    if found is None:
        raise Unreadable(f"its type {word[:40]!r} is not supported (stdio, http and sse are)")
    return found


def _read_process(keys: _Keys, dialect: Dialect) -> dict[str, Any]:
    program = keys.take("command")
    words = [program] if isinstance(program, str) else program
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise Unreadable("it has neither a `command` nor a `url`" if program is None else "`command` is not a program")
    env = {name: f"${{{name}}}" for name in keys.take_texts("envvars")}
    env |= keys.take_table("env", "environment")
    return {
        "command": _translate(_check(words[0], "command"), dialect),
        "args": tuple(_translate(word, dialect) for word in [*words[1:], *keys.take_texts("args")]),
        "env": {name: _translate(value, dialect) for name, value in env.items()},
        "cwd": _translate(keys.take_text("cwd"), dialect),
    }


def _read_address(keys: _Keys, dialect: Dialect) -> dict[str, Any]:
    url = _translate(keys.take_text("url", "httpurl", "serverurl"), dialect)
    if not re.match(r"https?://|\$\{", url):
        raise Unreadable("its `url` is no http or https URL" if url else "it has no `url`")
    headers = keys.take_table("headers", "httpheaders")
    headers |= {name: f"${{{variable}}}" for name, variable in keys.take_table("envhttpheaders").items()}
    if token := keys.take_text("bearertokenenvvar"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    told = {"url": url, "headers": {name: _translate(value, dialect) for name, value in headers.items()}}
    oauth = _read_oauth(keys, dialect)
    return told if oauth is None else {**told, "oauth": oauth}


def _read_oauth(keys: _Keys, dialect: Dialect) -> OAuth | None:
    """Read the OAuth settings; Codex has the scopes beside `oauth`."""
    scopes, value = keys.take_words("scopes"), keys.take("oauth")
    if value is False:
        return OAuth(off=True)
    if value not in (None, True) and not isinstance(value, Mapping):
        raise Unreadable("`oauth` is neither a table nor false")
    inner = _Keys(value if isinstance(value, Mapping) else {})
    port = inner.take_number("callbackport") or 0
    if port > 65_535:
        raise Unreadable("`oauth.callbackPort` is not a port")
    told = {
        "client_id": _translate(inner.take_text("clientid"), dialect),
        "client_secret": _translate(inner.take_text("clientsecret"), dialect),
        "issuer": _translate(inner.take_text("issuer"), dialect),
        "scope": inner.take_words("scope", "scopes") or scopes,
        "callback_port": int(port),
    }
    keys.leave("oauth", inner)
    return OAuth(**told) if any(told.values()) else None


def _read_limits(keys: _Keys, dialect: Dialect) -> dict[str, Any]:
    """Read the time limits. A bare `timeout` in milliseconds limits calls in Claude Code's format, the start in OpenCode's."""
    bare = keys.take_number("timeout")
    start, start_ms = keys.take_number("startuptimeoutsec"), keys.take_number("startuptimeoutms")
    call = keys.take_number("tooltimeoutsec")
    if start_ms is not None and start is None:
        start = start_ms / 1000
    if bare is not None and dialect == "opencode":
        start = start or bare / 1000
    elif bare is not None:
        call = call or bare / 1000
    found = {"start_seconds": start, "call_seconds": call}
    return {name: value for name, value in found.items() if value is not None}


def _read_choice(keys: _Keys) -> dict[str, Any]:
    only = keys.take("enabledtools")
    listed = None if only is None else tuple(_Keys({"enabledtools": only}).take_texts("enabledtools"))
    approvals = {"*": keys.take_text("defaulttoolsapprovalmode")}
    tools = keys.take("tools")
    if isinstance(tools, Mapping):
        approvals |= {
            str(tool): _Keys(one).take_text("approvalmode") for tool, one in tools.items() if isinstance(one, Mapping)
        }
    elif tools is not None:
        raise Unreadable("`tools` is not a table; `enabledTools` lists the tools to offer")
    if unknown := [word for word in approvals.values() if word and word not in _APPROVALS]:
        raise Unreadable(f"the approval {unknown[0][:40]!r} is not auto, prompt or approve")
    return {
        "tools": listed,
        "without": tuple(keys.take_texts("disabledtools")),
        "approvals": {tool: _APPROVALS[word] for tool, word in approvals.items() if word},
        "required": keys.take_flag("required", default=False),
        "always_load": keys.take_flag("alwaysload", default=False),
    }


def _translate(text: str, dialect: Dialect) -> str:
    """Translate OpenCode's `{env:NAME}`, which is empty if the variable is not set."""
    if dialect != "opencode":
        return text
    if "{file:" in text:
        raise Unreadable("`{file:…}` is not read here; give it as a variable, {env:NAME}")
    return re.sub(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${\1:-}", text)


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(text: str, key: str) -> str:
    if len(text) > MAX_TEXT or "\0" in text:
        raise Unreadable(f"`{key}` is longer than {MAX_TEXT:,} characters, or contains a null character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable(f"`{key}` is not text that UTF-8 can hold") from None
    return text
