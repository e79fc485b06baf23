"""The API's rules: what a correct loop sends passes, what a broken one sends is refused.

Tests of tests/rehearsal/checks.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.rehearsal.checks import RequestRefused, check_request, sign_thinking

MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
TOOL: dict[str, Any] = {"name": "LS", "input_schema": {"type": "object"}}
LATER = {**TOOL, "name": "later", "defer_loading": True}
REFERENCE = {"type": "tool_reference", "tool_name": "later"}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def text(words: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "LS", "input": {}, **more}


def result(call_id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), **more}


def passes(body: dict[str, Any], **options: Any) -> None:
    """The request is taken, and as it is."""
    assert check_request(body, **options) is body


def test_a_correct_conversation_passes() -> None:
    passes(
        request(
            user(text()),
            assistant(
                {"type": "thinking", "thinking": "hm", "signature": sign_thinking("hm")}, text(), use("a"), use("b")
            ),
            user(result("b"), result("a", [text()]), text("and hurry")),
            assistant(use("c")),
            user(result("c", "")),
            {"role": "user", "content": "neighbours of one role are one turn"},
            system=[text()],
            tools=[{"name": "LS", "input_schema": {"type": "object"}}],
            tool_choice={"type": "none"},
        )
    )


def test_results_may_be_spread_over_neighbouring_user_messages() -> None:
    passes(request(user(text()), assistant(use("a"), use("b")), user(result("a")), user(result("b"))))


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "must be a JSON object"),
        (request(user(text()), tools=[LATER]), "at least one tool must not have defer_loading"),
        (request(user(text()), tools=[TOOL, {**LATER, **MARK}]), "cannot have cache_control"),
        (
            request(user(text()), assistant(use("a")), user(result("a", [REFERENCE])), tools=[TOOL]),
            "no tool is called 'later'",
        ),
        ({"max_tokens": 1, "messages": [user(text())]}, "model: Field required"),
        ({"model": "m", "messages": [user(text())]}, "max_tokens: Field required"),
        (request(), "at least one message"),
        (request(assistant(text())), "first message must be the user's"),
        (request({"role": "robot", "content": "a"}), "messages.0.role"),
        (request(user()), "non-empty content"),
        (request({"role": "user", "content": " "}), "not empty"),
        (request(user(text("")), system=[]), "not empty"),
        (request(user(use("a"))), "may not hold a block of type 'tool_use'"),
        (request(user(text()), assistant(result("a"))), "may not hold a block of type 'tool_result'"),
        (request(user(text()), assistant(use("a"), use("b")), user(result("a"))), "immediately after: b"),
        (request(user(text()), assistant(use("a")), user(text())), "immediately after: a"),
        (request(user(text()), assistant(use("a")), user(text()), assistant(text())), "immediately after: a"),
        (request(user(text()), assistant(use("a")), user(text(), result("a"))), "before any other content"),
        (request(user(result("a"))), "unexpected `tool_use_id`"),
        (
            request(user(text()), assistant(use("a")), user(result("a")), assistant(text()), user(result("a"))),
            "unexpected `tool_use_id`",
        ),
        (request(user(text()), assistant(use("a")), user(result("a"), result("a"))), "a has several"),
        (
            request(user(text()), assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a"))),
            "ids must be unique",
        ),
        (request(user(text()), assistant(use("a b")), user(result("a b"))), "messages.1.content.0.id"),
        (request(user(text()), assistant(use("a", input="x")), user(result("a"))), "input: must be an object"),
        (request(user(text()), assistant(use("a")), user(result("a", "", is_error=True))), "cannot be empty"),
        (request(user(text()), assistant(text())), "must end with a user message"),
        (
            request(user(text()), assistant({"type": "thinking", "thinking": "hm", "signature": "x"}), user(text())),
            "invalid `signature`",
        ),
        (request(user(text()), tools=[{"name": "a b", "input_schema": {"type": "object"}}]), "tools.0.name"),
        (request(user(text()), tools=[{"name": "a", "input_schema": {}}]), "tools.0.input_schema"),
        (
            request(user(text()), tools=[{"name": "a", "input_schema": {"type": "object"}}] * 2),
            "tool names must be unique",
        ),
        (request(user(text()), tool_choice={"type": "none"}), "together with `tools`"),
        (request(user(*[text(**MARK)] * 5)), "a maximum of 4 blocks with cache_control may be provided; found 5"),
        (request(user(*[text(**MARK)] * 4), **MARK), "found 5"),
        (request(user(text(cache_control={"type": "eternal"}))), "cache_control: must be"),
        (
            request(user(text(**MARK), text(cache_control={"type": "ephemeral", "ttl": "1h"}))),
            "1h must not come after",
        ),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused(body: Any, complaint: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_request(body)
    assert complaint in caught.value.message
    assert caught.value.status == 400


def test_only_a_scenario_with_pauses_lets_a_conversation_end_with_the_assistant() -> None:
    body = request(user(text()), assistant(text()))
    assert check_request(body, may_end_with_assistant=True) is body
    with pytest.raises(RequestRefused):
        check_request(request(user(text()), assistant(use("a"))), may_end_with_assistant=True)


def test_counting_tokens_needs_no_max_tokens() -> None:
    body = {"model": "m", "messages": [user(text())]}
    passes(body, counting=True)
    with pytest.raises(RequestRefused, match="max_tokens"):
        check_request(body)
