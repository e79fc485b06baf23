"""The parameters of the editor's requests, and the text of a prompt. Pure.

A field that this version does not know is ignored, because editors are often newer than agents.
"""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from swarm.client.failures import BadRequest, not_valid
from swarm.client.operations import Folder
from swarm.core.elements import wrap_file

GivenT = TypeVar("GivenT", bound=BaseModel)


class _Given(BaseModel):
    model_config = ConfigDict(
        frozen=True, alias_generator=AliasGenerator(validation_alias=to_camel), populate_by_name=True
    )


class ToInitialize(_Given):
    """The editor, and the parts of the protocol that it knows."""

    protocol_version: int = 1
    client_capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The editor's name, for the records."""
        return str((self.client_info or {}).get("name") or "editor")[:40]

    def knows(self, *path: str) -> bool:
        """Whether the editor has this capability: an object, also an empty one, or true."""
        found: Any = self.client_capabilities
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found is not None and found is not False


class ToOpen(_Given):
    """A new session in a folder."""

    cwd: Folder


class ToReopen(_Given):
    """A session of an existing job."""

    session_id: str
    cwd: Folder | None = None


class ToList(_Given):
    """A part of the list of sessions."""

    cwd: str | None = None
    cursor: str | None = None


class ToPrompt(_Given):
    """A message of the person."""

    session_id: str
    prompt: list[dict[str, Any]] = Field(min_length=1)

    @property
    def text(self) -> str:
        """All parts of the message as one text. Raises `BadRequest` for a part that agents cannot read."""
        return "\n\n".join(part for part in map(_read_part, self.prompt) if part.strip())


class ToCancel(_Given):
    """A session whose work is to stop."""

    session_id: str


class ToSetOption(_Given):
    """Another value of an option."""

    session_id: str
    config_id: str
    value: str


class ToSetMode(_Given):
    """Another permission mode."""

    session_id: str
    mode_id: str


def read_params(shape: type[GivenT], params: dict[str, Any], method: str) -> GivenT:
    """Read a request's parameters. Raises `BadRequest`, which names the field."""
    try:
        return shape.model_validate(params)
    except ValidationError as error:
        raise not_valid(error, method) from None


def _read_part(part: dict[str, Any]) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            name, path = str(part.get("name") or ""), read_uri(uri)
            return path if not name or path.endswith(name) else f"{name}: {path}"
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return wrap_file(read_uri(uri), text)
    kind = part.get("type")
    raise BadRequest(f"agents cannot read a part of the type {kind!r}; send text, files or links to files", "prompt")


def read_uri(uri: str) -> str:
    """Return the path of a file's address, and any other address unchanged."""
    found = urlsplit(uri)
    if found.scheme != "file":
        return uri
    return unquote(found.path) + (f"#{found.fragment}" if found.fragment else "")
