"""Chains of models: when an agent asks another one, and which.

Tests of swarm/agent/chains.py, swarm/agent/decision.py, swarm/agent/needs.py, swarm/definitions/fields.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.agent.chains import TRIES, successors
from swarm.agent.decision import MAX_AWAY_SECONDS, CallModel, End, SwitchModel, WantedModel, next_action
from swarm.agent.entries import Assistant, Entry, Finished, Mail, ModelFailed, Prompt, Resumed, Started, Switched
from swarm.agent.history import History, fold
from swarm.agent.needs import needs_of, with_model
from swarm.agent.spec import AgentSpec
from swarm.core.errors import ModelError, PermanentModelError, TransientModelError
from swarm.definitions.harness import Harness
from swarm.definitions.markdown import read_markdown
from swarm.definitions.model import AgentDefinition
from swarm.models import ModelRequest, Usage
from swarm.models.codecs import codec
from swarm.models.request import build_request, unmarked
from swarm.models.vendors import Vendor
from swarm.runtime.model_call import describe_failure

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


def _requests_while_all_are_silent(history: History, error: ModelError, seconds: float) -> int:
    """The agent's requests of silent models, by a clock of their own, until it gives up or the time is over."""
    now, made = 1_000.0, 0
    while now < 1_000.0 + seconds and made < 10_000:
        assert isinstance(error, TransientModelError | PermanentModelError)
        history.apply(describe_failure(history, error, now, 0.5))
        now, made = now + 0.1, made + 1
        action = next_action(history)
        if isinstance(action, SwitchModel) and successors(history, SPEC):
            entry = {"model": successors(history, SPEC)[0], "was": history.model_of(SPEC), "reason": action.reason}
            history.apply(Switched.model_validate(entry))
            action = next_action(history)
        elif isinstance(action, SwitchModel):
            action = action.otherwise
        if isinstance(action, End):
            return made
        assert isinstance(action, CallModel)
        now = max(now, action.not_before)
    return made


def test_a_chain_of_silent_models_is_asked_ever_more_rarely_and_given_up() -> None:
    away = TransientModelError("overloaded", kind="overloaded")
    with_one = _after(spec=SPEC.model_copy(update={"fallbacks": ()}))
    one, chain = (_requests_while_all_are_silent(each, away, 600) for each in (with_one, _after()))
    assert chain < 2 * one, (chain, one)
    history = _after()
    assert _requests_while_all_are_silent(history, away, 2 * MAX_AWAY_SECONDS) < 10_000
    ended = next_action(history)
    assert isinstance(ended, End) and "away for 6 hours" in ended.finished.reason
    assert history.away_since == 1_000.0
    said = Assistant(content=[{"type": "text", "text": "hi"}], stop_reason="end_turn", usage=Usage(output_tokens=1))
    history.apply(said)
    assert (history.away_since, history.failures, history.unanswered, history.failure) == (0.0, 0, 0, None)


def test_models_whose_servers_ask_not_to_try_again_are_asked_once_each() -> None:
    never = PermanentModelError("overloaded; the server asks not to try again", kind="overloaded")
    assert _requests_while_all_are_silent(_after(), never, 600) == 3


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


def test_silence_does_not_undo_a_persons_choice_without_a_chain() -> None:
    alone = SPEC.model_copy(update={"fallbacks": ()})
    chosen = Switched(model="ollama:q", was="a-1", reason="chosen", asked="x")
    assert next_action(_after(chosen, *[_failed("connection")] * 9, spec=alone)) == CallModel(not_before=5.0)
    assert isinstance(next_action(_after(chosen, _failed("overloaded", permanent=True), spec=alone)), End)
    for kind, reason in (("not_found", "gone"), ("permission", "forbidden")):
        action = next_action(_after(chosen, _failed(kind, permanent=True), spec=alone))
        assert isinstance(action, SwitchModel) and action.reason == reason
    assert isinstance(next_action(_after(chosen, *[_failed("connection")] * TRIES)), SwitchModel)


def test_a_harness_asks_the_model_that_it_was_started_with_and_its_worker_has_the_key() -> None:
    definition = SPEC.definition.model_copy(update={"harness": Harness(kind="codex")})
    spec = SPEC.model_copy(update={"definition": definition, "model": "openai:gpt-6", "fallbacks": ("groq:m",)})
    assert isinstance(next_action(_after(_failed("permission", permanent=True), spec=spec)), End)
    assert next_action(_after(*[_failed("overloaded")] * 9, spec=spec)) == CallModel(not_before=5.0)
    needs = needs_of(spec)
    assert needs.model == "openai:gpt-6" and "vendor:openai" in needs.wants


def test_a_new_run_asks_the_first_model_before_its_first_request_only() -> None:
    said = Assistant(content=[{"type": "text", "text": "done"}], stop_reason="end_turn", usage=Usage(output_tokens=1))
    again = (said, Finished(state="completed"), Resumed(), Mail(text="again", cursor="1-0"))
    history = _after(Switched(model="b-1", was="a-1", reason="overloaded"), *again)
    # The first model could not take over, so the run keeps the second.
    cut = said.model_copy(update={"stop_reason": "max_tokens"})
    for entry in (cut, Prompt(text="go on", purpose="continue")):
        history.apply(entry)
    assert next_action(history) == CallModel()
    for entry in again:
        history.apply(entry)
    assert next_action(history) == SwitchModel("new run", CallModel())


def test_the_model_in_use_can_be_chosen_so_that_later_runs_keep_it() -> None:
    said = Assistant(content=[{"type": "text", "text": "done"}], stop_reason="end_turn", usage=Usage(output_tokens=1))
    history = _after(
        Switched(model="b-1", was="a-1", reason="overloaded"),
        Switched(model="b-1", was="b-1", reason="chosen", asked="x"),
        *(said, Finished(state="completed"), Resumed(), Mail(text="again", cursor="1-0")),
    )
    assert (next_action(history), history.chosen, history.model_of(SPEC)) == (CallModel(), "b-1", "b-1")


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
