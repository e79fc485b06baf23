"""Building a request: the body, and where the prompt cache may hold.

Tests of swarm/models/request.py.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarm.models import Block, ModelRequest
from swarm.models.request import LOOKBACK_BLOCKS, build_request

TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}, {"name": "Edit", "input_schema": {"type": "object"}}]


def request(messages: list[dict[str, Any]], **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "m", "system": "You work.", "tools": TOOLS, "messages": messages} | fields)


def body_of(messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return build_request(request(messages, **fields), max_output=64_000)


def blocks_of(body: dict[str, Any]) -> list[Block]:
    """All blocks of the prompt, in the order in which the cache sees them."""
    return [*body.get("tools", []), *body.get("system", []), *(b for m in body["messages"] for b in m["content"])]


def is_marked(block: Block) -> bool:
    return "cache_control" in block


def unmarked(block: Block) -> Block:
    return {key: value for key, value in block.items() if key != "cache_control"}


class PromptCache:
    """The server's cache, as documented: entries at marks, found by looking back from marks, but not far."""

    def __init__(self) -> None:
        self._entries: set[str] = set()

    def send(self, body: dict[str, Any]) -> tuple[int, int]:
        """How many of the request's blocks were read from the cache, and how many there are."""
        blocks = blocks_of(body)
        prefixes, text = [], ""
        for block in blocks:
            text += json.dumps(unmarked(block), sort_keys=True)
            prefixes.append(text)
        marks = [place for place, block in enumerate(blocks) if is_marked(block)]
        read = 0
        for mark in marks:
            for place in range(mark, max(-1, mark - LOOKBACK_BLOCKS), -1):
                if prefixes[place] in self._entries:
                    read = max(read, place + 1)
        self._entries |= {prefixes[mark] for mark in marks}
        return read, len(blocks)


# -- generated lives ------------------------------------------------------------------------------------------

words = st.text(alphabet="abc ", max_size=6)
texts = st.builds(lambda text: {"type": "text", "text": text}, words)
real_texts = st.builds(lambda text: {"type": "text", "text": text or "x"}, st.text(alphabet="abc", max_size=6))
thoughts = st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, words)
redacted = st.just({"type": "redacted_thinking", "data": "d"})
calls = st.builds(lambda n: {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}}, st.integers(0, 99))
results = st.builds(lambda n: {"type": "tool_result", "tool_use_id": f"t{n}", "content": "r"}, st.integers(0, 99))
novel = st.just({"type": "hologram"})


def message(role: str, blocks: st.SearchStrategy[Block], *, max_size: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(blocks, min_size=1, max_size=max_size).map(lambda content: {"role": role, "content": content})


replies = message("assistant", thoughts | redacted | texts | calls | novel, max_size=35)
answers = message("user", results | real_texts, max_size=45)
prompts = real_texts.map(lambda block: {"role": "user", "content": block["text"]}) | answers
lives = st.tuples(prompts, st.lists(st.tuples(replies, answers), max_size=4)).map(
    lambda history: [history[0], *(part for turn in history[1] for part in turn)]
)


@given(messages=lives, system=st.sampled_from(["", "You work."]), tools=st.sampled_from([[], TOOLS]))
def test_marks_are_few_allowed_and_all_that_changes(messages: Any, system: str, tools: Any) -> None:
    before = copy.deepcopy(messages)
    given_tools = copy.deepcopy(tools)
    body = body_of(messages, system=system, tools=tools)
    assert messages == before
    assert tools == given_tools
    marked = [block for block in blocks_of(body) if is_marked(block)]
    assert 1 <= len(marked) <= 4, "more than the API allows"
    for block in marked:
        assert block.get("type") not in {"thinking", "redacted_thinking", "hologram"}
        assert block.get("type") != "text" or block["text"].strip()
    sent = [unmarked(block) for message in body["messages"] for block in message["content"]]
    content = [m["content"] for m in messages]
    kept = [b for part in content for b in ([{"type": "text", "text": part}] if isinstance(part, str) else part)]
    assert sent == [block for block in kept if block.get("type") != "text" or block["text"].strip()]


@given(messages=lives)
def test_the_end_of_every_request_is_marked(messages: Any) -> None:
    body = body_of(messages)
    assert is_marked(body["messages"][-1]["content"][-1])
    assert is_marked(body["system"][-1])


SILENT_BEFORE_A_WIDE_TURN = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [{"type": "text", "text": ""}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}] * (LOOKBACK_BLOCKS + 1)},
]


