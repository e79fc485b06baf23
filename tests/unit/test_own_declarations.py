"""Functions as tools: what is read of a signature, how a call ends, what is refused with the function's place.

Tests of swarm/definitions/own/context.py, swarm/definitions/own/declaration.py, swarm/definitions/own/results.py,
swarm/definitions/own/schema.py, swarm/definitions/tools.py, swarm/tools/outside.py.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from swarm import ToolContext, ToolError, ToolImage, tool
from swarm.agent import notes
from swarm.agent.decision import RunTools, next_action, settle
from swarm.agent.entries import Assistant, Prompt, Started, ToolStarted
from swarm.agent.history import History
from swarm.core.errors import ConfigurationError, Interrupted
from swarm.definitions import tools
from swarm.definitions.own.declaration import Declaration, declaration_of
from swarm.definitions.own.results import render
from swarm.definitions.tools import Kind
from swarm.models import Usage
from swarm.permissions.calls import JudgedCall, judge_call
from swarm.permissions.rules import Rules, parse_rule
from swarm.tools.own import make_tool
from swarm.tools.registry import validate_input
from tests.tool_world import World, make_world

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"


class Line(BaseModel):
    """An article and how many of it."""

    sku: str
    count: int = 1


@tool
def order(
    lines: list[Line],
    schema: Annotated[str, Field(description="Which form.")],
    way: Literal["fast", "cheap"] = "cheap",
    *,
    context: ToolContext | None = None,
) -> str:
    """Order articles.

    The supplier sends them the next day.

    Args:
        lines: What is
            ordered.
        way (str): How it is sent.

    Returns:
        Nothing that a model should read.
    """
    assert context is not None
    return f"{context.idempotency_key}: {sum(line.count for line in lines)} {schema} {way}"


def _declared(function: Any) -> Declaration:
    declaration = declaration_of(function)
    assert declaration is not None
    return declaration


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def _call(world: World, function: Any, **given: Any) -> Any:
    made = make_tool(_declared(function))
    assert made.run is not None
    return made.run(world.ctx, validate_input(made, given))


def test_a_signature_and_its_docstring_become_the_schema_that_a_model_reads() -> None:
    schema = make_tool(_declared(order)).schema()
    assert schema["description"] == "Order articles.\n\nThe supplier sends them the next day."
    given = schema["input_schema"]
    assert list(given["properties"]) == ["lines", "schema", "way"] and given["required"] == ["lines", "schema"]
    assert given["properties"]["lines"]["description"] == "What is ordered."
    assert given["properties"]["way"] == {
        "default": "cheap",
        "description": "How it is sent.",
        "enum": ["fast", "cheap"],
        "type": "string",
    }
    assert given["$defs"]["Line"]["required"] == ["sku"] and "title" not in str(given)


def test_a_call_gets_its_types_its_defaults_and_its_context(world: World) -> None:
    result = _call(world, order, lines=[{"sku": "a", "count": 2}, {"sku": "b"}], schema="x")
    assert result.text == "agent-1/toolu_1: 3 x cheap" and not result.is_error
    with pytest.raises(ToolError, match=r"lines.*sku"):
        _call(world, order, lines=[{}], schema="x")
    with pytest.raises(ToolError, match="unknown parameter 'context'"):
        _call(world, order, lines=[], schema="x", context={})
    assert order(lines=[], schema="y", context=_told()) == "k: 0 y cheap", "it is still a function"


def _told() -> ToolContext:
    return ToolContext(tool="t", agent_id="a", job_id="j", workspace=Path("/"), idempotency_key="k")


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("SHOP_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.syspath_prepend(str(OUTSIDE))
    import shop  # type: ignore[import-not-found]

    return shop


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("loop", r"did not end within 0\.3 s and was interrupted. Its effects until then remain"),
        ("sleep", r"did not end within 0\.3 s and was interrupted"),
        ("look", ""),
    ],
)
def test_a_call_that_takes_too_long_ends(world: World, shop: Any, way: str, message: str) -> None:
    if not message:
        assert _call(world, shop.hang, way=way).text == "I saw it"
        return
    with pytest.raises(ToolError, match=message):
        _call(world, shop.hang, way=way)


def test_a_call_ends_with_its_agent(tmp_path: Path, shop: Any) -> None:
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise Interrupted("cancelled")

    world = make_world(tmp_path, check=check)
    with pytest.raises(Interrupted):
        _call(world, shop.hang, way="sleep")


def test_what_a_function_refuses_and_what_it_fails_at_reach_the_caller_as_such(world: World, shop: Any) -> None:
    with pytest.raises(ToolError, match="the account closed-1 is closed"):
        _call(world, shop.charge_card, account="closed-1", cents=1)
    with pytest.raises(ToolError, match="cents"):
        _call(world, shop.charge_card, account="a", cents=0)
    with pytest.raises(OverflowError):
        _call(world, shop.charge_card, account="a", cents=2**70)


def test_results_are_text_json_or_images() -> None:
    assert render("text").text == "text" and render(None).text == "(no output)"
    assert render({"at": Path("/x"), "n": 1.5}).text == '{"at":"/x","n":1.5}'
    both = render([ToolImage(b"12"), "a caption"])
    assert both.blocks is not None and [block["type"] for block in both.blocks] == ["image", "text"]
    with pytest.raises(ToolError, match="a object that cannot be written as JSON"):
        render(object())


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, Kind.EFFECT), ({"effects": "none"}, Kind.LOOK), ({"effects": "idempotent"}, Kind.IDEMPOTENT)],
)
def test_the_kind_says_what_a_crash_in_the_middle_leaves(options: Any, kind: Kind) -> None:
    row = _declared(tool(**options)(order)).row
    assert row.kind is kind and row.has_effects is (kind is not Kind.LOOK) and not row.is_internal
    tool(order)


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is declared here stays here."""
    for name in ("_rows", "_by_alias"):
        monkeypatch.setattr(tools, name, dict(getattr(tools, name)))


