"""Posts of one client: the SDK builds the first request, and later ones differ from it in body and trace only.

Building a request costs the SDK more than sending it. Address, credentials, headers and time limits are the SDK's; so is the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from anthropic import Stream
    from anthropic.types import RawMessageStreamEvent
    from httpx2 import URL, Headers, Request, Response

    from swarm.models.connection import Client

_OF_ONE_REQUEST = ("content-length", "traceparent")


class Built(NamedTuple):
    """The common part of the requests of one path."""

    url: URL
    headers: Headers
    extensions: dict[str, Any]
    """Time limits."""

    @classmethod
    def of(cls, first: Request) -> Built:
        """Take it from the first request."""
        shared = first.headers.copy()
        for name in _OF_ONE_REQUEST:
            shared.pop(name, None)
        return cls(first.url, shared, dict(first.extensions))

    def again(self, body: bytes, headers: dict[str, str]) -> Request:
        """Build a request with another body, and with these headers besides."""
        import httpx2

        own = httpx2.Headers(self.headers)
        own.update({"content-length": str(len(body)), **headers})
        # A stream, because a request with content merges its headers with those of the content once more.
        return httpx2.Request("POST", self.url, headers=own, stream=httpx2.ByteStream(body), extensions=self.extensions)


class Postings:
    """Streaming requests of one client, encoded by the caller. Safe to share between threads."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._built: dict[str, Built] = {}

    def post(self, body: bytes, headers: dict[str, str]) -> Stream[RawMessageStreamEvent]:
        """Post a body. Raises the SDK's errors."""
        from anthropic import Stream
        from anthropic.types import Message, RawMessageStreamEvent

        path = "/v1/messages?beta=true" if "anthropic-beta" in headers else "/v1/messages"
        if (built := self._built.get(path)) is not None:
            response = self._repeat(built.again(body, headers))
            return Stream(cast_to=RawMessageStreamEvent, response=response, client=self.client)  # type: ignore[arg-type]
        stream: Stream[RawMessageStreamEvent] = self.client.post(
            path,
            cast_to=Message,
            content=body,
            options={"headers": headers} if headers else {},
            stream=True,
            stream_cls=Stream[RawMessageStreamEvent],
        )
        # Credentials that are fetched expire, so the SDK adds them to each request. A redirected request is another one.
        if self.client.custom_auth is None and not stream.response.history:
            self._built[path] = Built.of(stream.response.request)
        return stream

    def _repeat(self, request: Request) -> Response:
        import anthropic
        import httpx2

        try:
            response = self.client._client.send(request, stream=True)
        except httpx2.TimeoutException as error:
            raise anthropic.APITimeoutError(request=request) from error
        except Exception as error:
            raise anthropic.APIConnectionError(request=request) from error
        if not response.is_success:
            response.read()
            raise self.client._make_status_error_from_response(response) from None
        return response
