"""Classifies failed model requests: if and when to try again, and what people can do. Pure.

Every way that a request can fail ends as a `TransientModelError` or a `PermanentModelError` with one of these kinds:

- transient: `rate_limit`, `overloaded`, `server`, `timeout`, `connection`, `cut` (the stream ended too early);
- permanent: `authentication`, `permission`, `billing`, `spend_limit`, `not_found`, `too_large`, `bad_image`, `no_summary`,
  `bad_request`; and the transient kinds, where the server says that a retry is pointless.

An unknown status, error type or error code is judged by its nearest known neighbour: 5xx is transient, 4xx is not.

The governor decides when the fleet may ask at all: it holds all requests after a 429, and opens slowly after a storm of overloads.
This module judges the failure of a single request.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from swarm.core.errors import ModelError, PermanentModelError, TransientModelError
from swarm.models.vendors import vendors

RETRY_AFTER_CAP_SECONDS = 3600.0
CAP_SECONDS = 60.0
OVERLOADED_CAP_SECONDS = 8.0
"""Longest wait for an overloaded server: the governor opens slowly; no need to sleep on."""
_FIRST_SECONDS = 0.5
_MAX_DOUBLINGS = 16  # far above the cap; keeps 2**n from overflowing after a day of failures

_STATUS_KINDS = {
    400: "bad_request",
    401: "authentication",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "too_large",
    422: "bad_request",
    429: "rate_limit",
    504: "timeout",
    529: "overloaded",
}
_TYPE_KINDS = {
    "invalid_request_error": "bad_request",
    "authentication_error": "authentication",
    "billing_error": "billing",
    "permission_error": "permission",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limit",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
    "conflict_error": "server",
    "api_error": "server",
    # Bedrock's names in its event stream.
    "throttlingException": "rate_limit",
    "modelTimeoutException": "timeout",
    "serviceUnavailableException": "overloaded",
    "validationException": "bad_request",
    # Google's.
    "INVALID_ARGUMENT": "bad_request",
    "FAILED_PRECONDITION": "permission",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "INTERNAL": "server",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}
_CODE_KINDS = {
    "enforced_spend_limit_reached": "spend_limit",
    "contract_spend_limit_reached": "spend_limit",
    "linked_organization_spend_limit_reached": "spend_limit",
    "linked_organization_billing_unavailable": "billing",
    "organization_on_hold": "permission",
    "request_body_too_large_after_decoding": "too_large",
    # OpenAI's, and those of servers that speak its formats.
    "context_length_exceeded": "too_large",
    "insufficient_quota": "billing",
    "model_not_found": "not_found",
    "rate_limit_exceeded": "rate_limit",
    "slow_down": "overloaded",
    "server_is_overloaded": "overloaded",
    "server_error": "server",
    "invalid_image": "bad_image",
    "image_too_large": "bad_image",
    "image_parse_error": "bad_image",
    "compaction_unavailable": "no_summary",
    "compaction_nothing_to_summarize": "no_summary",
}
# The API gives these neither a status nor a code; only the wording distinguishes them from a malformed request.
_WORDINGS = (
    (
        re.compile(
            r"(?:prompt|input) is too long|exceed(?:s|ed)? (?:the )?(?:available )?context (?:limit|window|size|length)"
            r"|maximum context length|context length of only|maximum number of tokens allowed",
            re.I,
        ),
        "too_large",
    ),
    (re.compile(r"reached your specified .*usage limit|spend(?:ing)? (?:limit|cap)", re.I), "spend_limit"),
    (re.compile(r"credit balance is too low|prepayment credits are depleted", re.I), "billing"),
    (re.compile(r"\bAPI key (?:not valid|expired)", re.I), "authentication"),
)
_AGAIN_IN = re.compile(
    r"\b(?:re)?try (?:again )?in (?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?) ?(ms|s))?(?!\w)", re.I
)
"""OpenAI writes `try again in 1m26.4s`, Google `retry in 34.5s`."""
_OVER_RATE = re.compile(r"\brequest too large\b", re.I)
_IMAGE = re.compile(r"\bimages?\b", re.I)
_TRANSIENT_KINDS = frozenset({"rate_limit", "overloaded", "server", "timeout", "connection", "cut"})
_LONGEST_DETAIL = 300

_SIGN_IN = {
    "anthropic": "set ANTHROPIC_API_KEY to a valid key (or ANTHROPIC_AUTH_TOKEN to a valid token)",
    "bedrock": "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use an AWS profile",
    "vertex": "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`",
}


def response_failure(
    status: int, headers: Mapping[str, str], body: object, *, model: str, provider: str, aliases: str, now: float
) -> ModelError:
    """Make the error for an error status. `aliases` is for messages about unknown models."""
    detail = _read_body(body)
    kind = _kind_of(detail, status)
    transient = kind in _TRANSIENT_KINDS
    # These stay permanent whatever the header says: the server sets that header for all 429s.
    if kind not in {"spend_limit", "billing", "no_summary", "too_large"}:
        match headers.get("x-should-retry"):
            case "true":
                transient, kind = True, kind if transient else "server"
            case "false":
                transient = False
    where = f"HTTP {status}"
    if transient:
        return TransientModelError(
            _say(kind, where, detail.message),
            kind=kind,
            retry_after_seconds=retry_after_seconds(headers, now) or detail.wait,
        )
    return _permanent(kind, where, detail.message, model=model, provider=provider, aliases=aliases)


def stream_failure(body: object, *, model: str, provider: str, aliases: str) -> ModelError:
    """Make the error for an `error` event in a stream whose HTTP status was 200."""
    detail = _read_body(body)
    kind = _kind_of(detail, None)
    if kind in _TRANSIENT_KINDS:
        return TransientModelError(
            _say(kind, "in mid-reply", detail.message), kind=kind, retry_after_seconds=detail.wait
        )
    return _permanent(kind, "in mid-reply", detail.message, model=model, provider=provider, aliases=aliases)


def credentials_failure(provider: str, why: str = "") -> PermanentModelError:
    """Make the error for a request without credentials."""
    return _permanent("authentication", "", why, model="", provider=provider, aliases="")


def unusable_failure(why: str, *, model: str, provider: str, aliases: str) -> PermanentModelError:
    """Make the error for an answer that does not come from a server of the Messages API."""
    return _permanent("not_found", "", why, model=model, provider=provider, aliases=aliases)


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after` (seconds or an HTTP date), at most an hour."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            seconds = _seconds_until(text, now)
        if not math.isnan(seconds) and seconds > 0:
            return min(seconds, RETRY_AFTER_CAP_SECONDS)
    return None


def _seconds_told(message: str) -> float | None:
    """The wait that a message names, which some replies state nowhere else."""
    found = _AGAIN_IN.search(message)
    if found is None:
        return None
    hours, minutes, number, unit = found.groups()
    seconds = float(number or 0) * (0.001 if (unit or "").lower() == "ms" else 1.0)
    return min(int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds, RETRY_AFTER_CAP_SECONDS) or None


def backoff_seconds(attempt: int, error: TransientModelError, random: float) -> float:
    """Seconds to wait after failure `attempt` (0 is the first), given a `random` in [0, 1).

    A 429 needs no wait: the governor knows when there is room. Otherwise the server's own wish wins: never sooner, up to a tenth later.
    Without a wish the wait doubles up to a cap, and the result lies in [0.5, 1] of it.
    """
    if error.kind == "rate_limit":
        return 0.0
    if error.retry_after_seconds is not None:
        return error.retry_after_seconds * (1.0 + 0.1 * random)
    cap = OVERLOADED_CAP_SECONDS if error.kind == "overloaded" else CAP_SECONDS
    first = 1.0 if error.kind == "overloaded" else _FIRST_SECONDS
    ceiling: float = min(cap, first * 2 ** min(max(attempt, 0), _MAX_DOUBLINGS))
    return ceiling * (0.5 + 0.5 * random)


class _Detail(NamedTuple):
    """The parts of an error body that matter."""

    type: str
    code: str
    message: str
    wait: float | None = None
    """The wait in seconds that the body asks for, in a field or at the end of its message."""


def _read_body(body: object) -> _Detail:
    if isinstance(body, list) and body:  # Google's servers wrap an error in a list
        body = body[0]
    error: Any = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        # A plain text, or the flatter shapes of other platforms and proxies.
        text = body.get("message") or error or body.get("detail") if isinstance(body, dict) else body
        said = "" if not text else text if isinstance(text, str) else json.dumps(text)
        return _Detail("", "", _one_line(said), _seconds_told(said))
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else error.get("code")
    kind = error.get("type") or error.get("status") or ""
    wait = next((_seconds_of(one.get("retryDelay")) for one in _dicts(details) if "retryDelay" in one), None)
    said = str(error.get("message") or "")
    return _Detail(str(kind), str(code or ""), _one_line(said), wait or _seconds_told(said))


def _dicts(details: object) -> list[dict[str, Any]]:
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _seconds_of(duration: object) -> float | None:
    """Seconds of a duration of Google's, such as `34.5s`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(duration))
    return min(float(found[1]), RETRY_AFTER_CAP_SECONDS) if found else None


