"""Scenarios: what is read, what is refused, which rule is taken, what is filled in.

Tests of swarm/rehearsal/conversation.py, swarm/rehearsal/faults.py, swarm/rehearsal/scenario.py, swarm/rehearsal/script.py,
swarm/rehearsal/tree.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swarm.rehearsal.conversation import Conversation, read_conversation
from swarm.rehearsal.faults import FaultPlan
from swarm.rehearsal.scenario import SHIPPED, ScenarioError, TurnRange, load_scenario, parse_scenario
from swarm.rehearsal.script import Script
from swarm.rehearsal.tree import answer_tree, tree_size


def conversation(prompt: str = "hi", **changes: object) -> Conversation:
    fields: dict[str, object] = {
        "model": "m",
        "definition": "explore",
        "prompt": prompt,
        "turn": 0,
        "last_text": prompt,
        "last_results": (),
        "results": (),
        "workspace": "",
        "tools_allowed": True,
        "messages": 1,
    }
    return Conversation(**{**fields, **changes})  # type: ignore[arg-type]


def answer_text(script: Script, asked: Conversation) -> str | None:
    answer = script.answer(asked)
    return answer.reply.text if answer else None


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_valid_and_found_by_its_name(path: Path) -> None:
    assert load_scenario(path.stem) == load_scenario(path)


def test_the_example_in_the_documentation_is_valid() -> None:
    (example,) = re.findall(r"```yaml.*?\n(.*?)```", (SHIPPED / "README.md").read_text(), re.DOTALL)
    assert len(parse_scenario(example).rules) == 5


def test_an_unknown_scenario_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match=r"nowhere.*hello, tree|nowhere.*hello.*tree"):
        load_scenario("nowhere")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a", "a scenario is a mapping"),
        ("name: [", "not YAML"),
        ("name: x", "needs rules"),
        ("rules: [{name: greet, reply: {}}]", r"rules\[0\].reply \(rule 1, 'greet'\): a reply needs"),
        ("rules: [{reply: {text: a}}, {reply: {txt: a}}]", r"rules\[1\].reply.txt \(rule 2\): Extra inputs"),
        ("rules: [{when: {turn: soon}, reply: {text: a}}]", r"rules\[0\].when.turn \(rule 1\): a turn is a number"),
        ("rules: [{when: {turn: 4-2}, reply: {text: a}}]", "ends before it begins"),
        ("rules: [{when: {prompt: '('}, reply: {text: a}}]", "not a regular expression"),
        ("faults: [{kind: 418}]\nscript: tree", r"faults\[0\].kind"),
        ("latency_seconds: [2, 1]\nscript: tree", "latency_seconds: a latency is seconds"),
    ],
)
def test_a_broken_scenario_is_refused_with_its_file_the_place_and_the_rule(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=complaint) as caught:
        load_scenario(path)
    assert str(caught.value).startswith("mine.yaml: ")


def test_turns_are_numbers_open_ranges_or_closed_ranges() -> None:
    scenario = parse_scenario(
        "rules: [{when: {turn: 0}, reply: {text: a}}, {when: {turn: 1-2}, reply: {text: b}},"
        " {when: {turn: 3+}, reply: {text: c}}]"
    )
    assert [rule.when.turn for rule in scenario.rules] == [TurnRange(0, 0), TurnRange(1, 2), TurnRange(3, None)]
    script = Script(scenario, {})
    assert [answer_text(script, conversation(turn=turn)) for turn in (0, 1, 2, 3, 9)] == ["a", "b", "b", "c", "c"]


def test_the_first_rule_whose_conditions_all_hold_is_taken() -> None:
    script = Script(
        parse_scenario(
            """
            rules:
              - {when: {definition: plan}, reply: {text: wrong type}}
              - {when: {definition: 'expl.*', last_result: missing}, reply: {text: asked again}}
              - {when: {definition: explore, last_text: hurry}, reply: {text: hurrying}}
              - {when: {definition: expl}, reply: {text: only a part of the name}}
              - {when: {model: '^m$'}, reply: {text: default}}
            """
        ),
        {},
    )
    assert answer_text(script, conversation()) == "default"
    assert answer_text(script, conversation(last_results=("fine", "it is missing"))) == "asked again"
    assert answer_text(script, conversation(last_text="please hurry")) == "hurrying"
    assert answer_text(script, conversation(model="other")) is None


def test_a_rule_with_uses_is_taken_that_often_and_then_no_more() -> None:
    script = Script(
        parse_scenario("rules: [{when: {uses: 2}, reply: {text: first}}, {uses: 1, reply: {text: then}}]"), {}
    )
    assert [answer_text(script, conversation()) for _ in range(4)] == ["first", "first", "then", None]


def test_placeholders_and_named_groups_are_filled_in_and_other_braces_stay() -> None:
    script = Script(
        parse_scenario(
            r"""
            rules:
              - when: {prompt: 'read (?P<file>\S+)', last_result: 'id (?P<id>\d+)'}
                reply:
                  text: '{turn} {file} {id} {workspace} {unknown} {}'
                  tools: [{name: Read, input: {path: '{file}', more: ['{last_result}', 3], '{file}': '{prompt}'}}]
            """
        ),
        {},
    )
    answer = script.answer(conversation("read a.py", turn=2, last_results=("id 7 {turn}",), workspace="/w"))
    assert answer is not None
    assert answer.reply.text == "2 a.py 7 /w {unknown} {}"
    assert answer.reply.tools[0].input == {"path": "a.py", "more": ["id 7 {turn}", 3], "{file}": "read a.py"}


def test_a_reply_that_may_not_use_tools_leaves_them_out() -> None:
    script = Script(parse_scenario("rules: [{reply: {tools: [{name: LS}]}}]"), {})
    answer = script.answer(conversation(tools_allowed=False))
    assert answer is not None
    assert answer.reply.tools == ()
    assert "No tools" in (answer.reply.text or "")


def test_a_conversation_is_read_from_the_request() -> None:
    read = read_conversation(
        {
            "model": "m",
            "system": [{"type": "text", "text": 'Be good. Your agent type is "plan".'}],
            "tool_choice": {"type": "none"},
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "- Working directory: /w/my x\n"}]},
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "LS", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "one"}]},
                        {"type": "text", "text": "hurry"},
                    ],
                },
            ],
        }
    )
    assert read == Conversation(
        model="m",
        definition="plan",
        prompt="- Working directory: /w/my x\n\ngo",
        turn=1,
        last_text="hurry",
        last_results=("one",),
        results=("one",),
        workspace="/w/my x",
        tools_allowed=False,
        messages=4,
    )


def test_faults_strike_by_number_and_are_repeatable_by_chance() -> None:
    def strikes(faults: str, count: int = 10) -> list[int]:
        scenario = parse_scenario(f"script: tree\nfaults: [{faults}]")
        plan = FaultPlan(scenario.faults, scenario.seed)
        return [number for number in range(1, count + 1) if plan.pick(conversation())]

    assert strikes("{kind: 429, times: 2}") == [1, 2]
    assert strikes("{kind: 429, after: 3, every: 2, times: 2}") == [5, 7]
    assert strikes("{kind: 429, when: {definition: plan}}") == []
    by_chance = strikes("{kind: 429, probability: 0.3}", 1000)
    assert 200 < len(by_chance) < 400
    assert by_chance == strikes("{kind: 429, probability: 0.3}", 1000)


def test_a_tree_counts_itself() -> None:
    def live(prompt: str) -> int:
        results: tuple[str, ...] = ()
        for turn in range(10):
            reply = answer_tree(conversation(prompt, turn=turn, results=results))
            assert reply is not None
            if reply.text:
                return int(reply.text.removeprefix("DONE "))
            results += tuple(
                f"agent done: DONE {live(str(call.input['prompt']))}" if call.name == "Agent" else "a file"
                for call in reply.tools
            )
        raise AssertionError("the tree does not end")

    assert live("Date: today.\nTREE depth=9 fanout=9\nTREE depth=2 fanout=3 steps=2.") == tree_size(2, 3) == 13


def test_leaves_of_a_writing_tree_write_under_their_own_ids() -> None:
    root = answer_tree(conversation("TREE depth=1 fanout=2 steps=1 write=1 think=20"))
    assert root is not None
    assert root.latency_seconds == (0.02, 0.02)
    leaves = [answer_tree(conversation(str(call.input["prompt"]))) for call in root.tools]
    assert [leaf.tools[0].input["command"] for leaf in leaves if leaf] == [
        "echo 0.0-0 >> effects.log",
        "echo 0.1-0 >> effects.log",
    ]


def test_a_child_without_a_count_counts_nothing() -> None:
    reply = answer_tree(conversation("TREE depth=1 fanout=2", turn=1, results=("it failed", "DONE 4 of DONE 9")))
    assert reply is not None
    assert reply.text == "DONE 5"
