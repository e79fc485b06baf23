"""What an agent that is a program does next, whoever dies between two entries of its journal.

Tests of swarm/agent/programs.py, swarm/tools/program.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.agent.decision import CallModel, End, RunTools, Settle, next_action
from swarm.agent.entries import (
    Assistant,
    Entry,
    Exchanged,
    Finished,
    Mail,
    Prompt,
    Resumed,
    Started,
    ToolFinished,
    ToolStarted,
)
from swarm.agent.history import History, fold
from swarm.agent.programs import ProgramModel
from swarm.agent.spec import AgentSpec
from swarm.core.errors import PermanentModelError
from swarm.definitions.catalogue import check_path
from swarm.definitions.model import AgentDefinition
from swarm.models import ModelRequest, Reply
from swarm.tools.program import AGAIN, ONCE


def make_spec(*, restart: bool = False) -> AgentSpec:
    definition = AgentDefinition(
        name="clerk", description="d", prompt="p", command=["python3", "my clerk.py"], restart=restart
    )
    given = {
        "agent_id": "agent-1",
        "job_id": "job-1",
        "description": "d",
        "prompt": "fill it",
        "model": "m",
        "workspace": "/w",
    }
    return AgentSpec(definition=definition, **given)


def ask(history: History, *, tools_allowed: bool = True) -> Reply:
    assert history.spec is not None
    request = ModelRequest(model="m", system="", messages=history.messages, tools_allowed=tools_allowed)
    return ProgramModel(history.spec).complete(request)


def says(reply: Reply) -> Assistant:
    return Assistant(content=reply.content, stop_reason=reply.stop_reason, usage=reply.usage, model=reply.model)


def begin(spec: AgentSpec) -> list[Entry]:
    tool = AGAIN if spec.definition.restart else ONCE
    return [Started(spec=spec, tools=[tool.schema()]), Prompt(text="<environment>…</environment>\n\nfill it")]


def run(entries: list[Entry], text: str, *, is_error: bool = False) -> list[Entry]:
    """The same with one more run of the program."""
    reply = says(ask(fold("agent-1", entries)))
    call = reply.content[0]["id"]
    heard = Exchanged(text="hello", cursor="3-0")
    return [
        *entries,
        reply,
        ToolStarted(tool_use_id=call),
        heard,
        ToolFinished(tool_use_id=call, text=text, is_error=is_error),
    ]


def test_it_is_run_with_its_task_and_its_result_is_the_answer() -> None:
    entries = run(begin(make_spec()), "42")
    [call] = entries[2].content  # type: ignore[union-attr]
    assert call["name"] == "Program"
    assert call["input"] == {"command": "python3 'my clerk.py'", "prompt": "fill it", "earlier": []}
    history = fold("agent-1", entries)
    assert history.cursor == "3-0" and not history.pending
    reply = ask(history)
    assert (reply.content, reply.stop_reason) == ([{"type": "text", "text": "42"}], "end_turn")
    history.apply(says(reply))
    action = next_action(history)
    assert isinstance(action, End) and (action.finished.state, action.finished.text) == ("completed", "42")


def test_what_it_is_told_after_its_end_is_another_run_that_knows_of_the_first() -> None:
    entries = run(begin(make_spec()), "42")
    entries += [says(ask(fold("agent-1", entries))), Finished(state="completed", text="42"), Resumed()]
    entries.append(Mail(text="<message>more</message>", cursor="4-0"))
    [call] = ask(fold("agent-1", entries)).content
    assert call["input"]["prompt"] == "<message>more</message>" and call["input"]["earlier"] == ["42"]
    assert call["id"] != entries[2].content[0]["id"]  # type: ignore[union-attr]


def test_wherever_its_journal_is_cut_the_next_thing_is_the_same() -> None:
    entries = run(begin(make_spec()), "42")
    whole = [type(next_action(fold("agent-1", entries[:cut]))) for cut in range(2, len(entries) + 1)]
    # Begun and not finished: what it did is not known, whether it had read its mail by then or not.
    assert whole == [CallModel, RunTools, Settle, Settle, CallModel]
    again = run(begin(make_spec(restart=True)), "42")
    assert [type(next_action(fold("agent-1", again[:cut]))) for cut in (4, 5)] == [RunTools, RunTools]


def test_its_failure_is_the_agents() -> None:
    history = fold("agent-1", run(begin(make_spec()), "exit code 3", is_error=True))
    with pytest.raises(PermanentModelError, match="exit code 3"):
        ask(history)
    with pytest.raises(PermanentModelError, match="not started"):
        ask(fold("agent-1", begin(make_spec())), tools_allowed=False)


def test_only_a_list_of_words_is_a_program(tmp_path: Path) -> None:
    def read(command: str) -> tuple[list[AgentDefinition], list[str]]:
        path = tmp_path / "a.md"
        path.write_text(f"---\nname: a\ndescription: b\ncommand: {command}\nrestart: true\n---\nWork.")
        found = check_path(path)
        return found.definitions, [problem.message for problem in found.problems]

    [program], _ = read("[python3, a.py, 3]")
    assert (program.command, program.restart, program.instruction_files) == (["python3", "a.py", "3"], True, False)
    assert program.warnings == []
    [note], _ = read("/fix-it now")
    assert note.command == [] and "not a list of words" in note.warnings[0]
    assert read("[]") == ([], ["`command` is a list, not a program with its arguments"])
