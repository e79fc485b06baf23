"""What a notice is as a CloudEvent, how it is signed, when it is tried again, and what settings are refused.

Tests of swarm/capabilities/webhooks/addresses.py, swarm/capabilities/webhooks/envelope.py, swarm/capabilities/webhooks/notices.py,
swarm/core/notices.py.
"""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from swarm.capabilities.webhooks.addresses import names_of, read_address
from swarm.capabilities.webhooks.envelope import LONGEST_SECONDS, next_try_seconds, seal
from swarm.core.errors import ConfigurationError
from swarm.core.notices import WebhookNotice, to_cloud_event
from swarm.core.settings import Settings, load_settings

OLD, NEW = "whsec_" + "A" * 32, "whsec_" + "B" * 32
NOTICE = WebhookNotice(
    type="question",
    job_id="job-1",
    agent_id="agent-1",
    seq=7,
    at=1_700_000_000.25,
    title="Größe?",
    rehearsed=False,
    about={"question": "question-1", "sort": "plan", "title": "Which?", "expires_at": "1700000060.5"},
)


def test_a_notice_is_a_cloud_event_with_the_names_of_the_stream() -> None:
    event = to_cloud_event(NOTICE, "swarm:swarm")
    assert (event["id"], event["type"], event["subject"]) == ("job-1/7", "swarm.question.v1", "job-1/agent-1")
    assert event["time"] == "2023-11-14T22:13:20.250Z"
    assert event["data"]["question_id"] == "question-1" and event["data"]["kind"] == "plan"
    assert event["data"]["expires_at"] == 1_700_000_060.5


def test_while_one_secret_takes_the_others_place_receivers_with_either_believe() -> None:
    body, headers = seal(NOTICE, "swarm:swarm", f"{OLD} {NEW}", time.time())
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(body, headers)["data"]["title"] == "Which?"
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "C" * 32).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body + b" ", headers)


def test_tries_become_rarer_and_end() -> None:
    waits = [next_try_seconds(tries, 0.0) for tries in range(1, 9)]
    assert waits == sorted(waits) and waits[0] == 5 and waits[-1] == waits[-2] == 18_000
    assert next_try_seconds(1, 1.0) == 6
    assert sum(waits) < LONGEST_SECONDS


@pytest.mark.parametrize(
    ("webhooks", "secret", "why"),
    [
        ('{"ops": "https://example.org"}', "", "SWARM_WEBHOOK_SECRET"),
        ('{"ops": "https://example.org"}', "secret", "openssl"),
        ('{"ops": "example.org"}', OLD, "begins with https://"),
        ('{"job": "https://example.org"}', OLD, "'job' is not a name"),
    ],
)
def test_an_address_that_cannot_be_told_is_refused(
    webhooks: str, secret: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_WEBHOOKS", webhooks)
    monkeypatch.setenv("SWARM_WEBHOOK_SECRET", secret)
    with pytest.raises(ConfigurationError, match=why):
        load_settings()


def test_a_job_brings_an_address_that_is_signed_for() -> None:
    settings = Settings(webhook_secret=OLD, job_webhooks="public")
    assert names_of(settings) == ["job"] and names_of(Settings()) == []
    assert read_address("https://example.org/x#y", settings).url == "https://example.org/x"
    with pytest.raises(ConfigurationError, match="is signed"):
        read_address("https://example.org", Settings())
    with pytest.raises(ConfigurationError, match="https://"):
        read_address("file:///etc/passwd", settings)
