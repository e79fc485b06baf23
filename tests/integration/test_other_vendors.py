"""Agents on models of other vendors, in each format: trees, reasoning, images, mixed models, faults, keys.

Tests of swarm/models/vendor_model.py, swarm/models/codecs.py, swarm/models/router.py, swarm/models/vendors.py, swarm/models/connection.py,
swarm/rehearsal/endpoints.py, swarm/rehearsal/formats.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from swarm import Limits
from swarm.agent.entries import Assistant
from swarm.core.ids import root_agent_id
from swarm.models import ModelRequest
from swarm.models.catalogue import max_output
from swarm.models.codecs import codec
from swarm.models.encoder import Encoder
from swarm.models.reply import tell_apart
from swarm.models.request import build_request, unmarked
from swarm.models.router import AnyModel
from swarm.models.vendors import split_model
from swarm.replay.check import check_requests
from swarm.replay.past import read_past
from tests.fleet import Fleet
from tests.waiting import wait_for

MIXED = """
name: mixed
rules:
  - when: {definition: cheap}
    reply: {thinking: 'cheap thoughts', text: 'the cheap answer'}
  - when: {last_text: the cheap answer}
    reply: {text: 'it said: the cheap answer'}
  - when: {last_result: the cheap answer}
    reply: {text: 'it said: the cheap answer'}
  - when: {turn: 0}
    reply: {tools: [{name: Agent, input: {description: look, prompt: look, subagent_type: cheap}}]}
  - reply: {text: waiting}
"""
CHEAP = "---\nname: cheap\ndescription: Looks.\nmodel: openai:gpt-6-mini\ntools: Read\n---\nLook.\n"
FAULTS = """
name: faults
script: tree
faults:
  - {kind: '429', retry_after: 0.1, times: 2}
  - {kind: '529', retry_after: 0.1, times: 1}
  - {kind: cut, times: 2}
  - {kind: stream_error, times: 1}
"""


FORMATS = {"groq:llama-4": "chat", "openai:gpt-6": "responses", "gemini:gemini-3-pro": "gemini"}
"""A model for each format."""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
"""An image of one pixel."""
SEES = """
name: sees
rules:
  - when: {turn: 0}
    reply:
      thinking: I must look.
      text: I look.
      tools: [{name: Read, input: {file_path: dot.png}}, {name: Read, input: {file_path: none.txt}}]
  - when: {turn: 1}
    reply: {thinking: 'Once more.', tools: [{name: Read, input: {file_path: dot.png}}]}
  - reply: {thinking: 'That was it.', text: 'a dot'}
"""


LIVES = ("claude-sonnet-5-5", "openai:gpt-6", "gemini:gemini-3-pro", "claude-sonnet-5-5")
"""Models of a life, 15 turns each."""
LIFE = """
name: life
rules: [{reply: {thinking: 'thought {turn}', text: 'step {turn}', tools: [{name: Look, input: {at: '{turn}'}}]}}]
"""


@pytest.mark.parametrize("model", FORMATS)
@pytest.mark.parametrize("scenario", ["tree", FAULTS], ids=["quiet", "faults"])
def test_a_tree_answers_and_costs_what_the_server_counted(at_work: Fleet, scenario: str, model: str) -> None:
    server = at_work.rehearse(scenario)
    job = at_work.swarm.submit(
        "TREE depth=2 fanout=2 steps=2",
        model=model,
        workspace=at_work.workspace,
        base_url=server.url,
        limits=Limits(max_depth=4),
    )
    view = job.wait(90)
    assert (view.state, view.text) == ("completed", "DONE 7"), view
    stats = server.stats()
    assert set(stats["by_model"]) <= {model.partition(":")[2], ""}
    if scenario == "tree":
        told, counted = view.usage.model_dump(), {name: stats["tokens"][name] for name in view.usage.model_dump()}
        if model.startswith("gemini:"):  # it does not tell what it writes into its cache
            counted["input_tokens"] += counted.pop("cache_creation_input_tokens")
            assert told.pop("cache_creation_input_tokens") == 0
        assert told == counted
    else:
        assert sum(stats["faults"].values()) == 6
    assert {check.outcome for check in check_requests(read_past(at_work.swarm.store, job.id))} == {"same"}
    calls = [block for block in replied(at_work, job.id) if block["type"] == "tool_use"]
    assert calls and {call["vendor"].get("wire", "chat") for call in calls} == {FORMATS[model]}


@pytest.mark.parametrize("model", FORMATS)
def test_a_model_gets_its_reasoning_back_and_sees_the_images_of_results(at_work: Fleet, model: str) -> None:
    (at_work.workspace / "dot.png").write_bytes(base64.b64decode(DOT))
    server = at_work.rehearse(SEES)
    job = at_work.swarm.submit("look", model=model, workspace=at_work.workspace, base_url=server.url)
    view = job.wait(60)
    assert (view.state, view.text) == ("completed", "a dot"), view
    blocks = replied(at_work, job.id)
    assert [block["thinking"] for block in blocks if block["type"] == "thinking"] == [
        "I must look.",
        "Once more.",
        "That was it.",
    ]
    assert server.stats()["by_status"] == {"200": 3}


def replied(world: Fleet, job_id: str) -> list[dict[str, Any]]:
    entries = world.swarm.store.journals.read(root_agent_id(job_id))
    return [block for entry in entries if isinstance(entry, Assistant) for block in entry.content]


def test_requests_share_a_connection_and_read_their_conversation_once(at_work: Fleet) -> None:
    server = at_work.rehearse("name: x\nrules: [{reply: {text: well, tools: [{name: Look, input: {}}]}}]")
    model = AnyModel.rehearsing(at_work.settings, server.url)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    opened, kept = [], dict[str, Any]()
    for _ in range(5):
        reply = model.complete(ModelRequest(model="openai:gpt-6", system="", messages=messages, kept=kept))
        opened.append(server.connections)
        messages.append({"role": "assistant", "content": reply.content})
        results = [{"type": "tool_result", "tool_use_id": reply.content[-1]["id"], "content": "seen"}]
        messages.append({"role": "user", "content": results})
    model.close()
    assert opened == [1] * 5


def test_a_life_goes_from_vendor_to_vendor_and_back_and_nothing_is_lost(at_work: Fleet) -> None:
    tool = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}}
    server = at_work.rehearse(LIFE)
    model, kept, known = AnyModel.rehearsing(at_work.settings, server.url), dict[str, Any](), set[str]()
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "The word is heron."}]}]
    before: list[dict[str, Any]] = []
    for turn in range(60):
        name = LIVES[turn // 15]
        request = ModelRequest(name, "Be brief.", messages, [tool], kept=kept)
        if turn == 15:
            before = plain_messages(replace(request, model=LIVES[0]))
        reply = model.complete(request)
        found = split_model(name, {})
        encoder = Encoder() if found is None else codec(found[0].wire).encoder(*found)
        fresh = encoder.encode(request, max_output=max_output(name, prices_file=None))
        assert reply.request_sha == hashlib.sha256(fresh).hexdigest(), turn
        content = tell_apart(reply.content, known, turn)
        messages.append({"role": "assistant", "content": content})
        call_id = content[-1]["id"]
        known.add(call_id)
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": f"seen {turn}"}
        if turn % 7 == 3:
            result["is_error"] = True
        if turn % 5 == 2:
            result["content"] = [{"type": "text", "text": f"seen {turn}"}, image]
        messages.append({"role": "user", "content": [result]})
    model.close()
    assert server.stats()["by_status"] == {"200": 60}
    last = plain_messages(replace(request, messages=messages))
    assert last[: len(before)] == before and len(last) == 121
    thoughts = [block["thinking"] for message in last for block in message["content"] if block["type"] == "thinking"]
    assert thoughts == [f"thought {turn}" for turn in range(60) if LIVES[turn // 15] == LIVES[0]]
    assert all(word in json.dumps(last) for word in ("heron", *(f'"step {turn}"' for turn in range(60)), "seen 44"))


def plain_messages(request: ModelRequest) -> list[dict[str, Any]]:
    """The messages of a request to Anthropic's API, without marks for its cache."""
    made = build_request(request, max_output=9_000)["messages"]
    return [{**message, "content": list(map(unmarked, message["content"]))} for message in made]


