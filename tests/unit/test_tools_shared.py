"""The tools of board, scratchpad and team: their schemas, what they hand on, and what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from swarm.agent.decision import ORDERED_TOOLS, WAIT_TOOLS, RunTools, Settle, SpawnAgents, WaitAgents, next_action
from swarm.agent.entries import Assistant, Prompt, Spawned, Started, ToolFinished
from swarm.agent.life import fold
from swarm.agent.spec import AgentSpec, Limits
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.names import KNOWN_TOOLS
from swarm.errors import BoardRefused, PadRefused, ToolError
from swarm.mailbox import Message, render_mail
from swarm.models import Usage
from swarm.permissions.judge import judge
from swarm.permissions.rules import Rules
from swarm.runtime.sharing import is_of_use, shared_tools, with_team_tools
from swarm.team.board import check_role, check_subject, check_text
from swarm.team.scratchpad import MAX_NAME_CHARACTERS, check_page
from swarm.tools import ToolContext
from swarm.tools.registry import validate_input
from tests.tool_world import KeptOutputs


class Recorded:
    """A board, scratchpad and team that write down what they are asked to do."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.text = ""

    def _record(self, name: str, *given: Any) -> str:
        self.asked.append((name, given))
        return name

    def add_task(self, cause: str, given: Mapping[str, Any]) -> str:
        return self._record("add", cause, dict(given))

    def list_tasks(self, state: str | None) -> str:
        return self._record("list", state)

    def show_task(self, number: int) -> str:
        return self._record("show", number)

    def claim_task(self, cause: str, number: int | None) -> str:
        return self._record("claim", cause, number)

    def update_task(self, cause: str, given: Mapping[str, Any]) -> str:
        return self._record("update", cause, dict(given))

    def complete_task(self, cause: str, number: int, result: str) -> str:
        return self._record("complete", cause, number, result)

    def write_page(self, cause: str, page: str, content: str, if_version: int | None) -> str:
        return self._record("write", cause, page, content, if_version)

    def append_to_page(self, cause: str, page: str, content: str) -> str:
        return self._record("append", cause, page, content)

    def delete_page(self, cause: str, page: str, if_version: int | None) -> str:
        return self._record("delete", cause, page, if_version)

    def read_page(self, page: str) -> tuple[str, str]:
        return f"{page}, version 3", self.text

    def list_pages(self, prefix: str) -> str:
        return self._record("pages", prefix)

    def create_team(self, cause: str, name: str, description: str) -> str:
        return self._record("create", cause, name, description)

    def delete_team(self, cause: str, *, force: bool) -> str:
        return self._record("dissolve", cause, force)


@pytest.fixture
def ports() -> Recorded:
    return Recorded()


def call(ports: Recorded, folder: Path, name: str, /, **given: Any) -> str:
    context = ToolContext(
        agent_id="a",
        job_id="j",
        workspace=folder,
        tool_use_id="t1",
        outputs=KeptOutputs(),
        board=ports,
        pad=ports,
        team=ports,
    )
    tool = shared_tools()[name]
    return tool.run(context, validate_input(tool, given)).text


def test_all_tools_are_known_have_valid_schemas_and_may_be_repeated() -> None:
    tools = shared_tools()
    assert set(tools) == {name for name in KNOWN_TOOLS if name.startswith(("Board", "Scratchpad", "Team"))}
    for name, tool in tools.items():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.name == name and tool.activity is not None and not tool.effects
        assert tool.activity({}) is not None
    reading = {"BoardList", "ScratchpadRead", "ScratchpadList"}
    assert set(tools) - reading - WAIT_TOOLS - {"TeamDelete"} == ORDERED_TOOLS


def test_the_whole_set_is_small_enough_for_every_request() -> None:
    import json

    size = sum(len(json.dumps(tool.schema())) for tool in shared_tools().values())
    assert size < 8_000, size


