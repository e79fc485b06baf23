"""What the model's server says of its limits, and whose they are.

Tests of swarm/models/limits.py.
"""

from __future__ import annotations

import pytest

from swarm.models.limits import NOTHING_STATED, RateLimits, name_limit_class, read_limits


def test_limits_and_what_is_left_of_them_are_read_from_the_headers() -> None:
    headers = {
        "anthropic-ratelimit-requests-limit": "1000",
        "anthropic-ratelimit-requests-remaining": "999",
        "anthropic-ratelimit-output-tokens-limit": "400000",
        "anthropic-ratelimit-output-tokens-remaining": "soon",
    }
    assert read_limits(headers) == RateLimits(1000, 0, 400_000, 999, -1, -1)
    assert read_limits({}) == NOTHING_STATED


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("claude-sonnet-5-5", "sonnet-5-5"),
        ("claude-opus-5-20261001", "opus-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "haiku-4-5"),
        ("my-model", "my-model"),
    ],
)
def test_versions_of_a_model_are_kinds_of_their_own_and_dates_are_not(model: str, kind: str) -> None:
    assert name_limit_class("anthropic", None, model).endswith(f"/{kind}")


def test_who_signs_in_alike_at_the_same_place_shares_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "one")
    one = name_limit_class("anthropic", None, "claude-sonnet-5-5")
    assert name_limit_class("anthropic", None, "claude-sonnet-5-5") == one
    assert "one" not in one.split("/")[1]
    assert name_limit_class("anthropic", "http://proxy", "claude-sonnet-5-5") != one
    monkeypatch.setenv("ANTHROPIC_API_KEY", "two")
    assert name_limit_class("anthropic", None, "claude-sonnet-5-5") != one
