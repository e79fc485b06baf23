"""The SDK's client of a provider: credentials, time limits, certificates; and what can be seen of them without asking the server."""

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

if TYPE_CHECKING:
    from anthropic import Anthropic, AnthropicBedrock, AnthropicVertex

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
"""Any of these may let the SDK in; whether they do, the first request tells."""
_EXTRA_MODULES = {"bedrock": ("boto3", "botocore"), "vertex": ("google.auth",)}


def check_packages(provider: str) -> None:
    """Raise `ConfigurationError` if what the SDK needs for this provider besides itself is not installed."""
    for module in _EXTRA_MODULES.get(provider, ()):
        if not _is_installed(module):
            raise ConfigurationError(
                f"provider {provider} needs the Python package {module}, which is not installed. "
                f"Install it where the workers run: pip install 'celery-swarm[{provider}]'"
            )


@functools.cache
def certificates() -> ssl.SSLContext:
    """Whom to trust, read once: a context of its own would cost each process 20 ms and megabytes."""
    import httpx2

    return httpx2.create_ssl_context()


def connect(settings: Settings, *, rehearsing: bool) -> Client:
    """A client of the provider's. Raises `ConfigurationError` where it cannot be made.

    With `rehearsing` a job has named the server: it gets nothing that this process has, and is not followed elsewhere.
    """
    check_packages(settings.provider)
    if not rehearsing and (why := _misset(settings)):
        raise credentials_failure(settings.provider, why)
    import anthropic
    import httpx2

    silence = min(settings.silence_seconds, settings.request_timeout_seconds)
    timeout = anthropic.Timeout(settings.request_timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS, read=silence)
    # Its spans would be roots of their own, and overwrite our header.
    options: dict[str, Any] = {"max_retries": 0, "timeout": timeout, "open_telemetry": False}
    transport: dict[str, Any] = {"verify": certificates()}
    if settings.base_url:
        options["base_url"] = settings.base_url
        if is_loopback(settings.base_url):
            keyless = not any(map(os.environ.get, _KEY_VARIABLES))
            if rehearsing or (settings.provider == "anthropic" and keyless):
                options["api_key"] = REHEARSAL_KEY
            # A proxy of the environment cannot reach this machine's own loopback address.
            transport = {"transport": httpx2.HTTPTransport(verify=certificates()), "trust_env": False}
            transport["follow_redirects"] = not rehearsing
    options["http_client"] = anthropic.DefaultHttpxClient(timeout=timeout, **transport)
    try:
        match settings.provider:
            case "bedrock":
                return anthropic.AnthropicBedrock(**options)
            case "vertex":
                return anthropic.AnthropicVertex(**options)
            case _:
                client = anthropic.Anthropic(**options)
                if rehearsing:
                    # The SDK takes in those of ANTHROPIC_CUSTOM_HEADERS, and has no option against it.
                    client._custom_headers = {}
                return client
    except ValueError as error:  # what the SDK raises for a missing region or project
        raise ConfigurationError(f"provider {settings.provider}: {error}") from error
    except anthropic.AnthropicError as error:
        raise credentials_failure(settings.provider, str(error)) from error


def find_credentials(settings: Settings) -> str | None:
    """Where the model's credentials come from, in a few words; None if there are none."""
    if settings.provider != "anthropic":
        return f"provider {settings.provider}"
    if settings.base_url:
        return "SWARM_BASE_URL"
    for name in _VARIABLES:
        if os.environ.get(name):
            return name
    folder = Path(os.environ.get("ANTHROPIC_CONFIG_DIR") or Path.home() / ".config" / "anthropic")
    return str(folder) if folder.is_dir() else None


def explain_missing(settings: Settings) -> str:
    """Why no request can be signed here, and what to do; empty if one might be."""
    try:
        check_packages(settings.provider)
    except ConfigurationError as error:
        return str(error)
    if find_credentials(settings) is None:
        return "there is no key for the model: set ANTHROPIC_API_KEY"
    return _misset(settings)


def _misset(settings: Settings) -> str:
    """What no request could be made with, and looks like a server that is away once it is tried; empty if nothing is."""
    for name in _KEY_VARIABLES:
        if not (key := os.environ.get(name, "")).isascii() or not key.isprintable():
            return f"{name} holds a line break or another character that no key has"
    for name, url in (
        ("SWARM_BASE_URL", settings.base_url),
        ("ANTHROPIC_BASE_URL", os.environ.get("ANTHROPIC_BASE_URL")),
    ):
        if url and not url.startswith(("http://", "https://")):
            return f"{name} does not begin with http:// or https://"
    return ""


def is_loopback(url: str) -> bool:
    """Whether it is an address of this host alone."""
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
