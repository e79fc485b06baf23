"""What the rehearsal server refuses of summaries, because the API would, or because it would be wrong without a word.

Tests of tests/rehearsal/checks.py, tests/rehearsal/summaries.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.rehearsal.checks import RequestRefused, check_request, sign_thinking
from tests.rehearsal.summaries import BETA, Summaries, bind_thinking

Body = dict[str, Any]


def user(text: str, *results: str) -> Body:
    blocks = [{"type": "tool_result", "tool_use_id": call, "content": "found"} for call in results]
    return {"role": "user", "content": [*blocks, {"type": "text", "text": text}]}


def reply(body: Body, call: str) -> Body:
    """What the server would say to this request: a thought that is bound to it, and a call."""
    thought = {"type": "thinking", "thinking": "hm", "signature": f"{sign_thinking('hm')}.{bind_thinking(body)}"}
    return {"role": "assistant", "content": [thought, {"type": "tool_use", "id": call, "name": "Read", "input": {}}]}


def request(*messages: Body, **more: Any) -> Body:
    tool = {"name": "Read", "input_schema": {"type": "object"}}
    return {"model": "m", "max_tokens": 9_000, "system": "Work.", "tools": [tool], "messages": list(messages), **more}


class Server:
    """A conversation of two turns, and its summary."""

    def __init__(self) -> None:
        self.summaries = Summaries()
        first = request(user("Do it."))
        second = request(*first["messages"], reply(first, "a"), user("on", "a"))
        self.asked = {**second, "compaction": {"type": "summarize"}}
        self.accept(self.asked)
        self.block = self.summaries.make(self.asked, "What came before.")
        self.kept = [reply(second, "b"), user("state", "b")]

    def accept(self, body: Body, betas: str = BETA, *, able: bool = True) -> None:
        self.summaries.check(check_request(copy.deepcopy(body)), betas, able=able)

    def after(self, **changed: Any) -> Body:
        block = {**self.block, **changed}
        return request({"role": "assistant", "content": [block]}, *self.kept)


@pytest.fixture
def server() -> Server:
    return Server()


def refused(server: Server, body: Body, betas: str = BETA, **options: Any) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        server.accept(body, betas, **options)
    return caught.value


def test_the_block_and_what_followed_unchanged_are_accepted(server: Server) -> None:
    server.accept(server.after())
    server.accept(server.after(cache_control={"type": "ephemeral"}))


def test_the_header_is_needed_to_ask_and_for_ever_after(server: Server) -> None:
    assert BETA in refused(server, server.asked, "").message
    assert BETA in refused(server, server.after(), "other-beta").message


def test_a_model_that_makes_none_says_so(server: Server) -> None:
    assert "compaction" in refused(server, server.asked, able=False).message


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"content": "Something else."}, "compaction_content_mismatch"),
        ({"tool_changes": None}, "compaction_content_mismatch"),
        ({"encrypted_content": "00"}, "compaction_content_mismatch"),
        ({"signature": "mine"}, "compaction_signature_invalid"),
    ],
)
def test_the_block_comes_back_as_it_was_returned(server: Server, changed: Body, code: str) -> None:
    assert refused(server, server.after(**changed)).code == code


def test_it_is_the_first_and_the_only_one(server: Server) -> None:
    block = {"role": "assistant", "content": [server.block]}
    late = request(user("Do it."), block, user("on"))
    twice = request(block, block, user("on"))
    assert refused(server, late).code == "compaction_block_misplaced"
    assert refused(server, twice).code == "compaction_block_ambiguous"


def test_what_it_stands_for_is_not_sent_beside_it(server: Server) -> None:
    block = {"role": "assistant", "content": [server.block]}
    both = request(block, *server.asked["messages"][1:], *server.kept)
    assert "beside the summary" in refused(server, both).message


@pytest.mark.parametrize("what", ["a message between", "a shorter result", "another system prompt", "another tool"])
def test_thinking_is_kept_only_with_the_prefix_that_it_was_made_in(server: Server, what: str) -> None:
    body = server.after()
    server.accept(body)
    if what == "a message between":
        body["messages"].insert(1, user("How things stand."))
    elif what == "another system prompt":
        body["system"] = "Play."
    elif what == "another tool":
        body["tools"] = [*body["tools"], {"name": "Grep", "input_schema": {"type": "object"}}]
    else:
        whole = request(*server.asked["messages"], *server.kept)
        server.accept(whole)
        whole["messages"][2]["content"][0]["content"] = "f"
        body = whole
    assert "thinking" in refused(server, body).message


def test_a_summary_of_a_summary_alone_is_none(server: Server) -> None:
    body = request({"role": "assistant", "content": [server.block]}, compaction={"type": "summarize"})
    assert refused(server, body).code == "compaction_nothing_to_summarize"


def test_a_second_summary_stands_for_the_first_one_too(server: Server) -> None:
    second = {**server.after(), "compaction": {"type": "summarize"}}
    server.accept(second)
    block = server.summaries.make(second, "All of it.")
    third = reply({**second, "messages": second["messages"]}, "c")
    server.accept(request({"role": "assistant", "content": [block]}, third, user("on", "c")))
    again = request({"role": "assistant", "content": [block]}, *server.kept)
    assert refused(server, again)


@pytest.mark.parametrize(
    "more",
    [
        {"compaction": {"type": "summarize", "trigger": 5}},
        {"compaction": {"type": "summarize", "instructions": "x" * 17_000}},
        {"stop_sequences": ["x"]},
        {"context_management": {"edits": []}},
        {"tool_choice": {"type": "any"}},
        {"output_config": {"format": {"type": "json_schema"}}},
    ],
)
def test_what_cannot_go_with_a_request_for_one_is_refused(server: Server, more: Body) -> None:
    refused(server, {**server.asked, **more})
