"""What the model's server says of its limits, and whose they are: requests, input and output tokens a minute, for a credential and a
kind of model. Pure, but for the environment that credentials come from."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

_KINDS = ("requests", "input-tokens", "output-tokens")
_FAMILY = re.compile(r"(opus|sonnet|haiku|fable)-(\d{1,2}(?:-\d{1,2})?)(?!\d)")
_CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_CONFIG_DIR",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUD_ML_REGION",
)
"""What tells one account from another; who has the same of all of these shares its limits."""


class RateLimits(NamedTuple):
    """What the head of a response says; of each limit a minute, 0: it is not stated."""

    requests: int = 0
    input: int = 0
    output: int = 0
    requests_left: int = -1
    """Now; -1: it is not stated. The same for the others."""
    input_left: int = -1
    output_left: int = -1


NOTHING_STATED = RateLimits()


def read_limits(headers: Mapping[str, str]) -> RateLimits:
    """The limits that a response's headers state; what is no number is not stated."""
    stated = [_number(headers.get(f"anthropic-ratelimit-{kind}-limit"), 0) for kind in _KINDS]
    left = [_number(headers.get(f"anthropic-ratelimit-{kind}-remaining"), -1) for kind in _KINDS]
    return RateLimits(*stated, *left)


def name_limit_class(provider: str, base_url: str | None, model: str) -> str:
    """Whose limits requests of this process for `model` are counted for: `provider/account/kind of model`.

    The account is a digest of what signs requests, and of where they go. Versions of a model count as kinds of their own: where they
    share a limit after all, what the server says is left tells so.
    """
    signed = [os.environ.get(name, "") for name in _CREDENTIALS]
    place = base_url or os.environ.get("ANTHROPIC_BASE_URL", "")
    account = hashlib.sha256("\0".join([provider, place, *signed]).encode()).hexdigest()[:8]
    family = _FAMILY.search(model)
    return f"{provider}/{account}/{family[0] if family else model}"


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() else otherwise