def _kind_of(detail: _Detail, status: int | None) -> str:
    if detail.code in _CODE_KINDS:
        kind = _CODE_KINDS[detail.code]
        # A request above the limit of a minute, as at Groq and OpenAI, will never pass.
        return "too_large" if kind == "rate_limit" and (status == 413 or _OVER_RATE.search(detail.message)) else kind
    if status is None:
        kind = _TYPE_KINDS.get(detail.type, "server")
    elif status in _STATUS_KINDS and status != 400:
        kind = _STATUS_KINDS[status]
    elif status >= 500:
        kind = _TYPE_KINDS.get(detail.type, "server")
        return kind if kind in _TRANSIENT_KINDS else "server"
    else:
        kind = _TYPE_KINDS.get(detail.type, "bad_request")
    if kind in {"bad_request", "rate_limit", "billing"}:
        plain = "bad_image" if kind == "bad_request" and _IMAGE.search(detail.message) else kind
        return next((special for wording, special in _WORDINGS if wording.search(detail.message)), plain)
    return kind


def _seconds_until(http_date: str, now: float) -> float:
    try:
        when = parsedate_to_datetime(http_date)
    except (TypeError, ValueError):
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else line[: _LONGEST_DETAIL - 1] + "…"


_FACTS = {
    "rate_limit": "the model's server limits our rate",
    "overloaded": "the model's server is overloaded",
    "server": "the model's server failed",
    "timeout": "the model request took too long",
    "authentication": "the model's server does not accept our credentials",
    "permission": "the model's server forbids this request",
    "billing": "the account cannot pay for model requests",
    "spend_limit": "the account's spend limit is reached",
    "not_found": "the model's server does not know the requested model or address",
    "too_large": "the model request is too large",
    "bad_image": "the model's server cannot use an image of the request",
    "no_summary": "the model's server could not summarize the conversation",
    "bad_request": "the model's server refused the request",
}


