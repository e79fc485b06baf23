"""What each failed request means, and what a person is told.

Tests of swarm/models/failures.py.
"""

from __future__ import annotations

from email.utils import formatdate

import pytest

from swarm.core.errors import ModelError, PermanentModelError, TransientModelError
from swarm.models.failures import credentials_failure, response_failure, retry_after_seconds, stream_failure

NOW = 1_795_000_000.0


def body(type: str, message: str = "no", code: str | None = None) -> dict[str, object]:
    error: dict[str, object] = {"type": type, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error}


def fail(status: int, content: object = None, **headers: str) -> ModelError:
    return response_failure(
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        content,
        model="claude-opus-9",
        provider="anthropic",
        aliases="opus (claude-opus-5-5)",
        now=NOW,
    )


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (408, None, "timeout"),
        (409, body("conflict_error"), "server"),
        (429, body("rate_limit_error"), "rate_limit"),
        (429, body("rate_limit_error", code="ramp_limit_exceeded"), "rate_limit"),
        (500, body("api_error"), "server"),
        (500, body("overloaded_error"), "overloaded"),
        (500, body("invalid_request_error"), "server"),
        (502, "<html>Bad gateway</html>", "server"),
        (503, "", "server"),
        (504, body("timeout_error"), "timeout"),
        (529, body("overloaded_error"), "overloaded"),
        (599, None, "server"),
    ],
)
def test_what_may_pass_is_transient(status: int, content: object, kind: str) -> None:
    error = fail(status, content)
    assert isinstance(error, TransientModelError)
    assert error.kind == kind
    assert f"HTTP {status}" in str(error)


@pytest.mark.parametrize(
    ("status", "content", "kind", "remedy"),
    [
        (400, body("invalid_request_error", "messages.3: bad"), "bad_request", "messages.3: bad"),
        (400, body("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), "too_large", "Shorten"),
        (400, body("invalid_request_error", "Your credit balance is too low to go on"), "billing", "buy credit"),
        (
            400,
            body("invalid_request_error", "You have reached your specified API usage limits."),
            "spend_limit",
            "Raise",
        ),
        (400, {"message": "Input is too long: prompt is too long"}, "too_large", "Shorten"),
        (401, body("authentication_error"), "authentication", "ANTHROPIC_API_KEY"),
        (402, body("billing_error"), "billing", "payment"),
        (403, body("permission_error"), "permission", "claude-opus-9"),
        (404, body("not_found_error", "model: claude-opus-9"), "not_found", "opus (claude-opus-5-5)"),
        (413, body("request_too_large"), "too_large", "Shorten"),
        (418, None, "bad_request", "HTTP 418"),
        (422, body("invalid_request_error"), "bad_request", "HTTP 422"),
        (429, body("rate_limit_error", code="enforced_spend_limit_reached"), "spend_limit", "spend limit"),
        (429, body("rate_limit_error", code="contract_spend_limit_reached"), "spend_limit", "spend limit"),
        (402, body("billing_error", code="linked_organization_spend_limit_reached"), "spend_limit", "spend limit"),
    ],
)
def test_what_will_not_pass_is_permanent_and_says_what_to_do(
    status: int, content: object, kind: str, remedy: str
) -> None:
    error = fail(status, content)
    assert isinstance(error, PermanentModelError)
    assert error.kind == kind
    assert remedy in str(error)


TOO_MUCH = "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9213, please reduce it."
LIMITED = "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5900, Requested 213."


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (413, TOO_MUCH, "too_large"),
        (413, "no", "too_large"),
        (429, TOO_MUCH, "too_large"),
        (429, LIMITED, "rate_limit"),
    ],
)
def test_a_request_above_the_limit_of_a_minute_is_too_large_for_ever(status: int, message: str, kind: str) -> None:
    coded = {"error": {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}}
    assert fail(status, coded, x_should_retry="true").kind == kind
    assert stream_failure(coded, model="m", provider="groq", aliases="").kind == (
        "too_large" if message == TOO_MUCH else "rate_limit"
    )


def test_the_servers_word_on_retries_is_obeyed() -> None:
    assert isinstance(fail(529, x_should_retry="false"), PermanentModelError)
    assert isinstance(fail(400, x_should_retry="true"), TransientModelError)


def test_a_spend_limit_is_permanent_even_if_the_header_asks_for_a_retry() -> None:
    error = fail(429, body("rate_limit_error", code="enforced_spend_limit_reached"), x_should_retry="true")
    assert isinstance(error, PermanentModelError)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "17"}, 17),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": formatdate(NOW + 120, usegmt=True)}, 120),
        ({"retry-after": formatdate(NOW - 120, usegmt=True)}, None),
        ({"retry-after": "86400"}, 3600),
        ({"retry-after": "inf"}, 3600),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "whenever"}, None),
        ({}, None),
    ],
)
def test_the_servers_wish_is_read_in_every_form_and_capped_at_an_hour(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_a_rate_limit_carries_the_servers_wish() -> None:
    assert fail(429, body("rate_limit_error"), retry_after="12").retry_after_seconds == 12


@pytest.mark.parametrize(
    ("type", "error_class", "kind"),
    [
        ("overloaded_error", TransientModelError, "overloaded"),
        ("api_error", TransientModelError, "server"),
        ("rate_limit_error", TransientModelError, "rate_limit"),
        ("timeout_error", TransientModelError, "timeout"),
        ("something_new_error", TransientModelError, "server"),
        ("invalid_request_error", PermanentModelError, "bad_request"),
        ("authentication_error", PermanentModelError, "authentication"),
    ],
)
def test_an_error_in_mid_reply_is_judged_by_its_type(type: str, error_class: type[ModelError], kind: str) -> None:
    error = stream_failure(body(type), model="m", provider="anthropic", aliases="")
    assert isinstance(error, error_class)
    assert error.kind == kind


def test_messages_are_one_line_and_of_bounded_length() -> None:
    text = str(fail(500, "line\n" * 1_000))
    assert "\n" not in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("bedrock", "AWS_"), ("vertex", "GOOGLE_APPLICATION_CREDENTIALS")],
)
def test_missing_credentials_name_the_variable_of_their_provider(provider: str, variable: str) -> None:
    error = credentials_failure(provider)
    assert error.kind == "authentication"
    assert variable in str(error)
