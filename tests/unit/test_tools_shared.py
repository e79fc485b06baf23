"""The tools of board, scratchpad and team: their schemas, their checks, and who gets them.

Tests of mailbox/markup.py, swarm/capabilities/team/board.py, swarm/capabilities/team/board_tools.py,
swarm/capabilities/team/scratchpad.py, swarm/capabilities/team/scratchpad_tools.py,
swarm/capabilities/team/team_tools.py, swarm/definitions/tools.py, swarm/runtime/request_prefix.py,
swarm/tools/schemas.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.agent.decision import RunTools, Settle, SpawnAgents, Wait, next_action
from swarm.agent.entries import Assistant, Prompt, Spawned, Started, ToolFinished
from swarm.agent.history import fold
from swarm.agent.spec import AgentSpec, Limits
from swarm.capabilities.team.board import check_role, check_subject, check_text
from swarm.capabilities.team.scratchpad import MAX_NAME_CHARACTERS, check_page
from swarm.core.errors import BoardRefused, PadRefused, ToolError
from swarm.definitions.catalogue import load_catalogue
from swarm.definitions.tools import all_rows
from swarm.mailbox import Message, render_mail
from swarm.models import Usage
from swarm.permissions.judge import JudgedCall, judge
from swarm.permissions.rules import Rules
from swarm.runtime.request_prefix import is_of_use, with_team_tools
from tests.tool_world import make_world, tool_named

SHARED = [row for row in all_rows() if row.name.startswith(("Board", "Scratchpad", "Team"))]


def test_the_whole_set_is_small_enough_for_every_request() -> None:
    size = sum(len(json.dumps(tool_named(row.name).schema())) for row in SHARED)
    assert size < 8_000, size


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("BoardAdd", {}, "'subject' is missing"),
        ("BoardAdd", {"subject": "s", "blocked_by": [0]}, "less than the minimum"),
        ("BoardClaim", {"task_id": "3"}, "not of type 'integer'"),
        ("BoardUpdate", {"task_id": 1}, "name a change"),
        ("BoardUpdate", {"task_id": 1, "state": "completed"}, "unknown parameter 'state'"),
        ("BoardComplete", {"task_id": 1}, "'result' is missing"),
        ("BoardWait", {"timeout_seconds": 1}, "less than the minimum of 10"),
        ("BoardList", {"state": "done"}, "is not one of"),
        ("ScratchpadWrite", {"page": "a"}, "'content' is missing"),
        ("ScratchpadWrite", {"page": "a", "content": "x", "delete": True}, "has no `content`"),
        ("ScratchpadAppend", {"page": "a", "content": ""}, "non-empty|too short"),
        ("ScratchpadRead", {"page": "a", "offset": 0}, "less than the minimum"),
        ("TeamCreate", {}, "'name' is missing"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_asked_of_redis(
    tmp_path: Path, name: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        make_world(tmp_path).call(name, **given)


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
        return {row.name[:4] for row in SHARED if is_of_use(row, spec, spawns=True, person_there=True)}

    assert kept(_spec(tmp_path)) == {"Boar", "Scra", "Team"}
    assert kept(_spec(tmp_path, limits=Limits(max_depth=0))) == set()
    assert kept(_spec(tmp_path, parent_id="agent-1", depth=1)) == {"Scra"}
    assert kept(_spec(tmp_path, parent_id="agent-1", depth=1, teammate=True, name="x")) == {"Boar", "Scra"}
    assert kept(_spec(tmp_path, "coordinator", parent_id=None)) == {"Boar", "Scra", "Team"}


def test_a_teammates_list_of_tools_is_lengthened_by_what_a_team_needs(tmp_path: Path) -> None:
    alone = _spec(tmp_path, "explore", parent_id="agent-1", depth=1)
    assert with_team_tools(alone) is alone.definition
    mate = with_team_tools(alone.model_copy(update={"teammate": True}))
    assert {"BoardClaim", "BoardWait", "ScratchpadRead", "SendMessage"} <= set(mate.tools or [])


def test_no_mode_asks_anybody_about_what_agents_share(tmp_path: Path) -> None:
    for row in SHARED:
        verdict = judge(JudgedCall(row.name, {}, Rules(), "default", tmp_path, sandboxed=False))
        assert verdict.action == "allow", (row.name, verdict)


# -- in which order they run ---------------------------------------------------------------------------------


def test_changes_run_one_by_one_before_agents_are_started_and_waiting_comes_last(tmp_path: Path) -> None:
    names = ["BoardWait", "Agent", "TeamCreate", "BoardList", "BoardAdd", "BoardAdd", "TeamDelete"]
    calls = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": {}} for n, name in enumerate(names)]
    history = fold(
        "agent-0000000000000000",
        [
            Started(spec=_spec(tmp_path), tools=[{"name": name} for name in sorted(set(names))]),
            Prompt(text="go"),
            Assistant(content=calls, stop_reason="tool_use", usage=Usage(), model="m"),
        ],
    )
    ran: list[list[str]] = []
    while history.pending:
        match next_action(history):
            case RunTools(calls=chosen):
                ran.append([call["id"] for call in chosen])
                for call in chosen:
                    history.apply(ToolFinished(tool_use_id=call["id"], text="done"))
            case SpawnAgents(calls=chosen):
                ran.append(["spawn"])
                history.apply(Spawned(children={call["id"]: "agent-1" for call in chosen}, background=["t1"]))
            case Settle(results=results):
                for result in results:
                    history.apply(result)
            case Wait(call=call):
                ran.append([call["id"]])
                history.apply(ToolFinished(tool_use_id=call["id"], text="waited"))
    assert ran == [["t2"], ["t3"], ["t4"], ["t5"], ["spawn"], ["t6"], ["t0"]]
