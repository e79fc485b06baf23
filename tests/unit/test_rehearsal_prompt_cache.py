"""The simulated prompt cache: what is read, what is written, when it is there, when it is gone.

Tests of tests/rehearsal/prompt_cache.py.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.rehearsal.prompt_cache import InputUsage, PromptCache, measure_request

MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
LONG = "word " * 200


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def text(words: str = LONG, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def request(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(blocks)}], **more}


def play(cache: PromptCache, body: dict[str, Any], scope: str = "m") -> InputUsage:
    prefix = measure_request(body)
    usage = cache.look_up(scope, prefix)
    cache.store(scope, prefix)
    return usage


def test_without_marks_nothing_is_cached() -> None:
    cache = PromptCache()
    body = request(text())
    assert [play(cache, body) for _ in range(2)] == [InputUsage(measure_request(body).total_tokens, 0, 0, 0)] * 2


def test_the_second_request_reads_what_the_first_wrote_and_writes_only_what_is_new() -> None:
    cache = PromptCache()
    first = play(cache, request(text(**MARK)))
    second = play(cache, request(text(), text("and more", **MARK), text("unmarked")))
    assert first.cache_read_input_tokens == 0
    assert first.cache_creation_5m_tokens > 200
    assert second.cache_read_input_tokens == first.cache_creation_5m_tokens
    assert 0 < second.cache_creation_5m_tokens < 20
    assert 0 < second.input_tokens < 20


def test_tools_and_system_are_shared_by_conversations_that_begin_alike() -> None:
    cache = PromptCache()
    shared: dict[str, Any] = {
        "tools": [{"name": "LS", "description": LONG, "input_schema": {"type": "object"}}],
        "system": [text(**MARK)],
    }
    written = play(cache, request(text("one"), **shared))
    read = play(cache, request(text("two"), **shared))
    assert read.cache_read_input_tokens == written.cache_creation_5m_tokens > 400
    changed = {**shared, "tools": [{**shared["tools"][0], "description": "other"}]}
    assert play(cache, request(text("two"), **changed)).cache_read_input_tokens == 0


def test_a_changed_tool_choice_busts_the_messages_but_not_the_system_prompt() -> None:
    cache = PromptCache()
    body = request(text(**MARK), system=[text(**MARK)])
    all_of_it = play(cache, body)
    part = play(cache, {**body, "tool_choice": {"type": "none"}})
    assert 0 < part.cache_read_input_tokens < all_of_it.cache_creation_5m_tokens


def test_an_entry_does_not_exist_before_the_reply_begins() -> None:
    cache = PromptCache()
    prefix = measure_request(request(text(**MARK)))
    assert cache.look_up("m", prefix).cache_read_input_tokens == 0
    assert cache.look_up("m", prefix).cache_read_input_tokens == 0
    cache.store("m", prefix)
    assert cache.look_up("m", prefix).cache_read_input_tokens > 0


def test_entries_die_after_five_minutes_unless_they_are_read() -> None:
    clock = Clock()
    cache = PromptCache(clock=clock)
    prefix = measure_request(request(text(**MARK)))
    cache.store("m", prefix)
    for moment, alive in ((200, True), (499, True), (800, False)):
        clock.now = moment
        assert (cache.look_up("m", prefix).cache_read_input_tokens > 0) is alive


def test_an_hour_is_counted_apart_and_lasts_an_hour() -> None:
    clock = Clock()
    cache = PromptCache(clock=clock)
    hour: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = request(text(**hour), text(**MARK))
    usage = play(cache, body)
    assert usage.cache_creation_1h_tokens > 200
    assert usage.cache_creation_5m_tokens > 200
    clock.now = 1000
    assert play(cache, body).cache_read_input_tokens == usage.cache_creation_1h_tokens


def test_models_and_keys_do_not_share() -> None:
    cache = PromptCache()
    body = request(text(**MARK))
    play(cache, body, "m/key")
    assert play(cache, body, "m/other").cache_read_input_tokens == 0


def test_a_mark_looks_back_twenty_blocks_and_no_further() -> None:
    for distance, hit in ((19, True), (20, False)):
        cache = PromptCache()
        play(cache, request(text(**MARK)))
        later = request(text(), *[text(str(number)) for number in range(distance - 1)], text("end", **MARK))
        assert (play(cache, later).cache_read_input_tokens > 0) is hit


def test_the_automatic_mark_is_on_the_last_block() -> None:
    cache = PromptCache()
    play(cache, request(text(), **MARK))
    usage = play(cache, request(text(), text("more"), **MARK))
    assert usage.cache_read_input_tokens > 200
    assert usage.input_tokens == 0


def test_moving_the_marks_and_writing_text_as_a_string_change_nothing() -> None:
    marked = {"type": "tool_result", "tool_use_id": "a", "content": [text(**MARK)]}
    plain = {"type": "tool_result", "tool_use_id": "a", "content": [text()]}
    assert measure_request(request(marked)).digest == measure_request(request(plain)).digest
    assert len(measure_request(request(marked)).breakpoints) == 1
    as_string = {"model": "m", "messages": [{"role": "user", "content": LONG}]}
    assert measure_request(as_string).digest == measure_request(request(text())).digest


def test_short_prefixes_are_not_cached_below_the_minimum() -> None:
    cache = PromptCache(minimum_tokens=1000)
    body = request(text(**MARK))
    assert play(cache, body) == play(cache, body) == InputUsage(measure_request(body).total_tokens, 0, 0, 0)


@given(st.lists(st.tuples(st.text(max_size=80), st.booleans()), min_size=1, max_size=30), st.integers(0, 30))
def test_the_classes_always_add_up_to_the_whole(blocks: list[tuple[str, bool]], shared: int) -> None:
    cache = PromptCache()
    body = request(*[text(words, **(MARK if marked else {})) for words, marked in blocks])
    play(cache, request(*(body["messages"][0]["content"][:shared] or [text()])))
    assert sum(play(cache, body)) == measure_request(body).total_tokens
