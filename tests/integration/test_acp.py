"""The fleet in an editor: sessions, words, questions and ends, driven by the client of the protocol's official SDK.

Tests of swarm/api/acp/connection.py, swarm/api/acp/options.py, swarm/api/acp/questions.py, swarm/api/acp/requests.py,
swarm/api/acp/server.py, swarm/api/acp/session.py, swarm/api/acp/thread.py, swarm/api/acp/updates.py,
swarm/api/acp/voice.py, swarm/cli/acp.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.acp_editor import open_editor
from tests.fleet import Fleet

SCENARIO = """
name: editor
rules:
  - when: {turn: 0, prompt: "push it"}
    reply: {text: "I push.", tools: [{name: Bash, input: {command: "echo pushed > pushed"}}]}
  - when: {turn: 0, prompt: "write it"}
    reply: {thinking: "A plan first.", text: "I write.", tools: [
      {name: TodoWrite, input: {todos: [{content: Write, status: in_progress, activeForm: Writing}]}},
      {name: Write, input: {file_path: "made.txt", content: "made\\n"}}]}
  - when: {turn: 0, prompt: "which language"}
    reply: {tools: [{name: AskUserQuestion, input: {question: "Which language?"}}]}
  - when: {last_text: "hello again"}
    reply: {text: "and hello to you"}
  - when: {prompt: "slow"}
    reply: {text: late, latency_seconds: 60}
  - reply: {text: "All done."}
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Workers whose model is the scenario."""
    with closing(Fleet()) as fleet:
        fleet.start_worker(4, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
        yield fleet


def test_a_session_is_a_job_that_writes_asks_and_talks_on(fleet: Fleet) -> None:
    async def sit() -> None:
        async with open_editor(fleet) as editor:
            opened = await editor.agent.new_session(cwd=str(fleet.workspace))
            session = opened.session_id
            assert fleet.swarm.jobs() == [] and session.startswith("job-")
            assert await editor.prompt(session, "write it") == "end_turn"
            assert (fleet.workspace / "made.txt").read_text() == "made\n"
            view = fleet.swarm.job(session).view()
            assert (view.state, view.text, view.title) == ("completed", "All done.", "write it")
            assert editor.text(session) == "I write.All done."
            assert editor.text(session, "agent_thought_chunk") == "A plan first."
            [plan] = editor.of_kind(session, "plan")
            assert [(entry.content, entry.status) for entry in plan.entries] == [("Write", "in_progress")]
            [call] = editor.of_kind(session, "tool_call")
            assert (call.kind, call.content[0].new_text) == ("edit", "made\n")
            assert call.locations[0].path == str(fleet.workspace / "made.txt")
            moves = [update.status for update in editor.of_kind(session, "tool_call_update")]
            assert moves == ["in_progress", "completed"]
            assert "user_message_chunk" not in editor.kinds(session), "the editor has the person's own words"
            assert await editor.prompt(session, "hello again") == "end_turn"
            assert editor.text(session).endswith("and hello to you")
            assert "user_message_chunk" not in editor.kinds(session)

    asyncio.run(sit())


def test_a_permission_is_asked_in_the_editor_and_its_answer_is_recorded(fleet: Fleet) -> None:
    async def sit() -> None:
        async with open_editor(fleet) as editor:
            session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
            await editor.agent.set_config_option(session_id=session, config_id="mode", value="default")
            turn = asyncio.create_task(editor.prompt(session, "push it"))
            await editor.until("it asks", lambda: editor.asked)
            [(asked_in, call, options)] = editor.asked
            begun = editor.of_kind(session, "tool_call")[0]
            assert (asked_in, call.tool_call_id, call.kind) == (session, begun.tool_call_id, "execute")
            kinds = [option.kind for option in options]
            assert kinds[0] == "allow_once" and kinds[-1] == "reject_once"
            editor.choose = lambda options: options[-1].option_id
            assert await turn == "end_turn"
            [question] = fleet.swarm.questions.of_job(session)
            assert (question.state, question.answer, question.by) == ("answered", "deny", "test-editor")
            assert editor.of_kind(session, "tool_call_update")[-1].status == "failed"

    asyncio.run(sit())


def test_a_question_in_words_is_a_form_or_ends_the_turn(fleet: Fleet) -> None:
    async def sit(*, forms: bool) -> None:
        async with open_editor(fleet, forms=forms) as editor:
            session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
            assert await editor.prompt(session, "which language") == "end_turn"
            if not forms:
                assert "Which language?" in editor.text(session) and fleet.swarm.questions.open(session)
                assert await editor.prompt(session, "English") == "end_turn"
            [question] = fleet.swarm.questions.of_job(session)
            assert (question.answer, fleet.swarm.job(session).view().text) == ("English", "All done.")

    asyncio.run(sit(forms=True))
    asyncio.run(sit(forms=False))


def test_a_cancelled_turn_ends_the_job_and_a_lost_editor_does_not(fleet: Fleet) -> None:
    async def sit() -> str:
        async with open_editor(fleet) as editor:
            session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
            turn = asyncio.create_task(editor.prompt(session, "slow"))
            await editor.until("it works", lambda: fleet.swarm.jobs(1)[0].id == session)
            await editor.agent.cancel(session_id=session)
            assert await turn == "cancelled"
            assert fleet.swarm.job(session).view().state == "cancelled"

            left = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
            turn = asyncio.create_task(editor.prompt(left, "slow"))
            await editor.until("it works", lambda: fleet.swarm.jobs(1)[0].id == left)
            editor.process.kill()
            turn.cancel()
        return left

    job = fleet.swarm.job(asyncio.run(sit()))
    assert not job.view().ended
    job.cancel()
