"""A conversation that has become too long is cut: when, where, and what is left of it.

Tests of swarm/agent/blocks.py, swarm/agent/compaction.py, swarm/agent/decision.py, swarm/agent/entries.py, swarm/agent/history.py,
swarm/agent/snapshot.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.agent.blocks import hold_image
from swarm.agent.compaction import (
    MAX_FAILURES,
    TURNS_BETWEEN,
    Compact,
    ContextBounds,
    WantedSummary,
    bounds_of,
    find_cut,
)
from swarm.agent.decision import CallModel, End, Say, next_action
from swarm.agent.entries import (
    Answered,
    Assistant,
    Compacted,
    CompactionFailed,
    Entry,
    Finished,
    Mail,
    ModelFailed,
    Prompt,
    Redefined,
    Replayed,
    Resumed,
    Started,
    ToolFinished,
    ToolStarted,
    decode_entry,
    encode_entry,
)
from swarm.agent.history import BAD_IMAGE, OVERFLOWED, History, fold
from swarm.agent.snapshot import foresee, restore
from swarm.models import Usage
from tests.unit.test_life import World, make_spec, started

AGENT = "agent-0000000000000000"
BLOCK = {"type": "compaction", "content": "What came before.", "signature": "s"}
WIDE = ContextBounds(soft=10_000, hard=80_000, window=100_000)


class Cutting(World):
    """A world whose lives are cut again and again, in every form."""

    bounds = ContextBounds(soft=120, hard=20_000, window=40_000)

    def reply(self, history: History) -> Assistant:
        size = len(repr(history.messages)) // 4
        return super().reply(history).model_copy(update={"usage": Usage(input_tokens=size, output_tokens=5)})

    def act(self, history: History) -> list[Entry]:
        if self.seed % 3 == 0 and history.spec is not None and history.turns == 1 and history.opened == 1:
            return [Replayed(), Redefined(spec=history.spec, system="Otherwise.", tools=history.tools)]
        match next_action(history, self.bounds):
            case Compact() as action:
                return [self.cut(history, action)]
            case Say(prompt=prompt):
                return [prompt]
        return super().act(history)

    def cut(self, history: History, action: Compact) -> Entry:
        sort = (self.seed + history.context.compactions + history.context.failures) % 4
        if sort == 3:
            return CompactionFailed(error="no", error_kind="no_summary", trigger=action.trigger)
        entry = Compacted(
            form="block" if sort < 2 else "text",
            kept=action.kept if sort == 0 else 0,
            block=BLOCK if sort < 2 else None,
            summary="What came before.",
            state="How things stand.",
            trigger=action.trigger,
            tokens_before=history.tokens_to_send(),
        )
        return entry.model_copy(update={"folded": foresee(history, entry)})


@given(st.integers(0, 10_000), st.integers(4, 14))
def test_a_life_with_cuts_goes_on_the_same_wherever_it_is_loaded_again(seed: int, turns: int) -> None:
    world = Cutting(seed, turns)
    whole = History(AGENT)
    journal = world.live(whole)
    assert isinstance(journal[-1], Finished)
    stored = [decode_entry(encode_entry(entry), agent_id=AGENT, number=1) for entry in journal]
    assert fold(AGENT, stored) == whole
    for at, entry in enumerate(stored):
        if isinstance(entry, Compacted):
            first = [one for one in stored[:at] if isinstance(one, Started)][-1]
            assert entry.folded is not None and stored[entry.folded["history"]["opened"] - 1] is first
            history = restore(AGENT, first, first, entry)
            assert history == fold(AGENT, stored[: at + 1]), "the shortcut is what the whole journal tells"
            assert history is not None
            for later in stored[at + 1 :]:
                history.apply(later)
            assert history == whole


@given(st.integers(0, 10_000), st.integers(4, 14))
def test_no_call_is_pending_where_a_life_is_cut_and_what_is_kept_stays_as_it_was(seed: int, turns: int) -> None:
    class Watching(Cutting):
        def cut(self, history: History, action: Compact) -> Entry:
            assert not history.pending and history.messages[-1]["role"] == "user"
            entry = super().cut(history, action)
            before = [*history.messages]
            copy = fold_again(history, entry)
            if isinstance(entry, Compacted) and entry.kept:
                place = history.context.cuts[-entry.kept].place
                kept = before[place:]
                assert copy.messages[0]["content"] == [BLOCK] and copy.messages[1:-1] == kept[:-1]
                last, now = kept[-1]["content"], copy.messages[-1]["content"]
                assert now[: len(last)] == last, "results come first, unchanged"
                assert [block["text"] for block in now[len(last) :]] == ["How things stand."]
            assert history.messages == before, "what others look at has not changed"
            return entry

    Watching(seed, turns).live(History(AGENT))


def fold_again(history: History, entry: Entry) -> History:
    import copy

    after = copy.copy(history)
    after.apply(entry)
    return after


# -- when ------------------------------------------------------------------------------------------------------


def live(*tokens: int, **limits: Any) -> History:
    """A life of one read a turn; each reply's request was so many tokens long."""
    history = History(AGENT)
    history.apply(started(make_spec(**{"max_turns": 1_000, **limits})))
    history.apply(Prompt(text="Do it."))
    for turn, size in enumerate(tokens):
        take_turn(history, size, turn)
    return history


