"""Requests as bytes: what is sent is what is meant, and no turn encodes what an earlier one has.

Tests of swarm/models/encoder.py, swarm/models/request.py.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.models import ModelRequest
from swarm.models import encoder as module
from swarm.models.encoder import Encoder, encode_tools
from swarm.models.request import build_request
from tests.unit.test_models_request import TOOLS, lives, message, real_texts


def request(messages: list[dict[str, Any]], **fields: Any) -> ModelRequest:
    """As the loop makes it: the list itself, not a copy."""
    given = {"model": "m", "system": "You wörk.", "tools": TOOLS, "messages": messages} | fields
    return ModelRequest(**given)


def assert_same(encoder: Encoder, messages: list[dict[str, Any]], **fields: Any) -> None:
    asked = request(messages, **fields)
    sent = json.loads(encoder.encode(asked, max_output=64_000))
    assert sent == {**build_request(asked, max_output=64_000), "stream": True}


@given(history=lives, system=st.sampled_from(["", "You work. 100 %s"]), tools=st.sampled_from([[], TOOLS]))
def test_every_request_of_a_growing_life_is_the_one_that_is_meant(history: Any, system: str, tools: Any) -> None:
    encoder, messages = Encoder(), []
    for one in copy.deepcopy(history):
        messages.append(one)
        assert_same(encoder, messages, system=system, tools=tools)
        assert_same(encoder, messages, system=system, tools=tools, tools_allowed=False, effort="low", max_tokens=100)


@given(history=lives, more=message("user", real_texts, max_size=3))
def test_a_last_message_that_grows_and_a_conversation_that_is_replaced_are_sent_as_they_are(
    history: Any, more: Any
) -> None:
    encoder, messages = Encoder(), []
    for one in copy.deepcopy(history):
        messages.append(one)
        assert_same(encoder, messages)
        if isinstance(one["content"], list) and one["role"] == "user":
            one["content"].extend(copy.deepcopy(more["content"]))
            assert_same(encoder, messages)
    assert_same(encoder, copy.deepcopy(messages[:-1]))


def _turn(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"path": "x" * 500}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "r" * 2_000}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def test_a_turn_encodes_only_what_has_come_since_the_last_one() -> None:
    encoder, messages = Encoder(), [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    encoded = []
    for number in range(500):
        before = module.encoded_parts
        body = encoder.encode(request(messages), max_output=64_000)
        encoded.append(module.encoded_parts - before)
        messages += _turn(number)
    assert json.loads(body) == {**build_request(request(messages[:-2]), max_output=64_000), "stream": True}
    assert set(encoded[2:]) == {3}, "one call and one result a turn, and the one that had the mark"
    assert len(encoder._blocks) <= 8, "what no mark can come into any more is kept as bytes alone"


def test_agents_that_share_their_tools_and_prompt_share_the_bytes() -> None:
    tools = copy.deepcopy(TOOLS)
    encode_tools(tools)
    Encoder().encode(request([], tools=tools), max_output=64_000)
    before = module.encoded_parts
    for _ in range(5):
        Encoder().encode(request([], tools=tools), max_output=64_000)
    assert module.encoded_parts == before


@pytest.mark.parametrize("text", ["\ud800", float("nan"), object()])
def test_what_is_no_json_cannot_be_encoded(text: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Encoder().encode(
            request([{"role": "user", "content": [{"type": "text", "text": "x", "n": text}]}]), max_output=9
        )
