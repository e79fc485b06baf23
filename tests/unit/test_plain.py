"""Whatever a tool, a model or a file name yields can be journaled, read back as it was journaled, and sent.

Tests of swarm/agent/results.py, swarm/core/plain.py.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from swarm.agent.entries import Assistant, Finished, ToolFinished, decode_entry, encode_entry
from swarm.agent.results import read_result
from swarm.core.plain import MAX_DEPTH, TOO_DEEP, clean, clean_text, find_unfit
from swarm.models import Usage
from swarm.models.reply import UNREADABLE_INPUT, ReplyBuilder

LETTERS = ["a", "\0", "\n", "\x1b", "é", "😀", "\ud83d", "\ude00", "\udcff", "\uffff", "\u2028", '"', "\\"]


def make_text(dice: random.Random) -> str:
    return "".join(dice.choices(LETTERS, k=dice.randrange(12)))


def make_data(dice: random.Random, depth: int = 0) -> Any:
    match dice.randrange(9 if depth < 6 else 5):
        case 0:
            return dice.choice([None, True, False, 0, -1, 2**70, 1.5])
        case 1:
            return dice.choice([math.inf, -math.inf, math.nan])
        case 2 | 3 | 4:
            return make_text(dice)
        case 5 | 6:
            return [make_data(dice, depth + 1) for _ in range(dice.randrange(4))]
        case _:
            return {make_text(dice): make_data(dice, depth + 1) for _ in range(dice.randrange(4))}


def nest(levels: int) -> Any:
    data: Any = "x"
    for level in range(levels):
        data = [data] if level % 2 else {"k": data}
    return data


@pytest.mark.parametrize("seed", range(300))
def test_any_entry_is_read_as_it_was_cleaned(seed: int) -> None:
    dice = random.Random(seed)
    block = {"type": "tool_use", "id": "1", "name": make_text(dice), "input": make_data(dice)}
    for entry in (
        ToolFinished(tool_use_id=make_text(dice), text=make_text(dice), blocks=[block], files={make_text(dice): 1}),
        Assistant(content=[block], stop_reason="tool_use", usage=Usage(), model=make_text(dice)),
        Finished(state="completed", text=make_text(dice), data=make_data(dice)),
    ):
        assert decode_entry(encode_entry(clean(entry)).encode(), agent_id="a", number=1) == clean(entry)
        json.dumps(clean(entry).model_dump(), ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("levels", [MAX_DEPTH, 300, 900, 10_000])
def test_data_of_any_depth_is_kept_as_deep_as_it_can_be_read(levels: int) -> None:
    entry = clean(Finished(state="completed", data=nest(levels + 1)))
    text = encode_entry(entry)
    assert TOO_DEEP in text
    assert decode_entry(text, agent_id="a", number=1) == entry
    assert find_unfit(nest(levels + 1))


def test_two_halves_that_meet_are_one_character() -> None:
    assert clean_text("\ud83d\ude00 and \ud83d") == "😀 and \ufffd"


def test_what_is_plain_stays_the_same_object() -> None:
    data = {"a": ["b", 1, None, {"c": 1.5}], "\0": "😀"}
    assert clean(data) is data
    entry = ToolFinished(tool_use_id="1", text="x" * 10_000_000, blocks=[data])
    assert clean(entry) is entry


def test_an_emoji_that_comes_in_two_halves_is_whole_in_the_reply() -> None:
    builder = ReplyBuilder()
    builder.add({"type": "message_start", "message": {"model": "m"}})
    builder.add({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for half in ("\ud83d", "\ude00", "\ud83d"):
        builder.add({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}})
    builder.add({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    builder.add({"type": "message_stop"})
    reply = builder.finish(None)
    assert reply is not None
    assert reply.content[0]["text"] == "😀\ufffd"


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": [-1e999]}', '{"a": ' + "[" * 300 + "]" * 300 + "}"])
def test_input_that_cannot_be_sent_back_is_not_run(text: str) -> None:
    builder = ReplyBuilder()
    builder.add({"type": "message_start", "message": {"model": "m"}})
    block = {"type": "tool_use", "id": "1", "name": "Write", "input": {}}
    builder.add({"type": "content_block_start", "index": 0, "content_block": block})
    delta = {"type": "input_json_delta", "partial_json": text}
    builder.add({"type": "content_block_delta", "index": 0, "delta": delta})
    builder.add({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    builder.add({"type": "message_stop"})
    reply = builder.finish(None)
    assert reply is not None
    assert reply.content[0]["input"] == {UNREADABLE_INPUT: text}


def test_an_answer_as_data_is_one_that_can_be_kept() -> None:
    assert read_result('"\\ud83d"', {}) == ("\ufffd", "")
    assert "too large" in read_result("[1e999]", {})[1]
    assert "nested" in read_result("[" * 300 + "]" * 300, {})[1]
