"""The part of `swarm doctor` about programs on this host that serve models: Ollama, vLLM, llama.cpp, LM Studio."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from swarm.cli.doctor import Check
from swarm.core.settings import Settings
from swarm.models.connection import is_loopback
from swarm.models.profiles import load_profiles
from swarm.models.vendors import Vendor, vendors

_SECONDS = 1.0
_MOST_BYTES = 1_000_000
_SHOWN = 6
_PROFILES = {"llamacpp": "llama.cpp", "lmstudio": "lm-studio"}
"""Vendors whose profile has another name."""


class LocalServer(NamedTuple):
    """A program on this host that serves models."""

    vendor: str
    models: Sequence[str]
    """Names of its models, as agents name them, with the window where the server states it."""
    differs: str
    """Known differences of the program."""


def check_local_models(settings: Settings) -> Check:
    """Look for programs that serve models on this host, at the ports that workers would ask."""
    found = find_local_servers(settings)
    told = "; ".join(f"{one.vendor}: {', '.join(one.models[:_SHOWN]) or 'no model'}" for one in found)
    notes = " ".join(f"{one.vendor}: {one.differs}." for one in found if one.differs)
    return Check("local models", not notes, told or "none", notes, needed=False)


def find_local_servers(settings: Settings) -> list[LocalServer]:
    """Ask each keyless vendor on this host for its models; those that answer nothing of the kind are left out."""
    near = [one for one in vendors(settings.vendors).values() if not one.key and is_loopback(one.url)]
    with ThreadPoolExecutor(max(1, len(near))) as pool:
        return [one for one in pool.map(_ask, near) if one is not None]


def _ask(vendor: Vendor) -> LocalServer | None:
    try:
        # A proxy of the environment cannot reach this host's loopback address.
        wanted = Request(f"{vendor.url}/models", headers={"Authorization": "Bearer none"})
        with build_opener(ProxyHandler({})).open(wanted, timeout=_SECONDS) as answer:
            told = json.loads(answer.read(_MOST_BYTES))
        models = [_describe(vendor.name, one) for one in told["data"]]
    except (URLError, OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None  # another program listens there
    profile = load_profiles().get(_PROFILES.get(vendor.name, vendor.name))
    return LocalServer(vendor.name, models, profile.differs if profile is not None else "")


def _describe(vendor: str, model: dict[str, object]) -> str:
    window = model.get("max_model_len")
    return f"{vendor}:{model['id']}" + (f" (window {window:,})" if isinstance(window, int) else "")
