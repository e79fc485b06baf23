"""Chains of models: when an agent asks another one, and which.

Tests of swarm/agent/chains.py, swarm/agent/decision.py, swarm/agent/needs.py, swarm/definitions/fields.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.agent.chains import TRIES, successors
from swarm.agent.decision import CallModel, End, SwitchModel, WantedModel, next_action
from swarm.agent.entries import Assistant, Entry, Finished, Mail, ModelFailed, Prompt, Resumed, Started, Switched
from swarm.agent.history import History, fold
from swarm.agent.needs import needs_of, with_model
from swarm.agent.spec import AgentSpec
from swarm.definitions.markdown import read_markdown
from swarm.definitions.model import AgentDefinition
from swarm.models import ModelRequest, Usage
from swarm.models.codecs import codec
from swarm.models.request import build_request, unmarked
from swarm.models.vendors import Vendor

SPEC = AgentSpec(
    agent_id="agent-0000000000000000",
    job_id="job-0000000000000000",
    definition=AgentDefinition(name="worker", description="Works.", prompt="Work."),
    description="work",
    prompt="Do it.",
    model="a-1",
    fallbacks=("b-1", "c-1"),
    workspace="/tmp",
)
BEGUN = (Started(spec=SPEC), Prompt(text="Do it."))


def _after(*entries: Entry, spec: AgentSpec = SPEC) -> History:
    return fold(spec.agent_id, [Started(spec=spec), *BEGUN[1:], *entries])


def _failed(kind: str, *, permanent: bool = False, away: float = 1.0, again: float = 5.0) -> ModelFailed:
    away = 0.0 if permanent else away
    return ModelFailed(error=f"it was {kind}", error_kind=kind, permanent=permanent, away_since=away, retry_at=again)


@pytest.mark.parametrize("kind", ["overloaded", "server", "timeout", "connection", "cut", "rate_limit"])
def test_a_model_that_answers_nothing_is_left_after_three_requests(kind: str) -> None:
    for tries in range(1, TRIES):
        assert next_action(_after(*[_failed(kind)] * tries)) == CallModel(not_before=5.0)
    stay = CallModel(not_before=5.0)
    assert next_action(_after(*[_failed(kind)] * TRIES)) == SwitchModel("overloaded", stay, f"it was {kind}")
    without = SPEC.model_copy(update={"fallbacks": ()})
    assert next_action(_after(*[_failed(kind)] * 9, spec=without)) == stay


def test_waits_that_the_server_asks_for_are_no_tries() -> None:
    waits = [_failed("rate_limit", away=0.0)] * 7
    assert next_action(_after(*waits)) == CallModel(not_before=5.0)
    assert next_action(_after(*waits, _failed("overloaded"))) == CallModel(not_before=5.0)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("not_found", "gone"), ("permission", "forbidden"), ("authentication", "forbidden"), ("overloaded", "overloaded")],
)
def test_a_permanent_failure_of_the_model_changes_it_at_once(kind: str, reason: str) -> None:
    action = next_action(_after(_failed(kind, permanent=True)))
    assert isinstance(action, SwitchModel) and action.reason == reason and isinstance(action.otherwise, End)


@pytest.mark.parametrize("kind", ["spend_limit", "billing", "bad_request", "too_large", "no_summary"])
def test_a_failure_that_another_model_would_not_mend_changes_none(kind: str) -> None:
    assert isinstance(next_action(_after(_failed(kind, permanent=True))), End)


def test_after_the_last_model_comes_the_first_but_none_that_is_gone() -> None:
    history = _after(Switched(model="b-1", was="a-1", reason="overloaded"))
    assert (history.model_of(SPEC), successors(history, SPEC)) == ("b-1", ["c-1", "a-1"])
    history.apply(Switched(model="c-1", was="b-1", reason="gone"))
    assert successors(history, SPEC) == ["a-1"]
    now = history.as_now(SPEC)
    assert (now.model, now.fallbacks) == ("c-1", ("a-1",))
    elsewhere = _after(Switched(model="z-1", was="a-1", reason="chosen"))
    assert successors(elsewhere, SPEC) == ["a-1", "b-1", "c-1"]


@pytest.mark.parametrize(("reason", "returns"), [("overloaded", True), ("chosen", False)])
def test_a_run_keeps_the_model_and_the_next_one_returns_unless_a_person_chose(reason: str, returns: bool) -> None:
    said = Assistant(content=[{"type": "text", "text": "done"}], stop_reason="end_turn", usage=Usage(output_tokens=1))
    history = _after(Switched.model_validate({"model": "b-1", "was": "a-1", "reason": reason}))
    assert next_action(history) == CallModel()
    for entry in (said, Finished(state="completed"), Resumed(), Mail(text="again", cursor="1-0")):
        history.apply(entry)
    assert next_action(history) == (SwitchModel("new run", CallModel()) if returns else CallModel())


def test_a_switch_forgets_the_old_models_count_of_tokens() -> None:
    said = Assistant(
        content=[{"type": "text", "text": "x" * 700}], stop_reason="max_tokens", usage=Usage(input_tokens=9)
    )
    history = _after(said, Prompt(text="go on"))
    assert history.known_tokens == 9
    history.apply(Switched(model="b-1", was="a-1", reason="gone"))
    assert (history.known_tokens, history.new_bytes) == (0, len("Do it.") + 700 + len("go on"))


def test_any_worker_may_take_an_agent_with_a_chain_and_one_model_binds_it() -> None:
    spec = SPEC.model_copy(update={"model": "openai:gpt-6", "fallbacks": ("groq:m",)})
    needs = needs_of(spec)
    assert (needs.model, needs.wants) == ("", ())
    bound = with_model(needs, "groq:m")
    assert (bound.model, bound.wants) == ("groq:m", ("vendor:groq",))
    assert with_model(bound, "", "groq:m") == needs
    assert needs_of(spec.model_copy(update={"fallbacks": ()})).wants == ("vendor:openai",)


@pytest.mark.parametrize(
    ("given", "chain"),
    [
        ("[claude-sonnet-5-5, 'openai:gpt-6']", ("claude-sonnet-5-5", ("openai:gpt-6",))),
        ("sonnet, openai:gpt-6", ("sonnet", ("openai:gpt-6",))),
        ("[haiku]", ("haiku", ())),
        ("[]", (None, ())),
        ("[sonnet, vendor/unknown]", ("sonnet", ())),
    ],
)
def test_a_definition_names_a_chain_as_a_list_or_as_text(
    tmp_path: Path, given: str, chain: tuple[str, tuple[str, ...]]
) -> None:
    file = tmp_path / "x.md"
    file.write_text(f"---\nname: x\ndescription: X.\nmodel: {given}\n---\nDo.\n")
    [definition] = read_markdown(file).definitions
    assert (definition.model, definition.fallbacks) == chain


def test_a_chain_of_things_that_are_no_names_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("---\nname: x\ndescription: X.\nmodel: [1, 2]\n---\nDo.\n")
    [problem] = read_markdown(file).problems
    assert "`model` is a list, not a model" in problem.message


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_another_vendors_model_reads_the_summary_that_a_server_made(wire: str) -> None:
    block = {"type": "compaction", "content": "in short: it was read", "encrypted_content": "x"}
    messages = [
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ]
    vendor = Vendor("ours", "https://llm.example.org/v1")
    request = ModelRequest(model="ours:m", system="", messages=messages)
    body = json.loads(codec(wire).encoder(vendor, "m").encode(request, max_output=100))
    sent = body["messages"] if wire == "chat" else body["input"]
    assert [one["role"] for one in sent] == ["user", "user"] and "in short: it was read" in json.dumps(sent[0])


def test_a_detour_leaves_what_the_first_model_is_sent_as_it_would_have_been() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    foreign = {"type": "thinking", "thinking": "other", "signature": "", "vendor": {"name": "b-1", "item": {}}}
    said = {"type": "text", "text": "done", "vendor": {"name": "b-1", "item": {"id": "1"}}}
    history = _after(Assistant(content=[thought, {"type": "text", "text": "first"}], stop_reason="max_tokens"))
    history.apply(Prompt(text="go on"))
    before = build_request(ModelRequest(model="a-1", system="s", messages=history.messages), max_output=100)
    for entry in (
        Switched(model="b-1", was="a-1", reason="gone"),
        Assistant(content=[foreign, said], stop_reason="max_tokens"),
        Prompt(text="go on"),
        Switched(model="a-1", was="b-1", reason="chosen"),
    ):
        history.apply(entry)
    after = build_request(ModelRequest(model="a-1", system="s", messages=history.messages), max_output=100)
    plain = [[unmarked(block) for block in one["content"]] for one in before["messages"]]
    assert [[unmarked(block) for block in one["content"]] for one in after["messages"]][: len(plain)] == plain
    assert after["messages"][len(plain)]["content"] == [{"type": "text", "text": "done"}]
    assert history.messages[-2]["content"] == [foreign, said], "the journal keeps all of it"


def test_a_persons_choice_comes_before_the_next_request_once() -> None:
    chosen = WantedModel("x", "z-1", "me")
    action = next_action(_after(), chosen=chosen)
    assert action == SwitchModel("chosen", CallModel(), "me", chosen)
    refused = _after(Switched(model="a-1", was="a-1", reason="chosen", asked="x", passed_over={"z-1": "too small"}))
    assert next_action(refused, chosen=chosen) == CallModel() and refused.switched is None
    done = _after(Switched(model="z-1", was="a-1", reason="chosen", asked="x"))
    assert next_action(done, chosen=chosen) == CallModel() and done.chosen == "z-1"
