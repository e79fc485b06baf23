"""What refusals of servers teach about their models, and requests without the refused parts.

Tests of swarm/models/facts.py, swarm/models/request.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from swarm.core.errors import ModelError
from swarm.models import ModelRequest
from swarm.models.encoder import Encoder
from swarm.models.facts import NO_FACTS, ModelFacts, read_refusal
from swarm.models.failures import response_failure


def refuse(message: str, status: int = 400, **body: Any) -> ModelError:
    content = body or {"error": {"type": "invalid_request_error", "message": message}}
    return response_failure(status, {}, content, model="m", provider="anthropic", aliases="", now=0.0)


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", ModelFacts(window=200_000)),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
            ModelFacts(window=200_000),
        ),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 33000 tokens",
            ModelFacts(window=16_384),
        ),
        ("the request exceeds the available context size (8192 tokens), try increasing it", ModelFacts(window=8_192)),
        (
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context "
            "length of only 4096 tokens, which is not enough",
            ModelFacts(window=4_096),
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
            ModelFacts(window=1_048_575),
        ),
        (
            "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-old",
            ModelFacts(max_output=8_192),
        ),
        ("the maximum tokens you requested exceeds the model limit of 4096. Try again", ModelFacts(max_output=4_096)),
        (
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
            ModelFacts(max_output=16_384),
        ),
        ("This model does not support the effort parameter.", ModelFacts(lacks=("effort",))),
        ("output_config: Extra inputs are not permitted", ModelFacts(lacks=("effort",))),
        ("system.0.cache_control: Extra inputs are not permitted", ModelFacts(lacks=("cache_control",))),
        ("Unsupported content block: thinking", ModelFacts(lacks=("thinking",))),
        ("tool_choice: Input should be 'auto', 'any' or 'tool'", ModelFacts(lacks=("tool_choice",))),
        # The request is at fault, not the server.
        ("messages.1: each thinking block must contain thinking", NO_FACTS),
        ("tools.0.name: String should match pattern", NO_FACTS),
        ("Unsupported image type", NO_FACTS),
        ("messages.1.content.0.type: Input should be 'text', 'image' or 'thinking'", NO_FACTS),
        ("messages.1.content.0.thinking.signature: Input should be a valid string", NO_FACTS),
        # Other levels of effort are taken.
        ("output_config.effort: Input should be 'low', 'medium' or 'high'", NO_FACTS),
        ("This model does not support effort level 'xhigh'. Supported levels: high, low, medium", NO_FACTS),
        # A tool's author chose the name.
        ("tools.3.custom.input_schema.properties.effort: the keyword is not supported", NO_FACTS),
        # The request is quoted.
        (
            'messages.4.content.0: unexpected block {"text": "set cache_control, tool_choice, thinking, effort"}',
            NO_FACTS,
        ),
        ('metadata.note: invalid value "the context window is small: 9000 > 5000"', NO_FACTS),
    ],
)
def test_a_refusal_teaches_what_it_says_and_no_more(message: str, facts: ModelFacts) -> None:
    assert read_refusal(refuse(message)) == facts


def test_a_refusal_of_a_part_is_read_in_the_shapes_of_other_servers() -> None:
    detail = [{"loc": ["body", "tool_choice", "type"], "msg": "Input should be 'auto', 'any' or 'tool'"}]
    assert read_refusal(refuse("", 422, detail=detail)).lacks == ("tool_choice",)
    assert read_refusal(refuse("", 400, error="unknown field output_config")).lacks == ("effort",)


def test_a_size_in_which_no_agent_could_work_is_not_a_fact() -> None:
    assert ModelFacts(window=0, max_output=1, lacks=("effort",)) == ModelFacts(lacks=("effort",))
    assert ModelFacts.model_validate_json('{"window": 12}') == NO_FACTS


@pytest.mark.parametrize("status", [401, 403, 404, 500, 529])
def test_other_failures_teach_nothing(status: int) -> None:
    assert read_refusal(refuse("tool_choice is not supported; maximum context length is 9999", status)) == NO_FACTS


def test_of_two_sizes_the_smaller_one_counts_and_refused_parts_add_up() -> None:
    one = ModelFacts(window=60_000, lacks=("tool_choice",))
    other = ModelFacts(window=50_000, max_output=8_192, lacks=("effort",))
    assert one + other == ModelFacts(window=50_000, max_output=8_192, lacks=("effort", "tool_choice")) == other + one
    assert one + NO_FACTS == one


REQUEST = ModelRequest(
    model="m",
    system="Work.",
    messages=[
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}],
        },
        {"role": "user", "content": "on"},
    ],
    tools=[{"name": "Read", "input_schema": {}}],
    tools_allowed=False,
    effort="high",
    max_tokens=32_000,
)


def encode(**facts: Any) -> dict[str, Any]:
    request = replace(REQUEST, facts=ModelFacts(**facts), kept={})
    body: dict[str, Any] = json.loads(Encoder().encode(request, max_output=64_000))
    return body


def test_a_request_leaves_out_what_its_server_refuses_and_nothing_else() -> None:
    whole = encode()
    assert whole["max_tokens"] == 32_000 and encode(max_output=8_192) == {**whole, "max_tokens": 8_192}
    without = {name: value for name, value in whole.items() if name != "output_config"}
    assert encode(lacks=("effort",)) == without
    without = {name: value for name, value in whole.items() if name != "tool_choice"}
    assert encode(lacks=("tool_choice",)) == without
    bare = encode(lacks=("cache_control",))
    assert "cache_control" in json.dumps(whole) and "cache_control" not in json.dumps(bare)
    assert bare["messages"][1]["content"] == whole["messages"][1]["content"]
    silent = encode(lacks=("thinking",))
    assert silent["messages"][1]["content"] == whole["messages"][1]["content"][1:]


def test_a_message_of_thinking_alone_is_left_out_where_thinking_is_refused() -> None:
    alone = [
        REQUEST.messages[0],
        {"role": "assistant", "content": REQUEST.messages[1]["content"][:1]},
        REQUEST.messages[2],
    ]
    request = replace(REQUEST, messages=alone, facts=ModelFacts(lacks=("thinking",)), kept={})
    body = json.loads(Encoder().encode(request, max_output=64_000))
    assert [message["role"] for message in body["messages"]] == ["user", "user"]
