"""The formats in which vendors are asked, one row each: where requests go, who encodes them, who reads the replies.

A format's modules are imported by its first request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

from swarm.core.errors import ConfigurationError
from swarm.models.message_encoder import MessageEncoder
from swarm.models.vendors import WIRES


class ReplyReader(Protocol):
    """Reads one reply as events of the Messages API."""

    ignored: ClassVar[frozenset[bytes]]
    """Names of events that tell nothing new."""
    usage: dict[str, int] | None
    """The usage in the Messages API's classes, once the server has told it."""

    def __init__(self, name: str) -> None: ...

    @staticmethod
    def is_reply(document: Mapping[str, Any]) -> bool:
        """Whether a document that came in one piece is a reply."""

    @staticmethod
    def failure(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the error body that a document holds, if it does."""

    def read(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the events of the next document."""

    def end(self, *, said: bool) -> Iterator[Mapping[str, Any]]:
        """Yield the events of the end; none if the reply was cut. `said` is whether the stream said that it ended."""


class Codec(NamedTuple):
    """One format."""

    title: str
    path: str
    """The path below the vendor's address, with a place for the model's name if it stands there."""
    ends: tuple[str, ...]
    """The ends of such paths."""
    root: str
    """The path of the address at a server that speaks all formats."""
    encoder: type[MessageEncoder]
    reader: type[ReplyReader]
    key_header: str = "authorization"
    others: str = ""
    """The path, below the vendor's address, of the formats of other programs."""

    def sign(self, key: str) -> dict[str, str]:
        """Return the headers with a key; none without one."""
        bearer = "Bearer " if self.key_header == "authorization" else ""
        return {self.key_header: bearer + key} if key else {}


def codec_at(path: str) -> Codec | None:
    """Return the format of requests to a path; None for any other path."""
    return next((made for wire in WIRES if path.endswith((made := codec(wire)).ends)), None)


@cache
def codec(wire: str) -> Codec:
    """Return the format of this name. Raises `ConfigurationError` for an unknown one."""
    match wire:
        case "chat":
            from swarm.models.chat_reply import ChatReader
            from swarm.models.chat_request import ChatEncoder

            return Codec("Chat Completions", path := "/chat/completions", (path,), "/v1", ChatEncoder, ChatReader)
        case "responses":
            from swarm.models.responses_reply import ResponsesReader
            from swarm.models.responses_request import ResponsesEncoder

            return Codec("Responses", path := "/responses", (path,), "/v1", ResponsesEncoder, ResponsesReader)
        case "gemini":
            from swarm.models.gemini_reply import GeminiReader
            from swarm.models.gemini_request import GeminiEncoder

            return Codec(
                "the Gemini API",
                "/models/{model}:streamGenerateContent?alt=sse",
                (":streamGenerateContent", ":generateContent"),
                "/v1beta",
                GeminiEncoder,
                GeminiReader,
                "x-goog-api-key",
                "/openai",
            )
    raise ConfigurationError(f"there is no format {wire!r}; use {', '.join(WIRES)}")
