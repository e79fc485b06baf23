"""The adapter of all vendors but Anthropic: makes one attempt at a model request, in the vendor's format.

It uses the HTTP client that the Anthropic SDK brings, and no SDK of a vendor: those walk the whole conversation again in each turn. Every
process makes a client of its own, because connections must not cross a fork. Safe to share between threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import ValidationError

from swarm.core.errors import ConfigurationError, Interrupted, ModelError, PermanentModelError, TransientModelError
from swarm.core.settings import Settings
from swarm.models import ApplyLimits, Begin, Hear, ModelRequest, Progress, Reply, Told, Usage
from swarm.models.catalogue import describe_aliases, max_output
from swarm.models.codecs import ReplyReader, codec
from swarm.models.connection import (
    CONNECT_TIMEOUT_SECONDS,
    REHEARSAL_KEY,
    certificates,
    is_loopback,
    is_other_server,
    keep_keys,
    record,
)
from swarm.models.events import read_events
from swarm.models.failures import response_failure, stream_failure, unusable_failure
from swarm.models.interruption import make_interruptible
from swarm.models.limits import read_limits
from swarm.models.message_encoder import MessageEncoder
from swarm.models.postings import Built
from swarm.models.reply import ReplyBuilder
from swarm.models.vendors import Vendor, key_of

if TYPE_CHECKING:
    from httpx2 import Client, Response

    from swarm.models.passage import PassedRequest

_CHARACTERS_PER_TOKEN = 4


class VendorModel:
    """The models of one vendor, for `swarm.models.router`."""

    def __init__(self, settings: Settings, vendor: Vendor, *, rehearsing: bool = False) -> None:
        """With `rehearsing` a job named the server: it gets none of this process's credentials, and its redirects are not followed."""
        self._settings, self.vendor, self._is_rehearsal = settings, vendor, rehearsing
        self._codec = codec(vendor.wire)
        self._clients: dict[int, Client] = {}
        self._built: dict[str, Built] = {}

    def complete(
        self,
        request: ModelRequest,
        name: str,
        on_progress: Progress | None = None,
        on_words: Hear | None = None,
        on_limits: ApplyLimits | None = None,
        on_begin: Begin | None = None,
    ) -> Reply:
        """Make one attempt at the model with this name at the vendor. Raises the errors of `Model.complete`, and `ConfigurationError`."""
        if request.summarize is not None:
            raise PermanentModelError(f"{request.model} writes no summaries of its own", kind="no_summary")
        encoder: MessageEncoder | None = request.kept.get(request.model)
        if encoder is None:
            encoder = request.kept[request.model] = self._codec.encoder(self.vendor, name)
        try:
            body = encoder.encode(request, max_output=max_output(request.model, prices_file=self._settings.prices_file))
        except (TypeError, ValueError, KeyError) as error:
            raise PermanentModelError(f"the model request cannot be encoded: {error!r}", kind="bad_request") from error
        builder, reader = ReplyBuilder(on_progress, on_words, on_begin), self._codec.reader(request.model)
        try:
            return self._complete(request, body, (builder, reader), on_limits)
        except (ModelError, Interrupted) as error:
            error.told = _told(builder, reader, len(body))
            raise

    def pass_on(self, passed: PassedRequest, model: str, room: int | None) -> Response:
        """Post a request that another program encoded, for this name of the model; returns the response as it streams.

        Raises `TransientModelError` or `PermanentModelError` without a response.
        """
        import httpx2

        client = self._client()
        others = "" if passed.wire.name == self.vendor.wire else self._codec.others
        try:
            request = client.build_request(
                "POST",
                others + passed.path_at(model),
                content=passed.encode(model, room),
                headers={"content-type": "application/json"},
            )
            if others and (key := request.headers.pop(self._codec.key_header, None)):
                request.headers["authorization"] = f"Bearer {key}"
            return client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise self._transport_failure(error, has_begun=False) from error

    def close(self) -> None:
        """Close this process's connections. The model stays usable."""
        if (client := self._clients.pop(os.getpid(), None)) is not None:
            client.close()

    def _complete(
        self, request: ModelRequest, body: bytes, parts: tuple[ReplyBuilder, ReplyReader], on_limits: ApplyLimits | None
    ) -> Reply:
        import httpx2

        builder, reader = parts
        path = self._codec.path.format(model=quote(request.model.partition(":")[2], safe="/"))
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        try:
            with closing(self._post(path, body, _headers(request))) as response:
                if on_limits is not None:
                    on_limits(read_limits(response.headers))
                if not response.is_success:
                    raise self._refusal(response, request.model)
                for event in self._events(response, request.model, reader):
                    builder.add(event)
                    if time.monotonic() > deadline:
                        limit = self._settings.request_timeout_seconds
                        raise TransientModelError(
                            f"the model request did not finish within {limit:g} s (SWARM_REQUEST_TIMEOUT_SECONDS)",
                            kind="timeout",
                        )
                if reader.usage is None:  # the server ignores `include_usage`
                    builder.add({"type": "message_delta", "delta": {}, "usage": _estimate(builder, len(body))})
                request_id = response.headers.get("x-request-id")
        except httpx2.HTTPError as error:
            raise self._transport_failure(error, has_begun=builder.told() is not None) from error
        except (AttributeError, KeyError, TypeError, ValueError, httpx2.StreamError) as error:
            raise TransientModelError(f"the model's reply is damaged: {error!r}", kind="cut") from error
        try:
            reply = builder.finish(request_id, hashlib.sha256(body).hexdigest())
        except ValidationError as error:
            raise TransientModelError(f"the model's reply is damaged: {error.errors()[0]}", kind="cut") from error
        if reply is None:
            raise TransientModelError("the model's reply was cut off before its end", kind="cut")
        return reply

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Response:
        client = self._client()
        if (built := self._built.get(path)) is not None:
            return client.send(built.again(body, headers), stream=True)
        response = client.send(client.build_request("POST", path, content=body, headers=headers), stream=True)
        if not response.history:  # a redirected request is another one
            self._built[path] = Built.of(response.request)
        return response

    def _events(self, response: Response, model: str, reader: ReplyReader) -> Iterator[Mapping[str, Any]]:
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind != "text/event-stream":
            data = response.read()
            whole = json.loads(data) if kind == "application/json" else None
            if isinstance(whole, dict) and (failure := reader.failure(whole)) is not None:
                raise stream_failure(failure, **self._about(model))
            if not isinstance(whole, dict) or not reader.is_reply(whole):
                raise unusable_failure(
                    f"{self.vendor.url} answered with {kind or 'nothing'}, which is no reply of {self._codec.title}",
                    **self._about(model),
                )
            yield from reader.read(whole)
            yield from reader.end(said=True)
            return
        said = False
        # To its very end, or the connection could not be used again.
        for named, data in read_events(response.iter_bytes()):
            if named in reader.ignored:
                continue
            if data.strip() == b"[DONE]":
                said = True
                continue
            chunk = json.loads(data)
            if (failure := reader.failure(chunk)) is not None:
                raise stream_failure(failure, **self._about(model))
            yield from reader.read(chunk)
        yield from reader.end(said=said)

    def _about(self, model: str) -> dict[str, str]:
        aliases = describe_aliases(self._settings.prices_file)
        return {"model": model, "provider": self.vendor.name, "aliases": aliases}

    def _refusal(self, response: Response, model: str) -> ModelError:
        if response.status_code in (401, 403) and any(
            is_other_server(one.url, response.url) for one in response.history
        ):
            return PermanentModelError(
                f"{self.vendor.url} redirects requests to {response.url.host}, which gets no key of {self.vendor.name}: "
                "give its new address in SWARM_VENDORS where the workers run",
                kind="authentication",
            )
        data = response.read()
        try:
            body: object = json.loads(data)
        except ValueError:
            body = data.decode(errors="replace")
        return response_failure(response.status_code, response.headers, body, now=time.time(), **self._about(model))

    def _transport_failure(self, error: Exception, *, has_begun: bool) -> TransientModelError:
        import httpx2

        if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
            return TransientModelError(
                "the model's server sent nothing for too long (SWARM_SILENCE_SECONDS)", kind="timeout"
            )
        reason = str(error) or type(error).__name__
        if has_begun:
            return TransientModelError(f"the model's reply was cut off: {reason}", kind="cut")
        where = f"{self.vendor.name} at {self.vendor.url}"
        return TransientModelError(
            f"no connection to {where}: {reason}. Check the network and SWARM_VENDORS", kind="connection"
        )

    def _client(self) -> Client:
        known = self._clients.get(os.getpid())
        return known or self._clients.setdefault(os.getpid(), self._connect())

    def _connect(self) -> Client:
        import httpx2

        key = REHEARSAL_KEY if self._is_rehearsal else key_of(self.vendor)
        if self.vendor.key and not key:
            raise PermanentModelError(
                f"there is no key for {self.vendor.name}: set {self.vendor.key} where the workers run",
                kind="authentication",
            )
        if not key.isascii() or not key.isprintable():
            raise ConfigurationError(f"{self.vendor.key} holds a line break or another character that no key has")
        silence = min(self._settings.silence_seconds, self._settings.request_timeout_seconds)
        timeout = httpx2.Timeout(self._settings.request_timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS, read=silence)
        transport: dict[str, Any] = {"verify": certificates(), "follow_redirects": not self._is_rehearsal}
        if is_loopback(self.vendor.url):
            # A proxy of the environment cannot reach this machine's loopback address.
            transport["trust_env"] = False
        headers = self._codec.sign(key)
        client = httpx2.Client(base_url=self.vendor.url, headers=headers, timeout=timeout, **transport)
        make_interruptible(client)
        keep_keys(client)
        if not self._is_rehearsal:
            record(client, self._settings)
        return client


def _headers(request: ModelRequest) -> dict[str, str]:
    trace = {"traceparent": request.traceparent} if request.traceparent else {}
    return {"content-type": "application/json", **trace}


def _told(builder: ReplyBuilder, reader: ReplyReader, size: int) -> Told | None:
    """The usage of a reply that ended too early. The server counts the input at the end only: until then it is estimated."""
    told = builder.told()
    if told is None or reader.usage is not None:
        return told
    sent = Usage(input_tokens=size // _CHARACTERS_PER_TOKEN)
    return Told(model=told.model, usage=told.usage + sent, estimated=told.estimated + sent)


def _estimate(builder: ReplyBuilder, size: int) -> dict[str, int]:
    told = builder.told()
    return {"input_tokens": size // _CHARACTERS_PER_TOKEN, "output_tokens": told.usage.output_tokens if told else 0}