def test_a_child_may_run_on_another_vendors_model_than_its_parent(at_work: Fleet) -> None:
    agents = at_work.workspace / ".swarm" / "agents"
    agents.mkdir(parents=True)
    (agents / "cheap.md").write_text(CHEAP)
    server = at_work.rehearse(MIXED)
    job = at_work.swarm.submit("go", workspace=at_work.workspace, base_url=server.url, mode="bypassPermissions")
    view = job.wait(60)
    assert view.state == "completed" and "the cheap answer" in view.text, view
    assert server.stats()["by_model"]["gpt-6-mini"] == 1


def test_a_fleet_asks_the_servers_of_its_settings_with_their_keys(fleet: Fleet) -> None:
    server = fleet.rehearse("tree")
    vendors = json.dumps({"ours": f"{server.url}/v1 OURS_KEY", "keyless": f"{server.url}/v1 NO_SUCH_KEY"})
    worker = fleet.start_worker(2, SWARM_VENDORS=vendors, OURS_KEY="sk-1", SWARM_MODEL="ours:m-1")
    job = fleet.swarm.submit("TREE depth=1 fanout=2 steps=1", model="ours:m-1", workspace=fleet.workspace)
    assert job.wait(60).text == "DONE 3"
    assert set(server.stats()["by_model"]) == {"m-1"}
    lacking = fleet.swarm.submit("TREE depth=0 fanout=1 steps=1", model="keyless:m-1", workspace=fleet.workspace)
    wait_for("the lack", lambda: "there is no key for keyless: set NO_SUCH_KEY" in worker.text() or None, 30)
    # The worker keeps its fitness for models whose key it has, and the agent waits for another worker.
    again = fleet.swarm.submit("TREE depth=0 fanout=1 steps=1", model="ours:m-1", workspace=fleet.workspace)
    assert again.wait(60).text == "DONE 1" and not lacking.view().ended
    lacking.cancel()


def test_a_model_of_a_vendor_without_a_key_waits_for_a_worker_that_has_it(fleet: Fleet) -> None:
    server = fleet.rehearse("tree")
    vendors = json.dumps({"groq": f"{server.url}/v1 GROQ_API_KEY"})
    fleet.start_worker(1)
    job = fleet.swarm.submit("TREE depth=0 fanout=1 steps=1", model="groq:m-1", workspace=fleet.workspace)
    lack = wait_for("the lack", lambda: next(iter(fleet.swarm.find_lacks().values()), None), 30)
    assert "it lacks a key for groq (set its variable there (docs/vendors.md))" in lack
    fleet.start_worker(1, SWARM_VENDORS=vendors, GROQ_API_KEY="sk-1")
    assert job.wait(60).text == "DONE 1"