def take_turn(history: History, size: int, turn: int) -> None:
    call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {}}
    usage = Usage(input_tokens=size, output_tokens=10)
    history.apply(Assistant(content=[call], stop_reason="tool_use", usage=usage, model="m"))
    history.apply(ToolFinished(tool_use_id=f"t{turn}", text="found"))


def cut(history: History, form: str = "block", kept: int = 1, **about: Any) -> Compacted:
    entry = Compacted(
        form=form,  # type: ignore[arg-type]
        kept=kept if form == "block" else 0,
        block=BLOCK if form == "block" else None,
        summary="" if form == "bare" else "What came before.",
        state="How things stand.",
        tokens_before=history.tokens_to_send(),
        **about,
    )
    history.apply(entry)
    return entry


def test_a_conversation_is_cut_beyond_its_bound_and_not_before() -> None:
    assert isinstance(next_action(live(100, 9_000), WIDE), CallModel)
    history = live(100, 200, 11_000)
    assert next_action(history, WIDE) == Compact("auto", kept=1)
    assert isinstance(next_action(history), CallModel), "without bounds nothing is cut"


def test_the_first_message_alone_is_never_summarized() -> None:
    assert isinstance(next_action(live(11_000), WIDE), CallModel)


def test_after_a_cut_some_turns_pass_before_the_next_one() -> None:
    history = live(100, 200, 11_000)
    cut(history)
    assert isinstance(next_action(history, WIDE), CallModel)
    for turn in range(10, 10 + TURNS_BETWEEN - 1):
        take_turn(history, 12_000, turn)
        assert isinstance(next_action(history, WIDE), CallModel)
    take_turn(history, 12_000, 50)
    assert next_action(history, WIDE) == Compact("auto", kept=1)


def test_one_that_would_not_fit_the_model_is_cut_without_waiting() -> None:
    history = live(100, 200, 11_000)
    cut(history)
    take_turn(history, 12_000, 10)
    take_turn(history, 81_000, 11)
    assert next_action(history, WIDE) == Compact("auto", kept=1)


def test_attempts_that_fail_or_gain_little_end_in_last_words_only_where_nothing_fits_any_more() -> None:
    history = live(100, 200, 11_000)
    for _ in range(MAX_FAILURES):
        history.apply(CompactionFailed(error="no", error_kind="no_summary", usage=Usage(output_tokens=7)))
    assert history.usage.output_tokens == 3 * 10 + MAX_FAILURES * 7, "what failed is paid for, too"
    take_turn(history, 12_000, 10)
    assert isinstance(next_action(history, WIDE), CallModel), "it still fits"
    take_turn(history, 81_000, 11)
    action = next_action(history, WIDE)
    assert isinstance(action, Say) and action.prompt.purpose == "final_answer" and action.prompt.limit == "context"
    history.apply(action.prompt)
    assert next_action(history, WIDE) == CallModel(tools_allowed=False)


def test_a_cut_that_gains_little_counts_as_a_failure_and_a_good_one_ends_the_count() -> None:
    history = live(100, 200, 11_000)
    history.apply(Compacted(form="text", summary="x" * 40_000, state="s", tokens_before=11_000))
    assert history.context.failures == 1
    take_turn(history, 12_000, 10)
    take_turn(history, 12_000, 11)
    cut(history)
    assert history.context.failures == 0


