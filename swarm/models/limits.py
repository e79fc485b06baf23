"""Limits of the model's server, per credential and kind of model.

Requests, input tokens and output tokens a minute. Pure, except that it reads credentials from the environment."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

_KINDS = ("requests", "input-tokens", "output-tokens")
_STATED = [f"anthropic-ratelimit-{kind}-limit" for kind in _KINDS]
_LEFT = [f"anthropic-ratelimit-{kind}-remaining" for kind in _KINDS]
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
"""Variables that identify an account. Processes with equal values share its limits."""


class RateLimits(NamedTuple):
    """Limits a minute that a response's headers state. 0 means not stated."""

    requests: int = 0
    input: int = 0
    output: int = 0
    requests_left: int = -1
    """Remaining now; -1 means not stated. Likewise for the others."""
    input_left: int = -1
    output_left: int = -1


NOTHING_STATED = RateLimits()


def read_limits(headers: Mapping[str, str]) -> RateLimits:
    """Limits in a response's headers. A value that is no number counts as not stated.

    In OpenAI's format, tokens are those of input and output together; they are taken as a limit of the input.
    """
    known = dict(headers.items())
    if "x-ratelimit-limit-requests" in known:
        return RateLimits(
            requests=_number(known.get("x-ratelimit-limit-requests"), 0),
            input=_number(known.get("x-ratelimit-limit-tokens"), 0),
            requests_left=_number(known.get("x-ratelimit-remaining-requests"), -1),
            input_left=_number(known.get("x-ratelimit-remaining-tokens"), -1),
        )
    stated = [_number(known.get(name), 0) for name in _STATED]
    left = [_number(known.get(name), -1) for name in _LEFT]
    return RateLimits(*stated, *left)


def name_limit_class(provider: str, base_url: str | None, model: str) -> str:
    """Name the limits that count requests for `model`: `provider/account/kind of model`.

    The account is a digest of the credentials and the server's address. Versions of a model count as separate kinds. If they share a limit
    after all, the remaining amounts that the server states show it.
    """
    signed = [os.environ.get(name, "") for name in _CREDENTIALS]
    place = base_url or os.environ.get("ANTHROPIC_BASE_URL", "")
    account = hashlib.sha256("\0".join([provider, place, *signed]).encode()).hexdigest()[:8]
    family = _FAMILY.search(model)
    return f"{provider}/{account}/{family[0] if family else model}"


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() else otherwise