def _say(kind: str, where: str, detail: str, remedy: str = "") -> str:
    fact = _FACTS[kind] + (f" ({where})" if where else "")
    return ". ".join(part for part in (f"{fact}: {detail.rstrip('.')}" if detail else fact, remedy) if part)


_REMEDIES = {
    "authentication": "To sign in, {sign_in}, where the workers run",
    "permission": "Use credentials that may use {model}, or choose another model",
    "billing": "Correct the account's payment details or buy credit, then continue the job: `swarm send JOB continue`",
    "spend_limit": "Raise the account's spend limit or wait until it resets, then continue the job: `swarm send JOB continue`",
    "not_found": "Check the model id {model!r} and the server (SWARM_BASE_URL, ANTHROPIC_BASE_URL); the known aliases are {aliases}",
    "too_large": "Shorten the prompt or the tool results that went into it",
    "bad_request": "",
    "bad_image": "",
    "no_summary": "",
}


def _sign_in_at(vendor: str) -> str:
    known = vendors({}).get(vendor)
    return f"set {known.key} to a valid key" if known and known.key else "set the variable that SWARM_VENDORS names"


def _permanent(kind: str, where: str, why: str, *, model: str, provider: str, aliases: str) -> PermanentModelError:
    sign_in = _SIGN_IN.get(provider) or _sign_in_at(provider)
    remedy = _REMEDIES.get(kind, "The server asks not to try again")
    remedy = remedy.format(model=model, aliases=aliases, sign_in=sign_in)
    return PermanentModelError(_say(kind, where, why, remedy), kind=kind)
