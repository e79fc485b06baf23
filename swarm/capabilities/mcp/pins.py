"""What a server offers, kept with the job by the first request.

Every agent of the job begins with the same tools of it, on every host. A server's later changes replace the offer (`changes.py`). Nothing
here connects to a server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from swarm.definitions.mcp.servers import MAX_NAME, Server, tool_name
from swarm.store.keyspace import Keyspace

MAX_DESCRIPTION = 2_048
"""Characters of a tool's description and of a server's instructions, which every request repeats."""
CallKind = Literal["effect", "look", "idempotent"]
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf")


class PinnedTool(BaseModel):
    """One tool of a server."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The server's name for the tool."""
    called: str
    """The tool's name for models."""
    description: str = ""
    parameters: dict[str, Any] = {"type": "object"}
    """The JSON schema of its input."""
    kind: CallKind = "effect"
    """The kind of the tool's calls: the server's own annotation if it is trusted, else `effect`."""
    gone: bool = False
    """The server no longer lists the tool. Agents that have it can still call it, which another process of the server may know."""


class Pin(BaseModel):
    """One server's offer to a job."""

    model_config = ConfigDict(frozen=True)

    server: str
    digest: str
    instructions: str = ""
    tools: tuple[PinnedTool, ...] = ()
    resources: bool = False
    prompts: bool = False
    offer: str = ""
    """Digest of the server's list of tools."""
    left_out: tuple[str, ...] = ()
    """Tools that cannot be given to a model, with the reasons."""


def make_pin(server: Server, about: Mapping[str, Any]) -> Pin:
    """Make a pin from a server's description of itself. Pure."""
    tools: dict[str, PinnedTool] = {}
    left_out = []
    for said in about["tools"]:
        if not server.offers(said["name"]):
            continue
        if fault := "it runs only as a task" if said.get("as_task") else _find_fault(said["schema"]):
            left_out.append(f"{said['name']}: {fault}")
            continue
        called = _name(server, said["name"], tools)
        tools[called] = PinnedTool(
            name=said["name"],
            called=called,
            description=said["description"][:MAX_DESCRIPTION],
            parameters=_usable(said["schema"]),
            kind=_kind(server, said),
        )
    return Pin(
        server=server.name,
        digest=server.digest,
        instructions=about["instructions"][:MAX_DESCRIPTION],
        tools=tuple(tools.values()),
        resources=about["resources"],
        prompts=about["prompts"],
        offer=about.get("offer", ""),
        left_out=tuple(left_out),
    )


def follow(before: Pin, pin: Pin) -> Pin:
    """Return a changed offer with the tools that it no longer has. Pure."""
    names = {tool.called for tool in pin.tools}
    gone = (tool.model_copy(update={"gone": True}) for tool in before.tools if tool.called not in names)
    return pin.model_copy(update={"tools": (*pin.tools, *gone)})


def is_believed(server: Server, tool: str) -> bool:
    """Whether to trust a server's annotations of a tool: it is the person's own, or they allow the tool's calls."""
    return server.scope == "user" or server.approvals.get(tool, server.approvals.get("*")) == "allow"


def _kind(server: Server, said: Mapping[str, Any]) -> CallKind:
    if not is_believed(server, said["name"]):
        return "effect"
    return "look" if said["read_only"] else "idempotent" if said["idempotent"] else "effect"


def _name(server: Server, tool: str, taken: Iterable[str]) -> str:
    called = tool_name(server.name, tool)
    if called not in taken:
        return called
    # Two names of the server differ only in letters that a tool's name cannot have.
    return f"{called[: MAX_NAME - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


def _find_fault(schema: Any) -> str:
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input is not an object"
    wrong = [name for name in schema.get("properties") or {} if not _PARAMETER.fullmatch(name)]
    return f"its parameter {wrong[0][:80]!r} has a name that cannot be given" if wrong else ""


def _usable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as the Messages API takes it; the server checks the omitted parts."""
    kept = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP}
    return {**kept, "type": "object"}


class Pins:
    """The pinned offers of a job's servers."""

    def __init__(self, keyspace: Keyspace, job_id: str) -> None:
        self._keyspace, self._job_id = keyspace, job_id

    def load(self) -> dict[str, Pin]:
        """Return the known pins by the server's part of its tools' names."""
        found = self._keyspace.client.hgetall(self._keyspace.key("job", self._job_id, "servers"))
        return {key: Pin.model_validate_json(document) for key, document in found.items()}

    def pin(self, place: str, pin: Pin) -> Pin:
        """Keep a server's offer and return the kept one: the first of two concurrent ones."""
        [document] = self._keyspace.run("pin_server", self._job_id, place, pin.model_dump_json())
        return Pin.model_validate_json(document)

    def renew(self, place: str, pin: Pin) -> Pin:
        """Keep a server's changed offer in place of the known one, and return it."""
        while True:
            before = self._keyspace.client.hget(self._keyspace.key("job", self._job_id, "servers"), place)
            if before is None:
                return self.pin(place, pin)
            renewed = follow(Pin.model_validate_json(before), pin)
            [kept] = self._keyspace.run("renew_server", self._job_id, place, before, renewed.model_dump_json())
            if kept:
                return renewed
