"""The fold: a life may be cut anywhere and goes on as if it had not been.

Tests of swarm/agent/decision.py, swarm/agent/entries.py, swarm/agent/state.py, swarm/agent/history.py, swarm/agent/notes.py,
swarm/agent/prompts.py.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.agent import notes
from swarm.agent.decision import (
    MAX_AWAY_SECONDS,
    Begin,
    CallModel,
    CollectChildren,
    Done,
    End,
    RunTools,
    Say,
    SendMessages,
    Settle,
    SpawnAgents,
    next_action,
)
from swarm.agent.entries import (
    Assistant,
    Entry,
    Finished,
    Journaled,
    Mail,
    ModelFailed,
    Prompt,
    Resumed,
    Spawned,
    Started,
    ToolFinished,
    ToolStarted,
    decode_entry,
    encode_entry,
)
from swarm.agent.history import History, fold
from swarm.agent.prompts import first_message
from swarm.agent.spec import AgentSpec, Limits
from swarm.core.errors import JournalError
from swarm.core.ids import child_agent_id
from swarm.definitions.model import AgentDefinition
from swarm.definitions.tools import Kind
from swarm.models import Usage

TOOLS = ["Read", "Grep", "Edit", "Bash", "Agent"]


def make_spec(**limits: Any) -> AgentSpec:
    definition = AgentDefinition(name="worker", description="Works.", prompt="Work.")
    return AgentSpec(
        agent_id="agent-0000000000000000",
        job_id="job-0000000000000000",
        definition=definition,
        description="work",
        prompt="Do it.",
        model="claude-test",
        workspace="/tmp",
        limits=Limits(**limits),
    )


def started(spec: AgentSpec) -> Started:
    tools = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in TOOLS]
    return Started(spec=spec, system="You work.", tools=tools)


class World:
    """A deterministic model, tools and children: what they answer depends on the conversation and the seed alone."""

    def __init__(self, seed: int, turns: int) -> None:
        self.seed, self.turns = seed, turns

    def reply(self, history: History) -> Assistant:
        chance = random.Random(f"{self.seed}/{history.turns}/{digest(history.messages)}")
        usage = Usage(input_tokens=10, output_tokens=5)
        if history.final_answer is not None or history.turns >= self.turns:
            text = {"type": "text", "text": f"done after {history.turns}"}
            return Assistant(content=[text], stop_reason="end_turn", usage=usage, model="m")
        content: list[dict[str, Any]] = []
        if chance.random() < 0.4:
            content.append({"type": "thinking", "thinking": "hm", "signature": f"s{chance.random()}"})
        for index in range(chance.randint(0, 5)):
            name = chance.choice([*TOOLS, "Unknown"])
            call_id = f"toolu_{history.turns}_{index}"
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": {"n": chance.randint(0, 9)}})
        calls = any(block["type"] == "tool_use" for block in content)
        if not calls:
            content.append({"type": "text", "text": "so far"})
            stop = chance.choice(["max_tokens", "pause_turn"])
        else:
            stop = chance.choice(["tool_use"] * 6 + ["max_tokens"])
        return Assistant(content=content, stop_reason=stop, usage=usage, model="m")

    def act(self, history: History) -> list[Entry]:
        """The entries that a step of the loop writes, without the times it stamps them with."""
        match next_action(history):
            case Begin():
                spec = make_spec(max_turns=max(1, self.turns - 1))
                return [started(spec), Prompt(text=first_message(spec, now=0.0))]
            case Say(prompt=prompt):
                return [prompt]
            case CallModel():
                check_request(history)
                return [self.reply(history)]
            case RunTools(calls=calls):
                results: list[Entry] = [ToolFinished(tool_use_id=call["id"], text=f"{call['input']}") for call in calls]
                if history.kind_of(calls[0]) is Kind.EFFECT:
                    assert len(calls) == 1
                    return [ToolStarted(tool_use_id=calls[0]["id"]), *results]
                return results
            case Settle(results=settled):
                return list(settled)
            case SpawnAgents(calls=calls):
                return [Spawned(children={call["id"]: child_agent_id(history.agent_id, call["id"]) for call in calls})]
            case CollectChildren(children=children):
                return [ToolFinished(tool_use_id=call_id, text=child) for call_id, child in children.items()]
            case End(finished=finished):
                return [finished]
            case Done():
                return []
        raise AssertionError("an action the loop does not know")

    def live(self, history: History) -> list[Entry]:
        journal: list[Entry] = []
        while entries := self.act(history):
            for entry in entries:
                history.apply(entry)
            journal += entries
            assert len(journal) < 2_000
        return journal


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def check_request(history: History) -> None:
    """What the Messages API demands of a request."""
    assert history.messages[0]["role"] == "user" or history.messages[0]["content"][0]["type"] == "compaction"
    for before, message in zip([None, *history.messages], history.messages, strict=False):
        assert message["content"], "an empty message"
        if message["role"] == "user":
            asked = [b["id"] for b in before["content"] if b["type"] == "tool_use"] if before else []
            results = [b for b in message["content"] if b["type"] == "tool_result"]
            assert [b["tool_use_id"] for b in results] == asked
            assert message["content"][: len(results)] == results, "results come first"
    if history.messages[-1]["role"] == "assistant":
        assert not any(b["type"] == "tool_use" for b in history.messages[-1]["content"])


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_a_life_cut_at_any_entry_goes_on_to_the_same_conversation(seed: int, turns: int) -> None:
    world = World(seed, turns)
    whole = History("agent-0000000000000000")
    journal = world.live(whole)
    assert isinstance(journal[-1], Finished)
    # The start and the task are written in one step: no worker dies between them.
    for cut in (0, *range(2, len(journal) + 1)):
        resumed = fold("agent-0000000000000000", journal[:cut])
        interrupted = {
            entry.tool_use_id
            for entry in journal[:cut]
            if isinstance(entry, ToolStarted) and entry.tool_use_id in resumed.pending
        }
        world.live(resumed)
        if interrupted:
            # The one difference a cut may make: the call that was running is reported as such, and not run again.
            said = [b for m in resumed.messages for b in m["content"] if b.get("tool_use_id") in interrupted]
            assert said and all(b["content"] == notes.INTERRUPTED for b in said)
        else:
            assert resumed.messages == whole.messages
            assert resumed.finished == whole.finished


def test_the_lives_that_are_cut_hold_every_kind_of_entry_that_needs_no_mail() -> None:
    kinds = {entry.kind for seed in range(50) for entry in World(seed, 6).live(History("agent-0000000000000000"))}
    assert kinds == {"started", "prompt", "assistant", "tool_started", "tool_finished", "spawned", "finished"}


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_every_prefix_of_a_request_is_what_an_earlier_request_sent(seed: int, turns: int) -> None:
    sent: list[str] = []

    class Watching(World):
        def reply(self, history: History) -> Assistant:
            sent.append("\x00".join(repr(message) for message in history.messages))
            return super().reply(history)

    Watching(seed, turns).live(History("agent-0000000000000000"))
    assert sent
    for earlier, later in zip(sent, sent[1:], strict=False):
        assert later.startswith(earlier)


@given(st.integers(0, 10_000))
def test_an_entry_survives_being_stored(seed: int) -> None:
    for number, entry in enumerate(World(seed, 4).live(History("agent-0000000000000000")), 1):
        assert decode_entry(encode_entry(entry), agent_id="agent-0000000000000000", number=number) == entry


def test_mail_that_arrives_while_tools_run_follows_their_results() -> None:
    history = fold("a", [started(make_spec()), Prompt(text="go")])
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    history.apply(Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="m"))
    history.apply(Mail(text="<message/>", cursor="5-0"))
    history.apply(ToolFinished(tool_use_id="t1", text="ok"))
    assert [block["type"] for block in history.messages[-1]["content"]] == ["tool_result", "text"]
    assert history.cursor == "5-0"


def test_a_permanent_failure_ends_the_life_with_its_reason() -> None:
    history = fold("a", [started(make_spec()), Prompt(text="go")])
    history.apply(ModelFailed(error="the key is wrong", error_kind="authentication", permanent=True))
    action = next_action(history)
    assert (
        isinstance(action, End) and action.finished.state == "failed" and action.finished.reason == "the key is wrong"
    )


def test_transient_failures_wait_and_are_forgiven_by_a_reply() -> None:
    history = fold("a", [started(make_spec()), Prompt(text="go")])
    failed = ModelFailed(error="overloaded", error_kind="overloaded", permanent=False, retry_at=50.0)
    for _ in range(50):
        history.apply(failed)
        assert next_action(history) == CallModel(not_before=50.0)
    history.apply(Assistant(content=[{"type": "text", "text": "hi"}], stop_reason="end_turn", usage=Usage(), model="m"))
    assert next_action(history) == End(Finished(state="completed", text="hi"))


def test_a_model_that_stays_away_fails_the_agent_in_the_end() -> None:
    history = fold("a", [started(make_spec()), Prompt(text="go")])
    failed = {"error": "overloaded", "error_kind": "overloaded", "permanent": False, "away_since": 100.0}
    history.apply(ModelFailed(**failed, retry_at=100.0 + MAX_AWAY_SECONDS))
    assert isinstance(next_action(history), CallModel)
    history.apply(ModelFailed(**failed, retry_at=101.0 + MAX_AWAY_SECONDS))
    action = next_action(history)
    assert isinstance(action, End) and "6 hours" in action.finished.reason and "overloaded" in action.finished.reason


def test_at_the_turn_limit_the_agent_is_asked_once_for_its_last_words() -> None:
    history = fold("a", [started(make_spec(max_turns=1)), Prompt(text="go")])
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    history.apply(Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="m"))
    history.apply(ToolFinished(tool_use_id="t1", text="ok"))
    action = next_action(history)
    assert isinstance(action, Say) and action.prompt.purpose == "final_answer"
    history.apply(action.prompt)
    assert next_action(history) == CallModel(tools_allowed=False)
    history.apply(
        Assistant(content=[{"type": "text", "text": "bye"}], stop_reason="end_turn", usage=Usage(), model="m")
    )
    end = Finished(state="completed", text="bye", reason="stopped at its limit of turns", stopped_at="turns")
    assert next_action(history) == End(end)


def test_a_definition_may_give_an_agent_fewer_turns_than_its_job() -> None:
    spec = make_spec(max_turns=5)
    narrow = spec.definition.model_copy(update={"max_turns": 1})
    for parent_id, turns_are_left in (("agent-1111111111111111", False), (None, True)):
        history = fold(
            "a", [started(spec.model_copy(update={"definition": narrow, "parent_id": parent_id})), Prompt(text="go")]
        )
        call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
        history.apply(Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="m"))
        history.apply(ToolFinished(tool_use_id="t1", text="ok"))
        assert isinstance(next_action(history), CallModel) == turns_are_left


def test_one_that_was_ended_before_it_began_begins_when_it_goes_on() -> None:
    history = fold("a", [Finished(state="timed_out"), Resumed()])
    assert next_action(history) == Begin()
    history.apply(started(make_spec()))
    with pytest.raises(JournalError, match="starts once"):
        history.apply(started(make_spec()))
    with pytest.raises(JournalError, match="starts once"):
        fold("a", [Prompt(text="go")])


def test_calls_of_a_reply_that_was_cut_off_are_not_run() -> None:
    history = fold("a", [started(make_spec()), Prompt(text="go")])
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    history.apply(Assistant(content=[call], stop_reason="max_tokens", usage=Usage(), model="m"))
    action = next_action(history)
    assert isinstance(action, Settle) and action.results[0].is_error


def test_messages_of_one_reply_are_sent_together_up_to_another_call_about_agents() -> None:
    spec = make_spec()
    names = ["SendMessage", "Read", "SendMessage", "StopAgent", "SendMessage"]
    tools = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in dict.fromkeys(names)]
    history = fold("a", [Started(spec=spec, system="", tools=tools), Prompt(text="go")])
    calls = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": {}} for n, name in enumerate(names)]
    history.apply(Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="m"))
    seen = []
    while isinstance(action := next_action(history), RunTools | SendMessages):
        seen.append((type(action), [call["id"] for call in action.calls]))
        for call in action.calls:
            history.apply(ToolFinished(tool_use_id=call["id"], text="done"))
    assert seen == [(RunTools, ["t1"]), (SendMessages, ["t0", "t2"]), (RunTools, ["t3"]), (SendMessages, ["t4"])]


def test_an_entry_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(JournalError, match=r"agent-x: journal entry 7 .* upgrade this worker"):
        decode_entry('{"v":1,"kind":"telepathy"}', agent_id="agent-x", number=7)


def test_nothing_follows_the_end() -> None:
    history = fold("a", [started(make_spec()), Finished(state="cancelled")])
    with pytest.raises(JournalError, match="follows the end"):
        history.apply(Prompt(text="more"))


# -- the ways out ----------------------------------------------------------------------------------------------------


def _says(text: str, stop_reason: str = "end_turn", *calls: str) -> Assistant:
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": call, "name": "Read", "input": {}} for call in calls]  # type: ignore[dict-item]
    return Assistant(content=blocks, stop_reason=stop_reason, usage=Usage(), model="m")


def _recorded(*entries: Entry, schema: dict[str, Any] | None = None, **limits: Any) -> History:
    spec = make_spec(**limits)
    if schema is not None:
        spec = spec.model_copy(update={"definition": spec.definition.model_copy(update={"result_schema": schema})})
    return fold("a", [started(spec), Prompt(text="go"), *entries])


def _finish(history: History) -> Finished:
    action = next_action(history)
    assert isinstance(action, End), action
    return action.finished


GO_ON = Prompt(text=notes.GO_ON, purpose="continue")
LAST_WORDS = notes.final_answer("tokens", "Nearly used up.")


def test_the_parts_of_an_answer_that_was_cut_off_are_one_answer() -> None:
    assert _finish(_recorded(_says("PART ONE, ", "max_tokens"), GO_ON, _says("part two"))).text == "PART ONE, part two"
    assert _finish(_recorded(_says("looked up: ", "pause_turn"), _says("found"))).text == "looked up: found"
    history = _recorded(_says('{"a": [1, ', "max_tokens"), GO_ON, _says("2]}"), schema={"type": "object"})
    assert _finish(history).data == {"a": [1, 2]}


def test_nothing_is_completed_without_the_data_that_was_asked_for() -> None:
    schema = {"type": "object", "required": ["a"]}
    for entries in (
        [LAST_WORDS, _says("no data")],
        [LAST_WORDS, _says('{"a": [1,', "max_tokens")],
        [*[_says("{", "max_tokens"), GO_ON] * 3, _says("{", "max_tokens")],
        [_says("no"), *[Prompt(text="again", purpose="schema"), _says("no")] * 2],
    ):
        finished = _finish(_recorded(*entries, schema=schema))
        assert finished.state == "failed" and finished.data is None and "schema" in finished.reason
    assert _finish(_recorded(LAST_WORDS, _says('{"a": 1}'), schema=schema)).data == {"a": 1}


def test_calls_in_last_words_are_refused_once_and_the_text_at_hand_is_the_answer() -> None:
    history = _recorded(_says("I found it.", "tool_use", "t1"), ToolFinished(tool_use_id="t1", text="x"), LAST_WORDS)
    history.apply(_says("", "tool_use", "t2"))
    action = next_action(history)
    assert isinstance(action, Settle)
    history.apply(action.results[0])
    assert _finish(history).text == "I found it."


@pytest.mark.parametrize("stop_reason", ["refusal", "model_context_window_exceeded"])
def test_a_call_of_a_reply_that_did_not_come_to_its_end_is_not_run(stop_reason: str) -> None:
    history = _recorded(_says("hm", stop_reason, "t1"))
    action = next_action(history)
    assert isinstance(action, Settle) and action.results[0].text == notes.NOT_RUN
    history.apply(action.results[0])
    assert _finish(history).state == "failed"


def test_every_kind_of_entry_that_can_be_written_can_be_read() -> None:
    union, _ = get_args(Entry)
    written = {kind for one in Journaled.__subclasses__() for kind in (one, *one.__subclasses__())}
    assert written == set(get_args(union)) and len(written) > 20
