"""The SDK's client of a provider: credentials, time limits, certificates, offline checks."""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from swarm.core.errors import ConfigurationError
from swarm.core.settings import Settings
from swarm.models.failures import credentials_failure
from swarm.models.interruption import make_interruptible
from swarm.models.profiles import explain_path, profile_of
from swarm.models.vendors import keyed, split_model

if TYPE_CHECKING:
    from anthropic import Anthropic, AnthropicBedrock, AnthropicVertex
    from httpx2 import URL, Headers, Request
    from httpx2 import Client as HttpClient

    Client = Anthropic | AnthropicBedrock | AnthropicVertex

CONNECT_TIMEOUT_SECONDS = 5.0
_KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
REHEARSAL_KEY = "rehearsal"
_VARIABLES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_BASE_URL",
)
"""Any of these may let the SDK sign in; the first request shows whether it does."""
_KEYLESS_HEADERS = (
    *("accept", "anthropic-beta", "anthropic-version", "connection", "content-", "host", "traceparent"),
    *("transfer-encoding", "user-agent", "x-stainless-"),
)
"""Beginnings of the headers that another host may see. Of the rest the HTTP client removes `Authorization` alone."""
_UPGRADE = ("http", None), ("https", None)
"""The one redirect to another port that takes keys along: from HTTP to HTTPS, at their own ports."""
_EXTRA_MODULES = {"bedrock": ("boto3", "botocore"), "vertex": ("google.auth",)}


def check_packages(provider: str) -> None:
    """Raise `ConfigurationError` if a package for this provider is not installed."""
    for module in _EXTRA_MODULES.get(provider, ()):
        if not _is_installed(module):
            raise ConfigurationError(
                f"provider {provider} needs the Python package {module}, which is not installed. "
                f"Install it where the workers run: pip install 'celery-swarm[{provider}]'"
            )


@functools.cache
def certificates() -> ssl.SSLContext:
    """The trusted certificates, read once: a context per process would cost 20 ms and megabytes."""
    import httpx2

    return httpx2.create_ssl_context()


def connect(settings: Settings, *, rehearsing: bool) -> Client:
    """Connect to the provider. Raises `ConfigurationError` if no client can be made.

    With `rehearsing` a job named the server: it gets none of this process's credentials, and its redirects are not followed.
    """
    check_packages(settings.provider)
    if not rehearsing and (why := _misset(settings)):
        raise credentials_failure(settings.provider, why)
    import anthropic
    import httpx2

    silence = min(settings.silence_seconds, settings.request_timeout_seconds)
    timeout = anthropic.Timeout(settings.request_timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS, read=silence)
    # The SDK's spans would be roots of their own and overwrite our header.
    options: dict[str, Any] = {"max_retries": 0, "timeout": timeout, "open_telemetry": False}
    transport: dict[str, Any] = {"verify": certificates()}
    if settings.base_url:
        options["base_url"] = settings.base_url
        if not rehearsing:
            options |= _signing(settings)
        if is_loopback(settings.base_url):
            keyless = not any(map(os.environ.get, _KEY_VARIABLES))
            if rehearsing or (settings.provider == "anthropic" and keyless):
                options["api_key"] = REHEARSAL_KEY
            # A proxy of the environment cannot reach this machine's loopback address.
            transport = {"transport": httpx2.HTTPTransport(verify=certificates()), "trust_env": False}
            transport["follow_redirects"] = not rehearsing
    options["http_client"] = anthropic.DefaultHttpxClient(timeout=timeout, **transport)
    make_interruptible(options["http_client"])
    keep_keys(options["http_client"])
    if not rehearsing:
        record(options["http_client"], settings)
    try:
        match settings.provider:
            case "bedrock":
                return anthropic.AnthropicBedrock(**options)
            case "vertex":
                return anthropic.AnthropicVertex(**options)
            case _:
                client = anthropic.Anthropic(**options)
                if rehearsing:
                    # The SDK reads ANTHROPIC_CUSTOM_HEADERS and has no option against it.
                    client._custom_headers = {}
                return client
    except ValueError as error:  # the SDK's error for a missing region or project
        raise ConfigurationError(f"provider {settings.provider}: {error}") from error
    except anthropic.AnthropicError as error:
        raise credentials_failure(settings.provider, str(error)) from error


def keep_keys(client: HttpClient) -> None:
    """Keep this client's keys from other servers, to which a server may redirect a request."""
    # A hook of the client would be called for each request.
    redirect = client._redirect_headers

    def drop_keys(request: Request, url: URL, method: str) -> Headers:
        headers = redirect(request, url, method)
        if is_other_server(request.url, url):
            for name in [name for name in headers if not name.startswith(_KEYLESS_HEADERS)]:
                del headers[name]
        return headers

    client._redirect_headers = drop_keys  # type: ignore[method-assign]


def is_other_server(home: URL, url: URL) -> bool:
    """Whether a redirect from one address to the other takes no key along."""
    ports = (home.scheme, home.port), (url.scheme, url.port)
    return home.host != url.host or (ports[0] != ports[1] and ports != _UPGRADE)


def record(client: HttpClient, settings: Settings) -> None:
    """Keep this client's requests and their replies in the folder of the settings, if they name one."""
    if settings.record is not None:
        from swarm.models.recording import recorder_of

        recorder_of(settings.record.expanduser()).tap(client)


def _signing(settings: Settings) -> dict[str, Any]:
    """The client's options for a server that reads keys from another header than Anthropic's."""
    profile, key = profile_of(settings), os.environ.get("ANTHROPIC_API_KEY")
    return {"default_headers": {profile.key_header: key}} if profile and profile.key_header and key else {}


def find_credentials(settings: Settings) -> str | None:
    """Describe the source of the model's credentials in a few words; None if there are none."""
    if settings.provider != "anthropic":
        return f"provider {settings.provider}"
    if settings.base_url:
        return "SWARM_BASE_URL"
    for name in _VARIABLES:
        if os.environ.get(name):
            return name
    if found := keyed(settings.vendors):
        return f"the key for {found[0]}"
    if (local := split_model(settings.model, settings.vendors)) is not None and not local[0].key:
        return f"{local[0].name} needs none"
    folder = Path(os.environ.get("ANTHROPIC_CONFIG_DIR") or Path.home() / ".config" / "anthropic")
    return str(folder) if folder.is_dir() else None


def explain_missing(settings: Settings) -> str:
    """Explain why no request can be signed here, and what to do; empty if one might be."""
    try:
        check_packages(settings.provider)
    except ConfigurationError as error:
        return str(error)
    if find_credentials(settings) is None:
        return "there is no key for the model: set ANTHROPIC_API_KEY, or the key of another vendor (docs/vendors.md)"
    return _misset(settings)


def _misset(settings: Settings) -> str:
    """Describe a setting that would fail every request; empty if there is none.

    Such failures would look like an unreachable server.
    """
    for name in _KEY_VARIABLES:
        if not (key := os.environ.get(name, "")).isascii() or not key.isprintable():
            return f"{name} holds a line break or another character that no key has"
    for name, url in (
        ("SWARM_BASE_URL", settings.base_url),
        ("ANTHROPIC_BASE_URL", os.environ.get("ANTHROPIC_BASE_URL")),
    ):
        if url and not url.startswith(("http://", "https://")):
            return f"{name} does not begin with http:// or https://"
    return explain_path(settings)


def is_loopback(url: str) -> bool:
    """Whether the URL's host is this host's loopback address."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a missing parent package
        return False
