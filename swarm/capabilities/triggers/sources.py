"""Webhooks that start jobs: their signatures, and what kind of event each is. Pure.

| source | signature | described at |
|---|---|---|
| github | `X-Hub-Signature-256` | docs.github.com: validating webhook deliveries |
| gitlab | `X-Gitlab-Token`, or Standard Webhooks | docs.gitlab.com: webhooks |
| slack | `X-Slack-Signature`, at most five minutes old | docs.slack.dev: verifying requests |
| standard | `webhook-signature`, at most five minutes old | standardwebhooks.com |
| hmac | `X-Signature-256: sha256=…` of the body | as GitHub's |
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from swarm.capabilities.triggers.model import Source, TriggerEvent, digest_of_body
from swarm.core.plain import find_unfit, load_json

REPLAY_SECONDS = 300.0
"""Greatest age of a delivery whose signature covers its time."""


class Forged(Exception):
    """A delivery whose signature does not fit, or is too old; the message names the reason."""


class UnreadableEvent(Exception):
    """A delivery that is no event."""


def check_signature(source: Source, headers: Mapping[str, str], body: bytes, secret: str, now: float) -> None:
    """Raise `Forged` unless the sender knows the secret. Header names are lower case."""
    match source:
        case "github":
            _compare(headers.get("x-hub-signature-256", ""), "sha256=" + _sign(secret, body))
        case "hmac":
            _compare(headers.get("x-signature-256", ""), "sha256=" + _sign(secret, body))
        case "gitlab" if "webhook-signature" not in headers:
            _compare(headers.get("x-gitlab-token", ""), secret)
        case "gitlab" | "standard":
            _check_standard(headers, body, secret, now)
        case "slack":
            sent = headers.get("x-slack-request-timestamp", "")
            _check_time(sent, now)
            _compare(headers.get("x-slack-signature", ""), "v0=" + _sign(secret, b"v0:%s:%s" % (sent.encode(), body)))


def read_event(source: Source, headers: Mapping[str, str], body: bytes) -> TriggerEvent:
    """The event of a delivery. Raises `UnreadableEvent`."""
    data = _read_body(headers, body)
    action = data.get("action") if isinstance(data, dict) else None
    match source:
        case "github":
            kind, given = headers.get("x-github-event", ""), headers.get("x-github-delivery", "")
            kind = f"{kind}.{action}" if isinstance(action, str) else kind
        case "gitlab":
            kind = headers.get("x-gitlab-event", "")
            given = headers.get("webhook-id", "") or headers.get("x-gitlab-event-uuid", "")
        case "slack":
            kind, given = _name_slack(data)
        case "standard":
            kind, given = str(data.get("type", "")) if isinstance(data, dict) else "", headers.get("webhook-id", "")
        case "hmac":
            kind, given = headers.get("x-event-type", ""), headers.get("x-event-id", "")
    return TriggerEvent(id=given[:200] or digest_of_body(body), type=kind[:200], data=data)


def _name_slack(data: Any) -> tuple[str, str]:
    if not isinstance(data, dict):
        raise UnreadableEvent("a delivery of Slack's must be an object")
    event = data.get("event")
    if isinstance(event, dict):
        return str(event.get("type", "")), str(data.get("event_id", ""))
    return str(data.get("command") or data.get("type") or ""), str(data.get("trigger_id", ""))


def _read_body(headers: Mapping[str, str], body: bytes) -> Any:
    try:
        text = body.decode()
        if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            fields = {name: values[-1] for name, values in parse_qs(text, max_num_fields=1_000).items()}
            # GitHub and Slack can send their JSON as a form's field.
            return load_json(fields["payload"]) if set(fields) == {"payload"} else fields
        data = load_json(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableEvent(f"the body is no JSON: {error}") from None
    if unfit := find_unfit(data):
        raise UnreadableEvent(f"the body cannot be kept: {unfit}")
    return data


def _check_standard(headers: Mapping[str, str], body: bytes, secret: str, now: float) -> None:
    from standardwebhooks import Webhook, WebhookVerificationError

    _check_time(headers.get("webhook-timestamp", ""), now)
    try:
        Webhook(secret).verify(body, dict(headers))
    except json.JSONDecodeError:
        return  # The signature holds, and the reader refuses the body.
    except (WebhookVerificationError, ValueError) as error:
        raise Forged(f"its signature does not fit: {error}") from None


def _check_time(sent: str, now: float) -> None:
    if not sent.isdigit() or abs(now - int(sent)) > REPLAY_SECONDS:
        raise Forged(f"it was not sent within {REPLAY_SECONDS:.0f} s")


def _sign(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _compare(given: str, right: str) -> None:
    if not hmac.compare_digest(given.encode(), right.encode()):
        raise Forged("its signature does not fit the secret")