def test_a_person_can_want_a_cut_at_any_length_once() -> None:
    wanted = ContextBounds(WIDE.soft, WIDE.hard, WIDE.window, WantedSummary("w1", "the names"))
    history = live(100, 200)
    action = next_action(history, wanted)
    assert action == Compact("manual", kept=1, wanted=wanted.wanted)
    cut(history, trigger="manual", asked="w1")
    take_turn(history, 300, 10)
    take_turn(history, 300, 11)
    assert isinstance(next_action(history, wanted), CallModel)


def test_a_failed_call_is_waited_for_before_the_next_attempt() -> None:
    history = live(100, 200, 11_000)
    history.apply(ModelFailed(error="busy", error_kind="overloaded", permanent=False, retry_at=50.0))
    assert next_action(history, WIDE) == Compact("auto", kept=1, not_before=50.0)


@pytest.mark.parametrize(
    ("window", "dearer", "soft", "hard"),
    [
        (1_000_000, None, 160_000, 948_000),
        (1_000_000, 100_000, 90_000, 948_000),
        (200_000, None, 148_000, 148_000),
        (60_000, None, 30_000, 30_000),
    ],
)
def test_bounds_follow_the_window_and_the_price(window: int, dearer: int | None, soft: int, hard: int) -> None:
    assert bounds_of(window, 32_000, most=160_000, dearer_above=dearer) == ContextBounds(soft, hard, window)


# -- where it does not fit -------------------------------------------------------------------------------------

TOO_LONG = ModelFailed(error="prompt is too long", error_kind="too_large", permanent=True)


def test_a_request_that_is_too_long_is_cut_once_then_the_agent_gives_its_last_words() -> None:
    history = live(100, 200, 9_000)
    history.apply(TOO_LONG)
    assert next_action(history, WIDE) == Compact("overflow", kept=1)
    cut(history, trigger="overflow")
    assert isinstance(next_action(history, WIDE), CallModel)
    history.apply(TOO_LONG)
    assert next_action(history, WIDE) == Compact("overflow", bare=True)
    cut(history, "bare", trigger="overflow")
    action = next_action(history, WIDE)
    assert isinstance(action, Say) and action.prompt.limit == "context"
    history.apply(action.prompt)
    assert history.messages == [
        {"role": "user", "content": [{"type": "text", "text": t} for t in ("How things stand.", action.prompt.text)]}
    ]
    history.apply(
        Assistant(content=[{"type": "text", "text": "so far"}], stop_reason="end_turn", usage=Usage(), model="m")
    )
    end = next_action(history, WIDE)
    assert isinstance(end, End) and (end.finished.state, end.finished.stopped_at) == ("completed", "context")


def test_a_single_turn_that_is_too_long_is_told_as_text_and_the_agent_goes_on() -> None:
    history = live(9_000)
    history.apply(TOO_LONG)
    assert next_action(history, WIDE) == Compact("overflow", bare=True)
    cut(history, "bare", trigger="overflow")
    assert next_action(history, WIDE) == CallModel()
    history.apply(TOO_LONG)
    cut(history, "bare", trigger="overflow")
    action = next_action(history, WIDE)
    assert isinstance(action, Say) and action.prompt.limit == "context"


def test_a_reply_without_room_is_cut_before_a_request_that_had_some() -> None:
    history = live(100, 200, 60_000, 90_000)
    reply = Assistant(
        content=[], stop_reason=OVERFLOWED, usage=Usage(input_tokens=99_000, output_tokens=1_000), model="m"
    )
    history.apply(reply.model_copy(update={"content": [{"type": "text", "text": "I was"}]}))
    # The last two were too long to be summarized in what is left of the window.
    assert next_action(history, WIDE) == Compact("overflow", kept=3)
    cut(history, kept=3, trigger="overflow")
    assert isinstance(next_action(history, WIDE), CallModel), "it is asked again"
    assert [message["role"] for message in history.messages] == ["assistant", *["assistant", "user"] * 3]