@settings(max_examples=200)
@example(messages=SILENT_BEFORE_A_WIDE_TURN)
@given(messages=lives)
def test_each_turn_of_a_life_reads_all_that_the_turn_before_sent(messages: Any) -> None:
    cache = PromptCache()
    already_sent = 0
    for length in range(1, len(messages) + 1, 2):
        read, sent = cache.send(body_of(messages[:length]))
        assert read == already_sent
        already_sent = sent


@given(messages=lives, tail=message("user", real_texts, max_size=1))
def test_a_request_whose_end_changed_reads_all_but_one_lookback_of_what_was_sent(messages: Any, tail: Any) -> None:
    cache = PromptCache()
    for length in range(1, len(messages) + 1, 2):
        cache.send(body_of(messages[:length]))
    changed = [*messages[:-1], {"role": "user", "content": [*_as_blocks(messages[-1]), *tail["content"]]}]
    read, sent = cache.send(body_of(changed))
    assert read == sent - 1


def test_a_child_with_the_same_definition_reads_the_parents_system_prompt() -> None:
    cache = PromptCache()
    cache.send(body_of([{"role": "user", "content": "one"}]))
    assert cache.send(body_of([{"role": "user", "content": "two"}])) == (3, 4)


def test_a_wide_turn_gets_a_mark_within_one_lookback_of_its_end() -> None:
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in range(30)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "r"} for n in range(30)]
    body = body_of(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        ]
    )
    marks = [place for place, block in enumerate(blocks_of(body)) if is_marked(block)]
    last = len(blocks_of(body)) - 1
    assert marks == [2, 3, last - LOOKBACK_BLOCKS + 1, last]


def test_without_a_system_prompt_the_tools_are_marked() -> None:
    body = body_of([{"role": "user", "content": "hi"}], system="")
    assert "system" not in body
    assert [is_marked(tool) for tool in body["tools"]] == [False, True]
    assert not any(is_marked(tool) for tool in TOOLS)


def test_a_reply_that_said_nothing_is_left_out() -> None:
    body = body_of(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "text", "text": ""}]},
            {"role": "user", "content": "go on"},
        ]
    )
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


def test_a_request_ending_in_a_reply_is_marked_at_its_last_markable_block() -> None:
    body = body_of(
        [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "t", "signature": "s"}],
            },
        ]
    )
    assert [is_marked(block) for block in body["messages"][1]["content"]] == [True, False]
    assert is_marked(body["messages"][0]["content"][0])


def test_tools_can_be_forbidden_without_leaving_the_prefix() -> None:
    said = [{"role": "user", "content": "hi"}]
    assert body_of(said, tools_allowed=False)["tool_choice"] == {"type": "none"}
    assert body_of(said, tools_allowed=False)["tools"] == body_of(said)["tools"]
    assert "tool_choice" not in body_of(said)
    without = body_of(said, tools=[], tools_allowed=False)
    assert "tools" not in without and "tool_choice" not in without


def test_effort_and_the_size_of_the_reply_are_passed_on() -> None:
    said = [{"role": "user", "content": "hi"}]
    assert body_of(said, effort="low")["output_config"] == {"effort": "low"}
    assert "output_config" not in body_of(said)
    assert body_of(said, max_tokens=100_000)["max_tokens"] == 64_000
    assert body_of(said, max_tokens=1_000)["max_tokens"] == 1_000


def _as_blocks(message: dict[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