def test_rules_name_a_tool_and_what_its_calls_are_about(own_table: None, shop: Any) -> None:
    from swarm.tools.outside import declare_all

    declare_all((_declared(shop.charge_card).row, "here"))
    rules = Rules(
        rules=(
            parse_rule("ChargeCard(acme-*)", "allow", "test"),
            parse_rule("charge_card(acme-9)", "deny", "test"),
            parse_rule("charge_card(cents:9*)", "deny", "test"),
        )
    )

    def judged(**given: Any) -> str:
        world: dict[str, Any] = {"mode": "acceptEdits", "workspace": Path("/"), "sandboxed": False}
        return judge_call(JudgedCall(tool="charge_card", given=given, rules=rules, **world)).action

    assert judged(account="acme-1", cents=1) == "allow"
    assert judged(account="acme-9", cents=1) == judged(account="acme-1", cents=99) == "deny"
    assert judged(account="other", cents=1) == "ask"


@pytest.mark.parametrize(("effects", "runs_again"), [("idempotent", True), ("once", False)])
def test_an_interrupted_call_is_run_again_only_if_its_key_makes_that_harmless(
    own_table: None, world: World, effects: Any, runs_again: bool
) -> None:
    tools.declare(replace(_declared(tool(effects=effects)(order)).row, origin="here"))
    call = {"type": "tool_use", "id": "toolu_1", "name": "order", "input": {}}
    history = History("agent-1")
    for entry in (
        Started(spec=world.ctx.spec, tools=[{"name": "order"}]),
        Prompt(text="go"),
        Assistant(content=[call], stop_reason="tool_use", usage=Usage(), model="m"),
        ToolStarted(tool_use_id="toolu_1"),
    ):
        history.apply(entry)
    action = next_action(history)
    assert action == (RunTools([call]) if runs_again else settle([call], notes.INTERRUPTED))
    tool(order)


BROKEN = {
    "def f(*args): 'd'": "it takes \\*args",
    "def f(a): 'd'": "'a' has no type",
    "def f(a: int, /): 'd'": "'a' is positional-only",
    "def f(a: int): pass": "it has no docstring",
    "def f(a: 'Nowhere'): 'd'": "its annotations cannot be read: NameError",
    "def f(a: object()): 'd'": "no JSON schema",
    "import threading\n@tool\ndef f(a: threading.Lock): 'd'": "no JSON schema|cannot be read",
    "@tool(subject='b')\ndef f(a: int): 'd'": "subject='b' is not one of its parameters",
    "@tool(name='mcp__x')\ndef f(a: int): 'd'": "cannot be a tool's name",
    "@tool(effects='all')\ndef f(a: int): 'd'": "effects='all' is not one of",
    "@tool(name='Bash')\ndef f(a: int): 'd'": "there is a tool 'Bash' already",
    "@tool(name='read_file')\ndef f(a: int): 'd'": "there is a tool 'read_file' already",
    "def f(a: int):\n    '''d\n\n    Args:\n        b: x\n    '''": "describes 'b', which is not one of",
    "class C:\n    @tool\n    def f(self): 'd'": "move it to the top level",
}


@pytest.mark.parametrize("source", BROKEN, ids=range(len(BROKEN)))
def test_a_function_that_cannot_be_a_tool_is_named_with_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    from swarm.tools.outside import declare_outside_tools

    name = f"broken_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(f"from swarm import tool\n{'' if '@tool' in source else '@tool'}\n{source}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=BROKEN[source]) as caught:
        declare_outside_tools(name)
    assert f"{name}.py:" in str(caught.value) and f"SWARM_TOOLS names {name}" in str(caught.value)
    sys.modules.pop(name, None)