def test_a_summary_that_is_too_long_itself_is_tried_further_back() -> None:
    history = live(100, 200, 300, 9_000)
    history.apply(TOO_LONG)
    assert find_cut(history, WIDE) == 1
    history.apply(CompactionFailed(error="too long", error_kind="too_large", trigger="overflow"))
    assert next_action(history, WIDE) == Compact("overflow", kept=2)


def test_while_the_model_is_away_an_overflow_stays_known() -> None:
    history = live(100, 200, 300)
    history.apply(TOO_LONG)
    history.apply(ModelFailed(error="busy", error_kind="overloaded", permanent=False, retry_at=9.0))
    assert next_action(history, WIDE) == Compact("overflow", kept=1, not_before=9.0)


def test_a_task_that_is_too_long_for_the_model_fails_as_before() -> None:
    history = live()
    history.apply(TOO_LONG)
    action = next_action(history, WIDE)
    assert isinstance(action, End) and action.finished.state == "failed"


def test_an_agent_that_failed_by_its_length_can_be_resumed() -> None:
    history = live(100, 200, 9_000)
    for entry in (TOO_LONG, Finished(state="failed", reason="too long"), Resumed()):
        history.apply(entry)
    history.apply(Mail(text="go on", cursor="1-0"))
    assert isinstance(next_action(history, WIDE), CallModel)
    history.apply(TOO_LONG)
    assert next_action(history, WIDE) == Compact("overflow", kept=1)


# -- what binds ------------------------------------------------------------------------------------------------


def test_words_of_the_person_and_answers_are_kept_apart_from_the_conversation() -> None:
    history = live(100, 200)
    job = history.spec.job_id if history.spec else ""
    said = f'<message from="user" agent_id="{job}" kind="message" id="1-0">\nNever touch &lt;db&gt;.\n</message>'
    other = '<message from="a1" agent_id="agent-1111111111111111" kind="message" id="2-0">\nDo!\n</message>'
    history.apply(Mail(text=f"{said}\n\n{other}", cursor="2-0"))
    call = {"type": "tool_use", "id": "q", "name": "Bash", "input": {"command": "which"}}
    history.apply(Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="m"))
    history.apply(ToolStarted(tool_use_id="q"))
    history.apply(Answered(tool_use_id="q", allowed=False, reason="use the other one", by="user"))
    history.apply(ToolFinished(tool_use_id="q", text="no", is_error=True))
    cut(history, "text")
    first, second = history.context.said
    assert first.text == said and "use the other one" in second.text and "which" in second.text


def test_older_images_that_are_refused_take_the_thinking_after_them_along() -> None:
    history = live(100)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
    call = {"type": "tool_use", "id": "i", "name": "Read", "input": {}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    history.apply(Assistant(content=[thought, call], stop_reason="tool_use", usage=Usage(), model="m"))
    history.apply(ToolFinished(tool_use_id="i", text="[image]", blocks=[image]))
    history.apply(Assistant(content=[thought, {**call, "id": "j"}], stop_reason="tool_use", usage=Usage(), model="m"))
    history.apply(ToolFinished(tool_use_id="j", text="found"))
    history.apply(ModelFailed(error="bad image", error_kind=BAD_IMAGE, permanent=False))
    assert not hold_image(history.messages)
    kept = [
        [block["type"] for block in message["content"]]
        for message in history.messages
        if message["role"] == "assistant"
    ]
    assert kept == [["tool_use"], ["thinking", "tool_use"], ["tool_use"]]


def test_a_fork_knows_what_its_parent_was_asked() -> None:
    parent = live(100, 200)
    fork = History("agent-2222222222222222")
    fork.apply(started(make_spec()))
    fork.inherit(parent)
    assert "Do it." in fork.context.said[0].text
    assert len(fork.context.cuts) == 2 and not fork.context.cuts[0].entry


def test_the_lives_that_are_cut_are_cut_in_every_way() -> None:
    lives = [Cutting(seed, 12).live(History(AGENT)) for seed in range(40)]
    cuts = {(entry.form, entry.kept > 0) for history in lives for entry in history if isinstance(entry, Compacted)}
    assert cuts == {("block", True), ("block", False), ("text", False)}
    assert any(isinstance(entry, CompactionFailed) for history in lives for entry in history)