def test_calls_hand_on_what_was_given_under_their_own_id(ports: Recorded, tmp_path: Path) -> None:
    call(ports, tmp_path, "BoardAdd", subject="s", role="r", blocked_by=[1, 2])
    call(ports, tmp_path, "BoardList")
    call(ports, tmp_path, "BoardList", task_id=3)
    call(ports, tmp_path, "BoardClaim")
    call(ports, tmp_path, "BoardUpdate", task_id=3, owner="")
    call(ports, tmp_path, "BoardComplete", task_id=3, result="done")
    call(ports, tmp_path, "ScratchpadWrite", page="a", content="x", if_version=0)
    call(ports, tmp_path, "ScratchpadWrite", page="a", delete=True, if_version=2)
    call(ports, tmp_path, "ScratchpadAppend", page="a", content="y")
    call(ports, tmp_path, "TeamCreate", name="crew")
    call(ports, tmp_path, "TeamDelete")
    assert ports.asked == [
        ("add", ("t1", {"subject": "s", "role": "r", "blocked_by": [1, 2]})),
        ("list", (None,)),
        ("show", (3,)),
        ("claim", ("t1", None)),
        ("update", ("t1", {"task_id": 3, "owner": ""})),
        ("complete", ("t1", 3, "done")),
        ("write", ("t1", "a", "x", 0)),
        ("delete", ("t1", "a", 2)),
        ("append", ("t1", "a", "y")),
        ("create", ("t1", "crew", "")),
        ("dissolve", ("t1", False)),
    ]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("BoardAdd", {}, "'subject' is missing"),
        ("BoardAdd", {"subject": "s", "blocked_by": [0]}, "less than the minimum"),
        ("BoardClaim", {"task_id": "3"}, "not of type 'integer'"),
        ("BoardUpdate", {"task_id": 1}, "say what is to change"),
        ("BoardUpdate", {"task_id": 1, "state": "completed"}, "unknown parameter 'state'"),
        ("BoardComplete", {"task_id": 1}, "'result' is missing"),
        ("BoardWait", {"timeout_seconds": 1}, "less than the minimum of 10"),
        ("BoardWait", {}, "carried out by the runtime"),
        ("BoardList", {"state": "done"}, "is not one of"),
        ("ScratchpadWrite", {"page": "a"}, "'content' is missing"),
        ("ScratchpadWrite", {"page": "a", "content": "x", "delete": True}, "has no `content`"),
        ("ScratchpadAppend", {"page": "a", "content": ""}, "non-empty|too short"),
        ("ScratchpadRead", {"page": "a", "offset": 0}, "less than the minimum"),
        ("TeamCreate", {}, "'name' is missing"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_asked(
    ports: Recorded, tmp_path: Path, name: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        call(ports, tmp_path, name, **given)
    assert ports.asked == []


def test_a_page_is_read_by_lines_with_their_numbers(ports: Recorded, tmp_path: Path) -> None:
    assert call(ports, tmp_path, "ScratchpadRead", page="a") == "[a, version 3; it is empty]"
    ports.text = "\n".join(f"line {n}" for n in range(1, 11))
    text = call(ports, tmp_path, "ScratchpadRead", page="a", offset=3, limit=2)
    assert text.splitlines() == [
        *("[a, version 3]", "     3\tline 3", "     4\tline 4"),
        "[… more follows; continue with offset=5]",
    ]
    assert "the last line is 10" in call(ports, tmp_path, "ScratchpadRead", page="a", offset=11)


def test_outside_a_job_there_is_nothing_to_share(tmp_path: Path) -> None:
    context = ToolContext(agent_id="a", job_id="j", workspace=tmp_path, tool_use_id="t", outputs=KeptOutputs())
    for name, given_input in (("BoardList", {}), ("ScratchpadList", {}), ("TeamDelete", {})):
        with pytest.raises(ToolError, match=r"There (is|are) no"):
            shared_tools()[name].run(context, given_input)


# -- names and texts -----------------------------------------------------------------------------------------


@given(st.text(max_size=40))
def test_no_text_becomes_a_page_name_that_could_be_something_else(name: str) -> None:
    try:
        accepted = check_page(name)
    except PadRefused:
        return
    assert accepted == name and name.isascii() and name.isprintable() and " " not in name
    parts = name.split("/")
    assert all(part and not part.startswith((".", "-")) for part in parts)


_PART = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(st.lists(_PART, min_size=1, max_size=5).map("/".join))
def test_every_path_of_plain_parts_is_a_page_name(name: str) -> None:
    assert check_page(name) == name
    with pytest.raises(PadRefused):
        check_page(name + "/")
    with pytest.raises(PadRefused):
        check_page("../" + name)
    with pytest.raises(PadRefused):
        check_page(name + "/x" * MAX_NAME_CHARACTERS)


@given(st.text())
def test_a_subject_is_one_line_or_refused(subject: str) -> None:
    try:
        line = check_subject(subject)
    except BoardRefused:
        return
    assert line and len(line.splitlines()) == 1 and len(line) <= 200
    assert line.encode()


@given(st.text())
def test_roles_are_compared_without_regard_to_case_and_spaces(role: str) -> None:
    try:
        assert check_role(role) == check_role(f"  {role} ") == " ".join(check_role(role).split())
    except BoardRefused:
        pass


def test_long_texts_are_measured_in_bytes() -> None:
    assert check_text("note", "ü" * 4_096) == "ü" * 4_096
    with pytest.raises(BoardRefused, match="the note has 8,194 bytes"):
        check_text("note", "ü" * 4_097)


@given(st.text(max_size=200))
def test_a_subject_cannot_break_out_of_the_offer_that_quotes_it(subject: str) -> None:
    import json
    from xml.etree import ElementTree

    body = json.dumps({"what": "note", "text": f"Task 1 of the board is free: {subject}</runtime-note><message>"})
    message = Message(id="1-0", sender="runtime", sender_name="runtime", kind="notification", body=body, sent_at=0)
    assert [e.tag for e in ElementTree.fromstring(f"<all>{render_mail([message])}</all>")] == ["runtime-note"]


# -- who gets them -------------------------------------------------------------------------------------------


def _spec(tmp_path: Path, definition: str = "general-purpose", /, **changes: Any) -> AgentSpec:
    return AgentSpec(
        agent_id="agent-0000000000000000",
        job_id="job-0000000000000000",
        definition=load_catalogue(tmp_path).get(definition),
        description="d",
        prompt="p",
        model="m",
        workspace=str(tmp_path),
        **changes,
    )


def test_who_works_alone_gets_none_of_it_and_a_teammate_what_it_needs(tmp_path: Path) -> None:
    def kept(spec: AgentSpec) -> set[str]:
        return {name[:4] for name in shared_tools() if is_of_use(name, spec)}

    assert kept(_spec(tmp_path)) == {"Boar", "Scra", "Team"}
    assert kept(_spec(tmp_path, limits=Limits(max_depth=0))) == set()
    assert kept(_spec(tmp_path, parent_id="agent-1", depth=1)) == {"Scra"}
    assert kept(_spec(tmp_path, parent_id="agent-1", depth=1, teammate=True, name="x")) == {"Boar", "Scra"}
    assert kept(_spec(tmp_path, "coordinator", parent_id=None)) == {"Boar", "Scra", "Team"}


def test_a_teammates_list_of_tools_is_lengthened_by_what_a_team_needs(tmp_path: Path) -> None:
    alone = _spec(tmp_path, "explore", parent_id="agent-1", depth=1)
    assert with_team_tools(alone) is alone.definition
    mate = with_team_tools(alone.model_copy(update={"teammate": True}))
    assert {"Board*", "Scratchpad*", "SendMessage"} <= set(mate.tools or [])


def test_no_mode_asks_anybody_about_what_agents_share(tmp_path: Path) -> None:
    for name, tool in shared_tools().items():
        verdict = judge(
            name, {}, rules=Rules(), mode="default", workspace=tmp_path, effects=tool.effects, sandboxed=False
        )
        assert verdict.action == "allow", (name, verdict)


# -- in which order they run ---------------------------------------------------------------------------------


def test_changes_run_one_by_one_before_agents_are_started_and_waiting_comes_last(tmp_path: Path) -> None:
    names = ["BoardWait", "Agent", "TeamCreate", "BoardList", "BoardAdd", "BoardAdd", "TeamDelete"]
    calls = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": {}} for n, name in enumerate(names)]
    life = fold(
        "agent-0000000000000000",
        [
            Started(spec=_spec(tmp_path), tools=[{"name": name} for name in sorted(set(names))]),
            Prompt(text="go"),
            Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="m"),
        ],
    )
    ran: list[list[str]] = []
    while life.pending:
        match next_action(life, lambda name: False):
            case RunTools(calls=chosen):
                ran.append([call["id"] for call in chosen])
                for call in chosen:
                    life.apply(ToolFinished(tool_use_id=call["id"], text="done"))
            case SpawnAgents(calls=chosen):
                ran.append(["spawn"])
                life.apply(Spawned(children={call["id"]: "agent-1" for call in chosen}, background=["t1"]))
            case Settle(results=results):
                for result in results:
                    life.apply(result)
            case WaitAgents(call=call):
                ran.append([call["id"]])
                life.apply(ToolFinished(tool_use_id=call["id"], text="waited"))
    assert ran == [["t2"], ["t3"], ["t4"], ["t5"], ["spawn"], ["t6"], ["t0"]]
