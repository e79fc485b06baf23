"""The examination of a model's server: an honest one differs in nothing, and each planted difference is told by its line alone.

Tests of swarm/models/assumptions.py, swarm/models/examination.py, swarm/cli/examination.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from swarm.cli.app import app
from swarm.core.settings import Settings
from swarm.models.assumptions import ASSUMPTIONS
from swarm.models.examination import Examination, ServerFinding
from swarm.models.facts import ModelFacts
from swarm.store.spending import ModelStore
from tests.fleet import Fleet
from tests.gateway import Answer, Body, Events, Quirk, gateway_of
from tests.rehearsal import RehearsalServer, parse_scenario

MODEL = "claude-haiku-4-5"
SCENARIO = f"""
name: examined
models: [{MODEL}, other-1]
rules:
  - when: {{prompt: Call Weather twice, turn: 0}}
    reply:
      thinking: two cities
      tools: [{{name: Weather, input: {{city: Paris}}}}, {{name: Weather, input: {{city: Rome}}}}]
  - when: {{prompt: Call Weather for Oslo}}
    reply: {{text: 'no', tools: [{{name: Weather, input: {{city: Oslo}}}}]}}
  - when: {{prompt: which colour}}
    reply: {{text: Red}}
  - when: {{prompt: Search the web}}
    reply: {{text: done, found: [{{url: 'https://docs.celeryq.dev', title: Celery}}]}}
  - reply: {{text: ready}}
