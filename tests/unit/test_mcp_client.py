"""What is decided about MCP servers without speaking with any: pins, names, questions, search.

Tests of swarm/capabilities/mcp/changes.py, swarm/capabilities/mcp/elicitation.py, swarm/capabilities/mcp/launch.py,
swarm/capabilities/mcp/pins.py, swarm/capabilities/mcp/server_tools.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import Prompt, Redefined
from swarm.agent.history import History
from swarm.agent.spec import AgentSpec
from swarm.capabilities.mcp.changes import ToolChange, adopt
from swarm.capabilities.mcp.elicitation import make_ask, read_answer
from swarm.capabilities.mcp.launch import Profile
from swarm.capabilities.mcp.pins import follow, make_pin
from swarm.capabilities.mcp.server_tools import TOOL_SEARCH, ServerTool, must_defer, search_tools
from swarm.definitions.mcp.servers import Server
from swarm.definitions.tools import Kind
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.rules import Rules, parse_rule
from swarm.store.questions import Question


def said(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": "d",
        "schema": {"type": "object"},
        "read_only": False,
        "idempotent": False,
        **more,
    }


def pin_of(*tools: dict[str, Any], **server: Any) -> Any:
    about = {"tools": tools, "instructions": "", "resources": False, "prompts": False}
    return make_pin(Server(name="my server", transport="stdio", command="x", **server), about)


def test_what_a_server_says_of_its_tools_is_believed_of_ones_own_and_of_what_is_allowed() -> None:
    tools = said("look", read_only=True), said("again", idempotent=True), said("act")
    assert [tool.kind for tool in pin_of(*tools, scope="user").tools] == ["look", "idempotent", "effect"]
    assert {tool.kind for tool in pin_of(*tools, scope="project").tools} == {"effect"}
    allowed = pin_of(*tools, scope="project", approvals={"*": "ask", "look": "allow"})
    assert [tool.kind for tool in allowed.tools] == ["look", "effect", "effect"]


def test_tools_are_pinned_under_names_and_with_schemas_that_a_model_can_be_given() -> None:
    strange = said("no", schema={"type": "object", "properties": {"a b": {}}})
    open_ended = said("either", schema={"oneOf": [{}], "properties": {"x": {"type": "string"}}})
    pin = pin_of(
        said("a.b"),
        said("a b"),
        said("x" * 100),
        strange,
        open_ended,
        said("hidden"),
        said("long", as_task=True),
        without=("hid*",),
    )
    names = [tool.called for tool in pin.tools]
    assert names[0] == "mcp__my_server__a_b" and len(set(names)) == 4 and all(len(name) <= 64 for name in names)
    assert pin.tools[3].parameters == {"type": "object", "properties": {"x": {"type": "string"}}}
    assert pin.left_out == ("no: its parameter 'a b' has a name that cannot be given", "long: it runs only as a task")


def test_a_process_is_shared_by_those_with_the_same_folders_and_rights_in_a_job() -> None:
    given: dict[str, Any] = {"job_id": "j", "agent_id": "", "workspace": "/w", "folders": (), "read_only": False}
    one = Profile(**given, network=False)
    local = Server(name="x", transport="stdio", command="x")
    far = Server(name="x", transport="http", url="http://x")
    other = [Profile(**{**given, **change}, network=False) for change in ({"read_only": True}, {"workspace": "/v"})]
    assert len({profile.key_for(local) for profile in [one, *other]}) == 3
    assert len({profile.key_for(far) for profile in [one, *other]}) == 1
    assert one.key_for(local) != Profile(**{**given, "job_id": "k"}, network=False).key_for(local), "never across jobs"


def form(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"mode": "form", "message": "Which?", "schema": {"properties": fields, "required": list(required)}}


FULL = form(("name",), name={"type": "string"}, sure={"type": "boolean"}, tags={"type": "array"}, n={"type": "integer"})


@pytest.mark.parametrize(
    ("request_", "words", "answer"),
    [
        (form(n={"type": "integer"}), " 7 ", {"action": "accept", "content": {"n": 7}}),
        (form(n={"type": "integer"}), "n: 7", {"action": "accept", "content": {"n": 7}}),
        (form(n={"type": "integer"}), "Decline", {"action": "decline"}),
        (
            FULL,
            "name: Ada\nsure: yes\ntags: a, b",
            {"action": "accept", "content": {"name": "Ada", "sure": True, "tags": ["a", "b"]}},
        ),
        (FULL, '{"name": "Ada", "n": 3}', {"action": "accept", "content": {"name": "Ada", "n": 3}}),
        ({"mode": "url", "message": "m", "url": "http://x"}, "done", {"action": "accept"}),
        (form(), "ok", {"action": "accept", "content": {}}),
    ],
)
def test_a_persons_words_become_what_a_server_asked_for(request_: Any, words: str, answer: Any) -> None:
    assert read_answer(request_, words.replace("\\\n", "\n")) == answer


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("sure: yes", "name is missing"),
        ("name: A\nsure: perhaps", "sure must be yes or no, not 'perhaps'"),
        ("name: A\nn: many", "n must be of the type integer, not 'many'"),
        ("name: A\nelse: 1", "there is no field 'else'"),
        ("just words", "is not a line"),
        ("{name", "begins like JSON"),
    ],
)
def test_words_that_cannot_be_used_are_said_to_be_so(words: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_answer(FULL, words)


def test_a_question_offers_the_choices_of_its_one_field() -> None:
    ask = make_ask("shop", "mcp__shop__buy", form(size={"enum": ["S", "L"]}), seconds=60)
    given = {"id": "q", "job_id": "j", "agent_id": "a", "label": "l", "to": "", "state": "open", "asked_at": 0}
    question = Question(**given, **ask.model_dump(include={"kind", "tool", "title", "detail"}), expires_at=1)
    assert question.options == ["S", "L", "decline"] and question.title == "shop: Which?"
    plain = make_ask("shop", "t", FULL, seconds=60, fault="name is missing")
    assert "name: string" in plain.detail and "cannot be used: name is missing" in plain.detail
    assert plain.detail.endswith("\n"), "its lines are not taken for choices"


def test_many_tools_are_searched_by_the_words_of_their_names_first() -> None:
    tools = [
        {"name": f"mcp__s__{name}", "description": about, "input_schema": {"properties": {}}}
        for name, about in (("issue_list", "List what is open."), ("pay", "Pays, and lists issues."), ("noise", ""))
    ]
    assert next(tool["name"] for tool in search_tools(tools, "list issue", 5)) == "mcp__s__issue_list"
    assert search_tools(tools, "select:mcp__s__noise,none", 5) == [tools[2]] and search_tools(tools, "zebra", 5) == []
    assert must_defer(tools * 11, 200_000) and must_defer(tools, 100) and not must_defer(tools, 200_000)


def test_what_a_call_of_a_server_means_is_what_was_journaled_when_its_agent_began() -> None:
    history = History("a", tools=[{"name": "mcp__s__x"}, {"name": "mcp__s__y"}], kinds={"mcp__s__x": "look"})
    assert [history.kind_of({"name": f"mcp__s__{name}"}) for name in "xyz"] == [Kind.LOOK, Kind.EFFECT, Kind.LOOK]


@pytest.mark.parametrize(
    ("looks", "allowed", "action"), [(True, True, "allow"), (True, False, "ask"), (False, True, "deny")]
)
def test_who_plans_may_call_what_is_believed_to_change_nothing_where_a_rule_allows_it(
    looks: bool, allowed: bool, action: str
) -> None:
    rules = Rules(rules=(parse_rule("mcp__s__*", "allow", "test"),) if allowed else ())
    call = JudgedCall("mcp__s__x", {}, rules, "plan", Path("/w"), sandboxed=True, looks=looks)
    assert judge(call).action == action


def test_new_tools_of_a_server_are_deferred_where_the_agent_can_search() -> None:
    server = Server(name="my server", transport="stdio", command="x")
    pin = pin_of(said("old"), said("new", read_only=True)).model_copy(update={"offer": "2"})
    tools = [ServerTool(one.called, "", {}, pinned=one) for one in pin.tools]
    for searches in (True, False):
        given = [TOOL_SEARCH.schema()] if searches else []
        given += [
            {"name": name, "input_schema": {"type": "object"}} for name in ("mcp__my_server__old", "mcp__my_server__x")
        ]
        history = History("a", tools=given, offers={"my_server": "1", "other": "3"})
        redefined, told = adopt(history, AgentSpec.model_construct(), [ToolChange(server, pin, tools)], 200_000)
        assert isinstance(redefined, Redefined) and isinstance(told, Prompt)
        assert redefined.tools[: len(given)] == given and redefined.offers == {"my_server": "2", "other": "3"}
        [new] = redefined.tools[len(given) :]
        assert new["name"] == "mcp__my_server__new" and bool(new.get("defer_loading")) is searches
        assert ("ToolSearch" in told.text) is searches and "no longer offers: mcp__my_server__x" in told.text
        assert redefined.kinds == {"mcp__my_server__new": "look"}
    many = [ServerTool(f"mcp__my_server__t{n}", "", {}, pinned=pin.tools[0]) for n in range(40)]
    redefined, _ = adopt(History("a"), AgentSpec.model_construct(), [ToolChange(server, pin, many)], 200_000)
    assert isinstance(redefined, Redefined) and redefined.tools[0]["name"] == "ToolSearch"
    assert all(tool["defer_loading"] for tool in redefined.tools[1:]) and len(redefined.tools) == 41


def test_a_tool_that_is_gone_stays_known_and_comes_back() -> None:
    both, one = pin_of(said("a"), said("b")), pin_of(said("a"))
    after = follow(both, one)
    assert [(tool.name, tool.gone) for tool in after.tools] == [("a", False), ("b", True)]
    assert [(tool.name, tool.gone) for tool in follow(after, both).tools] == [("a", False), ("b", False)]
