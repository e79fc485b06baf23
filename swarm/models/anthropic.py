"""The Anthropic adapter: makes one attempt at a model request. The only importer of the SDK.

The SDK takes seconds and tens of megabytes to import, so it is imported on first use, or by `preload()` before a worker
forks. Its connections must not cross a fork, so every process makes a client of its own. The SDK's retries are off: the
loop decides when to try again, because a long wait parks the agent. Safe to share between threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

from pydantic import ValidationError

from swarm.core.errors import ConfigurationError, Interrupted, ModelError, PermanentModelError, TransientModelError
from swarm.core.settings import Settings
from swarm.models import ApplyLimits, Begin, Hear, ModelRequest, Progress, Reply
from swarm.models.batches import BatchLane
from swarm.models.catalogue import describe_aliases, max_output
from swarm.models.connection import REHEARSAL_KEY, certificates, connect, is_loopback
from swarm.models.deferral import defer_sdk
from swarm.models.encoder import Encoder
from swarm.models.events import read_events
from swarm.models.failures import credentials_failure, response_failure, stream_failure, unusable_failure
from swarm.models.limits import name_limit_class, read_limits
from swarm.models.postings import Postings
from swarm.models.reply import ReplyBuilder, split_message
from swarm.models.request import build_request, fit, holds_summary

if TYPE_CHECKING:
    from anthropic import Stream
    from anthropic.types import RawMessageStreamEvent
    from httpx2 import Response

    from swarm.models.connection import Client

_decode = json.JSONDecoder().decode

_SUMMARIES = "compact-2026-09-04"
"""Beta header of requests that ask for a summary or begin with one."""

_WARM_UP_REPLY = (
    {"type": "message_start", "message": {"model": "warm-up", "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ready"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
_WARM_UP_ROUNDS = 20
"""Python rewrites code during its first dozen runs. Before the fork, that copies no page."""


def load_sdk(settings: Settings) -> None:
    """Import the part of the SDK that a request needs; all of it for a provider other than Anthropic."""
    if settings.provider == "anthropic":
        defer_sdk()
    import anthropic

    # The transport that real requests use.
    anthropic.DefaultHttpxClient(verify=certificates()).close()


def preload(settings: Settings) -> None:
    """Load and build all that a request needs, by one request that is answered in this process.

    Call this before forking: pool processes then share the memory, and no first request pays for it.
    """
    load_sdk(settings)
    import anthropic
    import httpx2

    events = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _WARM_UP_REPLY)
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events.encode())
    client = anthropic.Anthropic(
        base_url="http://127.0.0.1",
        api_key=REHEARSAL_KEY,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(transport=httpx2.MockTransport(lambda _: answer), trust_env=False),
    )
    tool = {"name": "Warm", "description": "Warm up.", "input_schema": {"type": "object", "properties": {}}}
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Warm up."}]}]
    request = ModelRequest(model="warm-up", system="Warm up.", messages=said, tools=[tool])
    model = AnthropicModel(settings.model_copy(update={"provider": "anthropic"}), client=client)
    with client:
        for _ in range(_WARM_UP_ROUNDS):
            model.complete(request)
    # The codec that every host name look-up needs.
    "localhost".encode("idna")


class AnthropicModel:
    """A `Model` that asks the Messages API of Anthropic, Amazon Bedrock or Google Vertex."""

    def __init__(self, settings: Settings, *, client: Client | None = None) -> None:
        """`client` replaces the one from the settings; the caller then handles forks and retries."""
        self._settings = settings
        self._given = None if client is None else Postings(client)
        self._is_rehearsal = False
        # Keyed by process id. A client inherited through a fork stays here, untouched: collecting it would close
        # connections that the parent still uses.
        self._postings: dict[int, Postings] = {}
        self._summarizing: dict[str, bool] = {}
        self._limit_classes: dict[str, str] = {}

    @classmethod
    def rehearsing(cls, settings: Settings, base_url: str) -> Self:
        """Make a model for a job's rehearsal server: on this host only, without our credentials.

        Raises `ConfigurationError` for any other address.
        """
        if not is_loopback(base_url):
            raise ConfigurationError(f"{base_url}: a job may name a rehearsal server on the worker's own host only")
        model = cls(settings.model_copy(update={"base_url": base_url, "provider": "anthropic"}))
        model._is_rehearsal = True
        return model

    def complete(
        self,
        request: ModelRequest,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Make one attempt. Raises the errors of `Model.complete`, and `ConfigurationError`."""
        builder = ReplyBuilder(on_progress, on_words, on_begin)
        try:
            return self._complete(request, builder, on_limits)
        except (ModelError, Interrupted) as error:
            error.told = builder.told()
            raise

    def _complete(self, request: ModelRequest, builder: ReplyBuilder, on_limits: ApplyLimits | None) -> Reply:
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        with self._open_stream(request, on_limits) as stream:
            response = stream.response
            if on_limits is not None:
                on_limits(read_limits(response.headers))
            request_id = response.headers.get("request-id")
            request_sha = hashlib.sha256(response.request.read()).hexdigest()
            event: Any = None
            try:
                for event in self._read_events(stream, request.model):
                    builder.add(event)
                    # The transport notices a read that times out; this check ends a stream that trickles forever.
                    if time.monotonic() > deadline:
                        raise self._timed_out()
            except (AttributeError, KeyError, TypeError) as error:
                kind = event.get("type") if isinstance(event, dict) else type(event).__name__
                raise TransientModelError(f"the model's reply is damaged: bad {kind} event", kind="cut") from error
        try:
            reply = builder.finish(request_id, request_sha)
        except ValidationError as error:
            raise TransientModelError(f"the model's reply is damaged: {error.errors()[0]}", kind="cut") from error
        if reply is None:
            raise TransientModelError("the model's reply was cut off before its end", kind="cut")
        return reply

    def limit_class(self, model: str) -> str:
        """Name the limits by this process's account and the kind of model."""
        if model not in self._limit_classes:
            self._limit_classes[model] = name_limit_class(self._settings.provider, self._settings.base_url, model)
        return self._limit_classes[model]

    def summarizes(self, model: str) -> bool:
        """Ask the server once whether the model can summarize. A server that does not say cannot."""
        if self._settings.provider != "anthropic":
            return False
        known = self._summarizing.get(model)
        if known is None:
            try:
                # As plain JSON: the SDK's typed models are a thousand modules.
                path = f"/v1/models/{quote(model, safe='')}?beta=true"
                about: Any = self._client().get(path, cast_to=object)
                known = about["capabilities"]["compaction"]["summarize"]["supported"] is True
            except Exception as error:
                failure = self.explain(error, model)
                if isinstance(failure, TransientModelError):
                    return False
                known = False
            self._summarizing[model] = known
        return known

    def pass_on(self, body: bytes, headers: dict[str, str]) -> Response:
        """Post a request that another program encoded; returns the response, whatever its status, as it streams.

        Raises `TransientModelError` or `PermanentModelError` without a response.
        """
        if self._settings.provider != "anthropic":
            raise PermanentModelError(
                f"provider {self._settings.provider} takes no requests of others", kind="not_found"
            )
        try:
            stream: Any = self._client_postings().post(body, headers)
        except Exception as error:
            if (refused := getattr(error, "response", None)) is not None:
                return cast("Response", refused)
            failure = self.explain(error, "")
            if failure is None:
                raise
            raise failure from error
        return cast("Response", stream.response)

    def batches(self) -> BatchLane:
        """The batches of this server."""
        return BatchLane(self._client, self.explain)

    def explain(self, error: Exception, model: str) -> ModelError | None:
        """Translate a failure before the reply; None if neither model nor request caused it."""
        provider = self._settings.provider
        transport = self._transport_failure(error, model)
        if transport is not None:
            return transport
        if isinstance(error, TypeError) and "authentication" in str(error):
            return credentials_failure(provider)
        if type(error).__module__.startswith(("botocore.", "google.auth.")) or (
            provider == "bedrock" and isinstance(error, RuntimeError)
        ):
            return credentials_failure(provider, str(error))
        if isinstance(error, TypeError | ValueError):
            return PermanentModelError(f"the model request cannot be encoded: {error}", kind="bad_request")
        return None

    def close(self) -> None:
        """Close this process's connections. The model stays usable: the next request opens new ones."""
        postings = self._postings.pop(os.getpid(), None)
        if postings is not None:
            postings.client.close()

    def _open_stream(self, request: ModelRequest, on_limits: ApplyLimits | None) -> Stream[RawMessageStreamEvent]:
        postings = self._client_postings()
        most = max_output(request.model, prices_file=self._settings.prices_file)
        try:
            if self._settings.provider == "anthropic":
                encoder: Encoder = request.kept.setdefault("encoder", Encoder())
                summary = request.summarize is not None or holds_summary(request.messages)
                headers = _trace(request) | ({"anthropic-beta": _SUMMARIES} if summary else {})
                return postings.post(encoder.encode(request, max_output=most), headers)
            if holds_summary(request.messages):
                raise ConfigurationError(
                    f"provider {self._settings.provider} cannot read the summary in this agent's conversation. "
                    "Run a worker with a provider that can, such as the one that made it (SWARM_PROVIDER)"
                )
            # Other providers move parts of the body elsewhere, so they need its fields.
            stream: Stream[RawMessageStreamEvent] = postings.client.messages.create(
                **fit(build_request(request, max_output=most), request.facts),
                stream=True,
                extra_headers=_trace(request),
            )
        except Exception as error:
            response = getattr(error, "response", None)
            if on_limits is not None and response is not None:
                on_limits(read_limits(response.headers))
            failure = self.explain(error, request.model)
            if failure is None:
                raise
            raise failure from error
        return stream

    def _read_events(self, stream: Stream[RawMessageStreamEvent], model: str) -> Iterator[Mapping[str, Any]]:
        """Yield events as plain JSON: the SDK's typed ones cost more than the rest of a request."""
        try:
            if self._settings.provider == "bedrock":
                # Bedrock frames its events in a binary format that the SDK's own iteration decodes.
                for typed in stream:
                    yield typed.model_dump(mode="json", exclude_unset=True, warnings=False)
                return
            kind = stream.response.headers.get("content-type", "text/event-stream").partition(";")[0]
            if kind != "text/event-stream":
                yield from self._read_whole(kind, stream.response.read(), model)
                return
            for name, data in read_events(stream.response.iter_bytes()):
                if name == b"error":
                    raise self._stream_failure(_parse_or_keep(data), model)
                yield _decode(data.decode())
        except ModelError:
            raise
        except Exception as error:
            # Broken JSON, bytes that are not UTF-8, or a broken frame of Bedrock's.
            if isinstance(error, ValueError) or type(error).__module__ == "botocore.eventstream":
                raise TransientModelError(f"the model's reply is damaged: {error}", kind="cut") from error
            failure = self._transport_failure(error, model)
            if failure is None:
                raise
            if failure.kind == "connection":
                failure = TransientModelError(f"the model's reply was cut off: {error}", kind="cut")
            raise failure from error

    def _read_whole(self, kind: str, data: bytes, model: str) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a reply that the server gave in one piece, though it was asked for a stream."""
        message = _parse_or_keep(data) if kind == "application/json" else None
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            where = self._settings.base_url or f"the {self._settings.provider} API"
            raise unusable_failure(
                f"{where} answered with {kind}, which is no reply of the Messages API",
                model=model,
                provider=self._settings.provider,
                aliases=describe_aliases(self._settings.prices_file),
            )
        return split_message(message)

    # -- the client ---------------------------------------------------------------------------------------

    def _client(self) -> Client:
        return self._client_postings().client

    def _client_postings(self) -> Postings:
        known = self._given or self._postings.get(os.getpid())
        if known is None:
            made = Postings(connect(self._settings, rehearsing=self._is_rehearsal))
            # Two threads may both make one; setdefault lets all of them use the same.
            known = self._postings.setdefault(os.getpid(), made)
        return known

    # -- failures -----------------------------------------------------------------------------------------

    def _transport_failure(self, error: Exception, model: str) -> ModelError | None:
        import anthropic
        import httpx2

        connect_timeout = isinstance(error.__cause__ or error, httpx2.ConnectTimeout)
        match error:
            case anthropic.APIStatusError() if error.status_code < 400:
                return self._stream_failure(error.body, model)
            case anthropic.APIStatusError():
                return response_failure(
                    error.status_code,
                    error.response.headers,
                    error.body,
                    model=model,
                    provider=self._settings.provider,
                    aliases=describe_aliases(self._settings.prices_file),
                    now=time.time(),
                )
            case anthropic.APITimeoutError() | httpx2.TimeoutException() if not connect_timeout:
                return self._fell_silent()
            case anthropic.APIConnectionError() | httpx2.HTTPError():
                return self._connection_failed(error)
            case httpx2.StreamError():  # read after it was closed
                return TransientModelError("the model's reply was cut off before its end", kind="cut")
            case anthropic.APIError():
                return TransientModelError(f"the model's server gave no usable answer: {error}", kind="server")
            case anthropic.AnthropicError():
                return credentials_failure(self._settings.provider, str(error))
            case _:
                return None

    def _stream_failure(self, body: object, model: str) -> ModelError:
        aliases = describe_aliases(self._settings.prices_file)
        return stream_failure(body, model=model, provider=self._settings.provider, aliases=aliases)

    def _connection_failed(self, error: Exception) -> TransientModelError:
        where = self._settings.base_url or f"the {self._settings.provider} API"
        cause = error.__cause__ or error
        reason = str(cause) or type(cause).__name__
        return TransientModelError(
            f"no connection to {where}: {reason}. Check the network, SWARM_BASE_URL and ANTHROPIC_BASE_URL",
            kind="connection",
        )

    def _fell_silent(self) -> TransientModelError:
        limit = min(self._settings.silence_seconds, self._settings.request_timeout_seconds)
        return TransientModelError(
            f"the model's server sent nothing for {limit:g} s (SWARM_SILENCE_SECONDS)", kind="timeout"
        )

    def _timed_out(self) -> TransientModelError:
        limit = self._settings.request_timeout_seconds
        return TransientModelError(
            f"the model request did not finish within {limit:g} s (SWARM_REQUEST_TIMEOUT_SECONDS)", kind="timeout"
        )


def _trace(request: ModelRequest) -> dict[str, str]:
    return {"traceparent": request.traceparent} if request.traceparent else {}


def _parse_or_keep(data: bytes) -> object:
    try:
        return _decode(data.decode())
    except ValueError:
        return data.decode(errors="replace")
