"""Vendors whose models are named `VENDOR:MODEL`: where their servers are, and how they are asked. Pure, but for the environment.

Each speaks one of the formats of `swarm.models.codecs`. The setting `vendors` adds servers and moves known ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple


class Vendor(NamedTuple):
    """A server of models."""

    name: str
    url: str
    """The address before the format's own path, such as `/chat/completions`."""
    key: str = ""
    """The environment variable with the API key; empty if it asks for none."""
    longest: str = "max_tokens"
    """The field of requests that bounds a reply, in Chat Completions."""
    wire: str = "chat"
    """The name of its format."""


WIRES = ("chat", "responses", "gemini")
"""The names of the formats."""


# No name is one of a model that Ollama serves with a tag, such as `mistral:7b`.
_KNOWN = (
    Vendor("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "max_completion_tokens", "responses"),
    Vendor("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Vendor("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "max_completion_tokens"),
    Vendor("mistralai", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    Vendor("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    Vendor("gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY", wire="gemini"),
    Vendor("ollama", "http://127.0.0.1:11434/v1"),
    Vendor("vllm", "http://127.0.0.1:8000/v1"),
    Vendor("llamacpp", "http://127.0.0.1:8080/v1"),
    Vendor("lmstudio", "http://127.0.0.1:1234/v1"),
)


def vendors(added: Mapping[str, str]) -> dict[str, Vendor]:
    """Return all vendors by name; `added` is the setting, `{"name": "URL [VARIABLE] [FORMAT]"}`."""
    return _vendors(tuple(sorted(added.items())))


def split_model(model: str, added: Mapping[str, str]) -> tuple[Vendor, str] | None:
    """Return a model's vendor and its name there; None if the name has no vendor, as Anthropic's have none."""
    name, _, rest = model.partition(":")
    vendor = vendors(added).get(name)
    return (vendor, rest) if vendor is not None and rest else None


def vendor_of(model: str) -> Vendor | None:
    """Return the model's vendor if it is one that every worker knows."""
    found = split_model(model, {})
    return found and found[0]


def keyed(added: Mapping[str, str]) -> list[str]:
    """Name the vendors for which this process has a key."""
    return [vendor.name for vendor in vendors(added).values() if key_of(vendor)]


def key_of(vendor: Vendor) -> str:
    """Return the vendor's API key; empty if it asks for none or there is none."""
    return os.environ.get(vendor.key, "") if vendor.key else ""


def limit_class(vendor: Vendor, model: str) -> str:
    """Name the limits that count requests for the vendor's model, by account."""
    account = hashlib.sha256(f"{vendor.url}\0{key_of(vendor)}".encode()).hexdigest()[:8]
    return f"{vendor.name}/{account}/{model}"


@cache
def _vendors(added: tuple[tuple[str, str], ...]) -> dict[str, Vendor]:
    found = {vendor.name: vendor for vendor in _KNOWN}
    for name, given in added:
        url, *words = given.split()
        known = found.get(name) or Vendor(name, "")
        wire = words.pop() if words and words[-1] in WIRES else known.wire
        found[name] = Vendor(name, url.rstrip("/"), words[0] if words else "", known.longest, wire)
    return found
