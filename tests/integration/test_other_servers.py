"""Servers beside Anthropic's that speak the Messages API, each with its own differences: a first job ends well, or says what to do.

Tests of swarm/models/facts.py, swarm/models/profiles.py, swarm/runtime/facts.py, swarm/models/reply.py, swarm/runtime/side_requests.py.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from swarm import Job, Limits
from swarm.agent.entries import Assistant, ModelFailed
from swarm.core.errors import ConfigurationError, ModelError
from swarm.core.ids import root_agent_id
from swarm.core.settings import Settings
from swarm.models import ModelRequest
from swarm.models.anthropic import AnthropicModel
from swarm.models.connection import explain_missing
from swarm.models.facts import NO_FACTS, ModelFacts
from swarm.models.profiles import first_facts, load_profiles, profile_of
from swarm.replay.check import check_requests
from swarm.replay.past import read_past
from swarm.store.spending import ModelStore
from tests.fleet import Fleet
from tests.gateway import Answer, Body, Events, Gateway, Quirk, gateway_of

SCENARIO = """
name: any server
rules:
  - when: {turn: '0-2'}
    reply: {thinking: 'step {turn}', tools: [{name: Read, input: {file_path: page.txt}}]}
  - reply: {text: all read}
"""
DEFINITION = """---
name: careful
description: Reads with effort.
tools: Read
effort: high
---
Read the page.
"""


def bad_request(message: str) -> Answer:
    return Answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def refuse_when(test: Any, message: str) -> Any:
    return lambda body: bad_request(message) if test(body) else None


def plain_usage(events: Events) -> Events:
    """Input and output alone, and the input only at the end, as Ollama tells them."""
    for event in events:
        about = event["message"] if event["type"] == "message_start" else event
        if "usage" in about:
            about["usage"] = {name: about["usage"].get(name, 0) for name in ("input_tokens", "output_tokens")}
    return events


def no_reason(events: Events) -> Events:
    for event in events:
        if event["type"] == "message_delta":
            del event["delta"]["stop_reason"]
    return plain_usage(events)


def same_ids(events: Events) -> Events:
    for event in events:
        if event["type"] == "content_block_start" and "id" in event["content_block"]:
            event["content_block"]["id"] = "call_0"
    return events


def holds(body: Body, part: str) -> bool:
    return f'"{part}"' in json.dumps(body)


TAUGHT = [
    (
        Quirk("no effort", refuse_when(lambda body: "output_config" in body, "output_config: Extra inputs are not permitted")),
        ModelFacts(lacks=("effort",)),
    ),
    (
        Quirk("no cache marks", refuse_when(lambda body: holds(body, "cache_control"), "unknown field `cache_control`")),
        ModelFacts(lacks=("cache_control",)),
    ),
    (
        Quirk("no thinking sent back", refuse_when(lambda body: holds(body, "thinking"), "Unsupported block type: thinking")),
        ModelFacts(lacks=("thinking",)),
    ),
    (
        Quirk(
            "short replies",
            refuse_when(
                lambda body: body["max_tokens"] > 8_192,
                "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for the model",
            ),
        ),
        ModelFacts(max_output=8_192),
    ),
    (
        Quirk(
            "a small window for request and reply together",
            refuse_when(
                lambda body: body["max_tokens"] + len(json.dumps(body)) // 4 > 24_576,
                "This model's maximum context length is 24576 tokens. However, you requested 33000 tokens",
            ),
        ),
        ModelFacts(window=24_576),
    ),
    (
        Quirk(
            "two differences",
            lambda body: bad_request("effort is not supported") if "output_config" in body
            else bad_request("cache_control is not supported") if holds(body, "cache_control") else None,
        ),
        ModelFacts(lacks=("cache_control", "effort")),
    ),
]  # fmt: skip

BORNE = [
    Quirk("no reason for its end", change=no_reason),
    Quirk("no cache fields", change=plain_usage),
    Quirk("one id for all calls", change=same_ids),
    Quirk("no streams", whole=True),
    Quirk("no list of models, no counting", lacks=("/v1/models", "/v1/messages/count_tokens")),
]


def begin(fleet: Fleet, gateway: Gateway, **limits: Any) -> Job:
    agents = fleet.workspace / ".claude" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "careful.md").write_text(DEFINITION)
    (fleet.workspace / "page.txt").write_text("a page\n")
    return fleet.swarm.submit(
        "Read.", agent="careful", workspace=fleet.workspace, base_url=gateway.url, limits=Limits(**limits)
    )


@pytest.mark.parametrize(("quirk", "facts"), TAUGHT, ids=[quirk.name for quirk, _ in TAUGHT])
def test_what_a_refusal_teaches_is_asked_for_once_and_never_again(
    at_work: Fleet, quirk: Quirk, facts: ModelFacts
) -> None:
    with gateway_of(at_work.rehearse(SCENARIO).url, quirk) as gateway:
        job = begin(at_work, gateway)
        ended = job.wait(30)
        assert ended.text == "all read", ended.reason
        # One refusal for each difference: the next request leaves it out.
        told = len(facts.lacks) or 1
        assert gateway.refused == told
        failed = [entry for entry in at_work.swarm.journal(root_agent_id(job.id)) if isinstance(entry, ModelFailed)]
        assert [entry.permanent for entry in failed] == [False] * told
        assert [
            known for name, known in ModelStore(at_work.swarm.store.keyspace).all_facts().items() if gateway.url in name
        ] == [facts]
        # The fleet knows: another job is refused nothing.
        assert begin(at_work, gateway).wait(30).text == "all read" and gateway.refused == told
        # And the journal says enough to make the same requests again.
        replies = [entry for entry in at_work.swarm.journal(root_agent_id(job.id)) if isinstance(entry, Assistant)]
        assert replies[-1].facts == facts
        assert {check.outcome for check in check_requests(read_past(at_work.swarm.store, job.id))} == {"same"}


@pytest.mark.parametrize("quirk", BORNE, ids=[quirk.name for quirk in BORNE])
def test_other_differences_are_borne(at_work: Fleet, quirk: Quirk) -> None:
    with gateway_of(at_work.rehearse(SCENARIO).url, quirk) as gateway:
        job = begin(at_work, gateway)
        ended = job.wait(30)
        assert ended.state == "completed" and ended.text == "all read"
        assert len(gateway.bodies) == 4 and ended.usage.output_tokens > 0


def test_a_server_that_is_no_model_is_named_with_what_to_do(at_work: Fleet) -> None:
    page = Quirk("a web page", lambda body: Answer(200, b"<html>Welcome</html>", "text/html"))
    with gateway_of(at_work.rehearse(SCENARIO).url, page) as gateway:
        ended = begin(at_work, gateway).wait(30)
    assert ended.state == "failed" and len(gateway.bodies) == 1
    assert f"{gateway.url} answered with text/html" in ended.reason and "SWARM_BASE_URL" in ended.reason


def test_a_refusal_that_teaches_nothing_new_ends_the_job_with_its_words(at_work: Fleet) -> None:
    stubborn = Quirk("always", refuse_when(lambda body: True, "tool_choice is not supported by me"))
    with gateway_of(at_work.rehearse(SCENARIO).url, stubborn) as gateway:
        ended = begin(at_work, gateway).wait(30)
    assert ended.state == "failed" and gateway.refused == 2
    assert "tool_choice is not supported by me" in ended.reason


def limited(name: str, **about: Any) -> Quirk:
    """A server without batches and stated limits."""
    return Quirk(name, **{"lacks": ("/v1/messages/batches",), "hides": ("anthropic-", "request-id"), **about})


NO_CHOICE = refuse_when(lambda body: "tool_choice" in body, "tool_choice.type: Input should be 'auto', 'any' or 'tool'")
LIKE = {
    "litellm": limited("litellm", key="right", change=plain_usage),
    "openrouter": limited("openrouter", key="Bearer right", path="/api"),
    "ollama": limited("ollama", key="Bearer right", change=no_reason),
    "vllm": limited("vllm", key="Bearer right", refuse=NO_CHOICE, change=plain_usage),
    "llama.cpp": limited("llama.cpp", key="Bearer right", change=plain_usage),
    "lm-studio": limited("lm-studio", whole=True, change=plain_usage),
    "foundry": limited("foundry", key="right", key_header="x-api-key", path="/anthropic"),
}
FINAL = ModelRequest(
    model="qwen-3",
    system="Be brief.",
    messages=[{"role": "user", "content": "Read."}],
    tools=[{"name": "Read", "description": "Read.", "input_schema": {"type": "object", "properties": {}}}],
    tools_allowed=False,
    effort="low",
    max_tokens=1_000,
)


def test_the_first_request_fits_a_server_of_each_known_kind(at_work: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIKE.keys() == load_profiles().keys()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "right")
    url = at_work.rehearse("name: brief\nrules: [{reply: {text: read}}]").url
    for name, quirk in LIKE.items():
        with gateway_of(url, quirk) as gateway:
            settings = Settings(base_url=gateway.url + quirk.path, server=name)
            assert explain_missing(settings) == ""
            with closing(AnthropicModel(settings)) as model:
                reply = model.complete(replace(FINAL, facts=first_facts(settings)))
            assert [block.get("text") for block in reply.content] == ["read"] and gateway.refused == 0
    # Unnamed, the same servers refuse.
    for name, why in (("vllm", "tool_choice"), ("foundry", "invalid key")):
        with gateway_of(url, LIKE[name]) as gateway, pytest.raises(ModelError, match=why):
            AnthropicModel(Settings(base_url=gateway.url + LIKE[name].path)).complete(FINAL)


def test_a_server_is_recognised_by_its_address_or_named() -> None:
    def kind(url: str | None, server: str | None = None) -> str | None:
        profile = profile_of(Settings(base_url=url, server=server))
        return None if profile is None else profile.title

    assert kind("https://openrouter.ai/api") == "OpenRouter"
    assert kind("https://mine.services.ai.azure.com/anthropic") == "Microsoft Foundry"
    assert kind("http://localhost:11434") == "Ollama" and kind("http://far:11434") is None
    assert kind("http://far:8000") is None and kind("http://far:8000", "vllm") == "vLLM"
    assert kind(None, "vllm") is None and first_facts(Settings()) == NO_FACTS
    with pytest.raises(ConfigurationError, match=r"vlm.*litellm, openrouter"):
        kind("http://far:8000", "vlm")
    assert explain_missing(Settings(base_url="https://openrouter.ai")) == (
        "SWARM_BASE_URL of OpenRouter must end with /api, not with the host"
    )


def test_learned_facts_are_added_to_a_profile_and_an_examination_has_the_last_word(store: Any) -> None:
    models, name = ModelStore(store.keyspace), "qwen-3 at x"
    assert models.facts(name) is None
    models.add_facts(name, ModelFacts(lacks=("effort",)), first=ModelFacts(lacks=("tool_choice",)))
    assert models.all_facts() == {name: ModelFacts(lacks=("effort", "tool_choice"))}
    models.set_facts(name, NO_FACTS)
    assert models.facts(name) == NO_FACTS


def test_a_job_on_a_named_server_is_refused_nothing(fleet: Fleet) -> None:
    quirk = replace(LIKE["vllm"], key="")
    with gateway_of(fleet.rehearse(SCENARIO).url, quirk) as gateway:
        fleet.start_worker(SWARM_BASE_URL=gateway.url, SWARM_SERVER="vllm")
        (fleet.workspace / "page.txt").write_text("a page\n")
        job = fleet.swarm.submit("Read.", workspace=fleet.workspace, limits=Limits(max_turns=1))
        job.wait(30)
        assert len(gateway.bodies) == 2 and gateway.refused == 0
        replies = [entry for entry in fleet.swarm.journal(root_agent_id(job.id)) if isinstance(entry, Assistant)]
        assert [entry.facts for entry in replies] == [ModelFacts(lacks=("tool_choice",))] * 2


def test_facts_about_a_model_are_forgotten_though_others_are_learned(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModelStore(store.keyspace)
    monkeypatch.setattr("swarm.store.spending.FACTS_SECONDS", -1)
    models.set_facts("old", ModelFacts(window=9_000))
    monkeypatch.undo()
    models.set_facts("new", ModelFacts(window=8_000))
    assert models.all_facts() == {"new": ModelFacts(window=8_000)}