rate_limits: {{stated: true}}
"""
HONEST = Quirk("honest", key="right")


@pytest.fixture(scope="module")
def server() -> Iterator[RehearsalServer]:
    with closing(RehearsalServer(parse_scenario(SCENARIO))) as server:
        server.start()
        yield server


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "right")


def examine(server: RehearsalServer, quirk: Quirk, model: str = MODEL) -> tuple[list[ServerFinding], Examination]:
    with gateway_of(server.url, quirk) as gateway, closing(Examination(Settings(base_url=gateway.url), model)) as one:
        return list(one.run(ASSUMPTIONS)), one


def differing(findings: list[ServerFinding]) -> dict[str, str]:
    return {finding.name: finding.seen for finding in findings if not finding.ok}


def test_an_honest_server_differs_in_nothing_and_costs_cents(server: RehearsalServer) -> None:
    findings, examination = examine(server, HONEST)
    assert differing(findings) == {}
    assert [finding.name for finding in findings] == [row.name for row in ASSUMPTIONS]
    assert examination.facts == ModelFacts() and 0 < examination.charge.cost_usd < 0.10


NO_CACHE = {"input_tokens": 90, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
TOO_MANY = "max_tokens: 64000 > 60000, which is the maximum allowed number of output tokens"


def shortened(body: Body) -> Body:
    """A long prompt, cut in silence."""
    return {**body, "messages": [{"role": "user", "content": "short"}]} if len(json.dumps(body)) > 500_000 else body


def asks(body: Body, words: str) -> bool:
    return words in json.dumps(body["messages"][0])


def refuse(test: Any, message: str) -> Any:
    answer = Answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})
    return lambda body: answer if test(body) else None


def each_usage(events: Events, **counts: int) -> Events:
    for event in events:
        about = event["message"] if event["type"] == "message_start" else event
        if "usage" in about:
            about["usage"].update(counts)
    return events


def text_alone(events: Events, words: str, kept: str = "tool_use") -> Events:
    """The reply with one text in place of its blocks of a kind."""
    gone = {event["index"] for event in events if event.get("content_block", {}).get("type") == kept}
    first = min(gone, default=0)
    events = [event for event in events if event.get("index") not in gone]
    block = [
        {"type": "content_block_start", "index": first, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": first, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": first},
    ]
    for event in events:
        if event["type"] == "message_delta":
            event["delta"]["stop_reason"] = "end_turn"
    return [*events[:-2], *block, *events[-2:]]


def one_call(events: Events) -> Events:
    calls = [event["index"] for event in events if event.get("content_block", {}).get("type") == "tool_use"]
    return [event for event in events if event.get("index") not in calls[1:]]


def unsigned(events: Events) -> Events:
    return [event for event in events if event.get("delta", {}).get("type") != "signature_delta"]


def unthought(body: Body) -> Body:
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    return body


def changed(path: str, **fields: Any) -> Any:
    """A document at this path, with other fields."""
    return lambda where, document: {**document, **fields} if where == path else document


def without_hour(path: str, document: Body) -> Body:
    if path == "/v1/messages":
        document["usage"].pop("cache_creation", None)
    return document


def calling(body: Body, events: Events) -> Events:
    if (body.get("tool_choice") or {}).get("type") != "none":
        return events
    start = {"type": "tool_use", "id": "toolu_1", "name": "Weather", "input": {}}
    call = [
        {"type": "content_block_start", "index": 9, "content_block": start},
        {"type": "content_block_stop", "index": 9},
    ]
    return [*events[:-2], *call, *events[-2:]]


def on(words: str, change: Any) -> Any:
    return lambda body, events: change(events) if asks(body, words) else events


PLANTED = {
    "models listed": Quirk("", document=changed("/v1/models", data=[{"id": "other-1"}])),
    "sizes": Quirk("", document=changed(f"/v1/models/{MODEL}", max_tokens=50_000)),
    "usage": Quirk("", reply=on("word999", lambda events: each_usage(events, **NO_CACHE))),
    "request id": Quirk("", hides=("request-id",)),
    "stated limits": Quirk("", hides=("anthropic-ratelimit",)),
    "prompt cache": Quirk("", reply=on("Say only: two", lambda events: each_usage(events, cache_read_input_tokens=0))),
    "cache for an hour": Quirk("", document=without_hour),
    "calls of tools": Quirk("", reply=on("Call Weather twice", lambda events: text_alone(events, "sunny"))),
    "calls side by side": Quirk("", reply=on("Call Weather twice", one_call)),
    "results of tools": Quirk("", refuse=refuse(lambda body: "tool_result" in json.dumps(body), "tool_result: bad block")),
    "no tool allowed": Quirk("", reply=calling),
    "thinking": Quirk("", change=unsigned, forward=unthought),
    "effort": Quirk("", refuse=refuse(lambda body: "output_config" in body, "output_config: Extra inputs are not permitted")),
    "images": Quirk("", reply=on("which colour", lambda events: text_alone(events, "Blue", "text"))),
    "long replies": Quirk("", refuse=refuse(lambda body: body["max_tokens"] > 60_000, TOO_MANY)),
    "too long prompts": Quirk("", forward=shortened),
    "summaries": Quirk("", document=changed(f"/v1/models/{MODEL}", capabilities={})),
    "token counts": Quirk("", lacks=("/v1/messages/count_tokens",)),
    "web search": Quirk("", reply=on("Search the web", lambda events: text_alone(events, "", "web_search_tool_result"))),
    "batches": Quirk("", lacks=("/v1/messages/batches",)),
    "unknown model": Quirk("", forward=lambda body: {**body, "model": MODEL}),
    "malformed request": Quirk("", forward=lambda body: {**body, "max_tokens": abs(body["max_tokens"])}),
    "wrong key": Quirk("", key=""),
}  # fmt: skip
UNSEEN = {"reply", "price", "thinking's prefix", "forced calls"}
"""Rows with a test of their own, and rows that only tell."""


def test_each_row_has_a_planted_difference() -> None:
    assert set(PLANTED) | UNSEEN == {row.name for row in ASSUMPTIONS}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_told_by_its_line_alone(server: RehearsalServer, name: str) -> None:
    quirk = PLANTED[name] if name == "wrong key" else _with_key(PLANTED[name])
    findings, _ = examine(server, quirk)
    assert list(differing(findings)) == [name], differing(findings)
    [found] = [finding for finding in findings if finding.name == name]
    assert found.seen and found.follows


def _with_key(quirk: Quirk) -> Quirk:
    return replace(quirk, key="right")


def test_a_model_without_a_row_has_no_price(server: RehearsalServer) -> None:
    findings, examination = examine(server, HONEST, "other-1")
    assert differing(findings) == {"price": "other-1 has no row"}
    assert examination.facts == ModelFacts(window=1_000_000, max_output=128_000), "its sizes are the stated ones"


def test_after_a_refused_key_nothing_else_is_asked(server: RehearsalServer) -> None:
    findings, _ = examine(server, Quirk("closed", key="another"))
    assert [finding.name for finding in findings] == ["reply"] and findings[0].needed
    assert "does not accept our credentials" in findings[0].seen


def test_the_command_tells_each_line_and_the_fleet_remembers_the_differences(
    fleet: Fleet, server: RehearsalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fleet.environment().items():
        monkeypatch.setenv(name, value)
    with gateway_of(server.url, _with_key(PLANTED["effort"])) as gateway:
        monkeypatch.setenv("SWARM_BASE_URL", gateway.url)
        store = ModelStore(fleet.swarm.store.keyspace)
        store.add_facts(f"{MODEL} at {gateway.url}", ModelFacts(window=9_000, lacks=("thinking",)))
        told = CliRunner().invoke(app, ["doctor", "--live", "--model", MODEL])
        assert told.exit_code == 0, told.output
        assert "differs effort" in told.output and "effort is left out of requests" in told.output
        assert store.all_facts() == {f"{MODEL} at {gateway.url}": ModelFacts(lacks=("effort",))}, (
            "the odd ones are gone"
        )
        again = CliRunner().invoke(app, ["doctor", "--live", "--model", MODEL, "--json"])
        assert json.loads(again.stdout)[0]["name"] == "reply"
