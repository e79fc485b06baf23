"""Build the request of a notice: a CloudEvent (1.0, structured JSON), signed by Standard Webhooks.

Pure: takes the time as an argument.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from standardwebhooks import Webhook

from swarm.core.notices import WebhookNotice, to_cloud_event

CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"
_TRIES_AFTER = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0)
"""Seconds from a failure to the next try; the last applies to all further ones."""
LONGEST_SECONDS = 3 * 86_400.0
"""Age at which an undelivered notice is given up."""


def seal(notice: WebhookNotice, source: str, secrets: str, now: float) -> tuple[bytes, dict[str, str]]:
    """Build the body and its headers. `secrets` is one or, during a rotation, several, separated by spaces."""
    body = json.dumps(to_cloud_event(notice, source), ensure_ascii=False)
    moment = datetime.fromtimestamp(int(now), UTC)
    return body.encode(), {
        "content-type": CONTENT_TYPE,
        "user-agent": "swarm-webhooks",
        "webhook-id": notice.id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": " ".join(Webhook(secret).sign(notice.id, moment, body) for secret in secrets.split()),
    }


def next_try_seconds(tries: int, chance: float) -> float:
    """Seconds to the next try after so many failures; `chance`, from 0 to 1, spreads notices that failed together."""
    return _TRIES_AFTER[min(tries, len(_TRIES_AFTER)) - 1] * (1 + chance / 5)
