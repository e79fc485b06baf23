"""The fleet in an editor: sessions, words, questions and ends, driven by the client of the protocol's official SDK.

Tests of swarm/api/acp/commands.py, swarm/api/acp/connection.py, swarm/api/acp/options.py,
swarm/api/acp/questions.py, swarm/api/acp/requests.py, swarm/api/acp/server.py, swarm/api/acp/session.py,
swarm/api/acp/thread.py, swarm/api/acp/updates.py, swarm/api/acp/voice.py, swarm/cli/acp.py.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm.api.acp.session import find_latest
from swarm.client import aio
from swarm.core.errors import ConfigurationError
from swarm.local.redis_server import stop_redis
from tests.acp_editor import Editor, open_editor
from tests.acp_lines import LineEditor, open_lines
from tests.acp_session import Seat
from tests.fleet import Fleet
from tests.needs import need
from tests.waiting import wait_for

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
  - when: {turn: 0, prompt: "^split it|\\nsplit it"}
    reply: {text: "I split it.", tools: [
      {name: Agent, input: {description: dig left, prompt: dig left, subagent_type: general-purpose}},
      {name: Agent, input: {description: dig right, prompt: dig right, subagent_type: general-purpose}}]}
  - when: {turn: 0, prompt: "dig (left|right)"}
    reply: {text: "I dig.", tools: [{name: Bash, input: {command: "echo dug >> dug"}}]}
  - when: {turn: 0, prompt: "two steps"}
    reply: {text: "First.", tools: [{name: LS, input: {path: "."}}]}
  - when: {last_text: "hello again"}
    reply: {text: "and hello to you"}
  - when: {turn: 1, prompt: "two steps"}
    reply: {text: late, latency_seconds: 60}
  - when: {prompt: "slow"}
    reply: {text: late, latency_seconds: 60}
  - when: {prompt: "speak"}
    reply: {text: "WORDS"}
  - reply: {text: "All done."}
faults:
  - {when: {prompt: "speak"}, kind: slow, seconds: 3}
""".replace("WORDS", "word " * 300)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """Workers whose model is the scenario."""
    with closing(Fleet()) as fleet:
        fleet.start_worker(4, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
        yield fleet


async def write_and_talk_on(fleet: Fleet, editor: Editor) -> None:
    opened = await editor.agent.new_session(cwd=str(fleet.workspace))
    session = opened.session_id
    assert session.startswith("job-") and not fleet.swarm.store.jobs.exists(session)
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


async def ask_for_permission(fleet: Fleet, editor: Editor) -> None:
    session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
    await editor.agent.set_config_option(session_id=session, config_id="mode", value="default")
    turn = asyncio.create_task(editor.prompt(session, "push it"))
    await editor.until("it asks", lambda: editor.asked)
    asked_in, call, options = editor.asked[-1]
    begun = editor.of_kind(session, "tool_call")[0]
    assert (asked_in, call.tool_call_id, call.kind) == (session, begun.tool_call_id, "execute")
    kinds = [option.kind for option in options]
    assert kinds[0] == "allow_once" and kinds[-1] == "reject_once"
    editor.choose = lambda options: options[-1].option_id
    assert await turn == "end_turn"
    [question] = fleet.swarm.questions.of_job(session)
    assert (question.state, question.answer, question.by) == ("answered", "deny", "test-editor")
    assert editor.of_kind(session, "tool_call_update")[-1].status == "failed"


async def ask_in_words(fleet: Fleet, editor: Editor, *, forms: bool) -> None:
    session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
    assert await editor.prompt(session, "which language") == "end_turn"
    if not forms:
        assert "Which language?" in editor.text(session) and fleet.swarm.questions.open(session)
        assert await editor.prompt(session, "English") == "end_turn"
    [question] = fleet.swarm.questions.of_job(session)
    assert (question.answer, fleet.swarm.job(session).view().text) == ("English", "All done.")


async def hear_words(fleet: Fleet, editor: Editor) -> None:
    session = (await editor.agent.new_session(cwd=str(fleet.workspace))).session_id
    turn = asyncio.create_task(editor.prompt(session, "speak"))
    await editor.until("words", lambda: editor.text(session))
    assert not fleet.swarm.job(session).view().ended, "the words came before the reply's end"
    assert await turn == "end_turn"
    assert editor.text(session).strip() == ("word " * 300).strip()
    assert len(editor.of_kind(session, "agent_message_chunk")) > 2


def test_a_session_is_a_job_that_writes_asks_and_talks_on(fleet: Fleet) -> None:
    async def sit() -> None:
        async with open_editor(fleet) as editor:
            await write_and_talk_on(fleet, editor)
            await ask_for_permission(fleet, editor)
            await ask_in_words(fleet, editor, forms=False)
            await hear_words(fleet, editor)

    asyncio.run(sit())


def test_forms_are_answered_and_a_cancelled_turn_ends_the_job_but_a_lost_editor_does_not(fleet: Fleet) -> None:
    async def sit() -> str:
        async with open_editor(fleet, forms=True) as editor:
            await ask_in_words(fleet, editor, forms=True)
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


def test_children_are_sessions_or_one_thread_and_their_questions_outlive_the_editor(fleet: Fleet) -> None:
    folder = str(fleet.workspace)

    async def sit_nested() -> str:
        async with open_lines(fleet, subagents={}) as editor:
            session: str = (await editor.call("session/new", cwd=folder, mcpServers=[]))["sessionId"]
            await editor.call("session/set_mode", sessionId=session, modeId="default")
            editor.prompt(session, "split it")
            await editor.until("both ask", lambda: len(editor.asked) == 2)
            announced = editor.of_kind("subagent_update", session)
            children = list(dict.fromkeys(update["sessionId"] for _, update in announced))
            assert len(children) == 2 and {asked["params"]["sessionId"] for asked in editor.asked} == {*children}
            for child in children:
                first = next(place for place, (where, _) in enumerate(editor.told) if where == child)
                assert any(update.get("sessionId") == child for _, update in editor.told[:first]), "announced first"
                assert editor.text(child) == "I dig."
                [(_, task)] = editor.of_kind("session_message", child)
                assert (task["senderSessionId"], task["recipientSessionId"]) == (session, child)
                states = [
                    update["state"]["state"]
                    for _, update in announced
                    if update["sessionId"] == child and "state" in update
                ]
                assert states[-1] == "requires_action"
            # One is answered elsewhere.
            left = editor.asked[0]
            fleet.swarm.answer(left["params"]["_meta"]["swarm"]["question"], "allow")
            await editor.until("it is withdrawn", lambda: editor.withdrawn)
            assert editor.withdrawn == [left["id"]]
            child = left["params"]["sessionId"]
            await editor.until(
                "it ends",
                lambda: any(
                    update["sessionId"] == child and update.get("state", {}).get("state") == "idle"
                    for _, update in editor.of_kind("subagent_update", session)
                ),
            )
            editor.process.kill()
            await editor.process.wait()
        return session

    async def sit_flat(session: str) -> None:
        async with open_lines(fleet) as editor:
            listed = (await editor.call("session/list", cwd=folder))["sessions"]
            assert session in [one["sessionId"] for one in listed]
            told = await editor.call("session/load", sessionId=session, cwd=folder, mcpServers=[])
            values = {one["id"]: one["currentValue"] for one in told["configOptions"]}
            assert values["mode"] == "default" and values["agent"] == "build"
            assert {where for where, _ in editor.told} == {session}
            assert editor.text(session, "user_message_chunk") == "split it"
            assert "I split it." in editor.text(session) and editor.text(session).count("I dig.") == 2
            titles = [update["title"] for _, update in editor.of_kind("tool_call")]
            assert sum(title.startswith("[") and "echo dug" in title for title in titles) == 2
            await editor.until("it asks again", lambda: editor.asked)
            [asked] = editor.asked
            calls = [update["toolCallId"] for _, update in editor.of_kind("tool_call")]
            assert asked["params"]["sessionId"] == session and asked["params"]["toolCall"]["toolCallId"] in calls
            editor.reply(asked, "allow_once")
        # The answer counts, although the editor has gone at once.

    session = asyncio.run(sit_nested())
    asyncio.run(sit_flat(session))
    assert fleet.swarm.job(session).wait(60).state == "completed"
    assert (fleet.workspace / "dug").read_text() == "dug\ndug\n"


def test_a_cancelled_session_continues_and_the_work_of_a_copy_comes_home(fleet: Fleet) -> None:
    folder = str(fleet.workspace)
    home = fleet.workspace / "home"
    (home / ".swarm/agents").mkdir(parents=True)
    copier = "---\nname: copier\ndescription: Works on a copy.\nisolation: worktree\n---\nWork."
    (home / ".swarm/agents/copier.md").write_text(copier)
    (home / ".claude/commands").mkdir(parents=True)
    (home / ".claude/commands/tidy.md").write_text("Tidy up.")

    async def sit_first() -> str:
        async with open_lines(fleet) as editor:
            session = (await editor.call("session/new", cwd=folder, mcpServers=[]))["sessionId"]
            turn = editor.prompt(session, "two steps")
            moved = await editor.until("a result", lambda: editor.of_kind("tool_call_update"))
            await editor.until("it is done", lambda: editor.of_kind("tool_call_update")[-1][1]["status"] == "completed")
            editor.send(method="session/cancel", params={"sessionId": session})
            assert (await turn)["result"] == {"stopReason": "cancelled"} and moved
            told = len(editor.told)
            assert (await editor.prompt(session, "hello again"))["result"] == {"stopReason": "end_turn"}
            later = [update for _, update in editor.told[told:] if update["sessionUpdate"] == "agent_message_chunk"]
            assert "".join(update["content"]["text"] for update in later) == "and hello to you"
            await refuse_bad_requests(editor)
        return session

    async def sit_later(session: str) -> None:
        async with open_lines(fleet) as editor:
            await editor.call("session/load", sessionId=session, cwd=folder, mcpServers=[])
            said = editor.text(session)
            assert "First." in said and said.endswith("and hello to you")

            session = (await editor.call("session/new", cwd=str(home), mcpServers=[]))["sessionId"]
            await editor.until("commands", lambda: editor.of_kind("available_commands_update", session))
            [(_, offered)] = editor.of_kind("available_commands_update", session)
            assert "tidy" in [one["name"] for one in offered["availableCommands"]]
            early = await editor.prompt(session, "/apply")
            assert "begins with your first message" in early["error"]["message"]
            wrong = await editor.begin("session/set_config_option", sessionId=session, configId="agent", value="nope")
            assert wrong["error"]["code"] == -32602 and "'nope' is no agent" in wrong["error"]["message"]
            await editor.call("session/set_config_option", sessionId=session, configId="agent", value="copier")
            await editor.prompt(session, "write it")
            assert not (home / "made.txt").exists()
            [call] = [update for _, update in editor.of_kind("tool_call") if update["kind"] == "edit"]
            assert call["locations"] == [{"path": str(home / "made.txt")}], "in the person's folder, not in the copy"
            await editor.prompt(session, "/diff")
            assert "+made" in editor.text(session)
            await editor.prompt(session, "/apply")
            assert (home / "made.txt").read_text() == "made\n" and "1 file changed" in editor.text(session)

    asyncio.run(sit_later(asyncio.run(sit_first())))


def test_a_session_that_two_editors_continue_is_one_job_and_a_failed_continuation_breaks_nothing(fleet: Fleet) -> None:
    async def sit(opened: aio.Swarm) -> None:
        at_once = Seat(fleet, opened, "acp/at-once")
        assert await at_once.prompt("write it", lambda view: view.ended) == "end_turn"
        assert "All done." in at_once.text()

        one, other = (Seat(fleet, opened, "acp/shared") for _ in range(2))
        url = fleet.rehearse(SCENARIO).url
        alone = Seat(fleet, opened, "acp/alone", url)
        turns = [asyncio.create_task(seat.prompt("two steps", lambda view: view.turns > 0)) for seat in (one, alone)]
        for seat in (one, alone):
            await asyncio.to_thread(wait_for, "it has begun", lambda seat=seat: seat.session.begun)
        await other.session.load(replay=True)
        for seat in (one, alone):
            await seat.session.cancel(seat.session.place.id)
        assert await asyncio.gather(*turns) == ["cancelled", "cancelled"]

        assert await other.prompt("hello again") == "end_turn"
        later = other.session.job_id
        assert later == find_latest(fleet.swarm, one.session.job_id) != one.session.job_id
        assert await one.prompt("hello again") == "end_turn"
        assert (one.session.job_id, find_latest(fleet.swarm, later)) == (later, later), "the work goes on in one job"
        assert one.text().count("and hello to you") == 2, "also what the other editor was told"
        assert (one.ready, other.ready) == (1, 1), "workers were seen to before the continuation and before the message"

        for _ in range(2):
            with pytest.raises(ConfigurationError, match="was a rehearsal, whose server has ended"):
                await alone.prompt("hello again")
            assert alone.session.job_id == alone.session.place.id

    async def sit_down() -> None:
        async with aio.Swarm(fleet.settings) as opened, asyncio.timeout(90):
            await sit(opened)

    asyncio.run(sit_down())


async def refuse_bad_requests(editor: LineEditor) -> None:
    folder = str(Path.cwd())
    gone = await editor.begin("session/load", sessionId="job-0123456789abcdef", cwd="/", mcpServers=[])
    assert (gone["error"]["code"], "job-0123456789abcdef" in gone["error"]["message"]) == (-32002, True)
    assert (await editor.begin("session/fork"))["error"]["code"] == -32601
    relative = await editor.begin("session/new", cwd="here", mcpServers=[])
    assert relative["error"]["code"] == -32602 and "'here' is not an absolute path" in relative["error"]["message"]
    session = (await editor.call("session/new", cwd=folder, mcpServers=[]))["sessionId"]
    picture = {"type": "image", "data": "", "mimeType": "image/png"}
    refused = await editor.begin("session/prompt", sessionId=session, prompt=[picture])
    assert "'image'" in refused["error"]["message"]


@pytest.mark.long
def test_an_answer_that_is_given_while_redis_is_away_is_recorded_later(fleet: Fleet) -> None:
    async def sit() -> None:
        async with open_lines(fleet) as editor:
            session = (await editor.call("session/new", cwd=str(fleet.workspace), mcpServers=[]))["sessionId"]
            await editor.call("session/set_mode", sessionId=session, modeId="default")
            turn = editor.prompt(session, "push it")
            await editor.until("it asks", lambda: editor.asked)
            await asyncio.to_thread(stop_redis, fleet.settings)
            editor.reply(editor.asked[0], "reject_once")
            await asyncio.to_thread(fleet.restart_redis)
            assert (await turn)["result"] == {"stopReason": "end_turn"}
            [question] = fleet.swarm.questions.of_job(session)
            assert (question.state, question.answer) == ("answered", "deny")

    asyncio.run(sit())


@pytest.mark.long
def test_a_headless_client_of_npm_works_talks_on_and_answers(fleet: Fleet) -> None:
    programs = Path(os.environ.get("SWARM_TEST_ACPX") or Path(__file__).parents[2] / "build/acpx") / "node_modules/.bin"
    need((programs / "acpx").exists(), "acpx", "npm install --prefix build/acpx acpx@0.19 node@22 was not run")
    path = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(fleet.folder)}

    def run(*words: str) -> str:
        command = [str(programs / "acpx"), "--agent", f"{sys.executable} -m swarm acp", "--approve-all", *words]
        ran = subprocess.run(
            command, cwd=fleet.workspace, env=fleet.environment() | path, capture_output=True, text=True, timeout=100
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "[general-purpose: dig left] I dig." in run("exec", "split it")
    run("sessions", "new")
    run("set", "mode", "default")
    assert "[done] end_turn" in run("push it")
    assert "and hello to you" in run("hello again")
    [question] = fleet.swarm.questions.of_job(fleet.swarm.jobs(1)[0].id)
    assert (question.answer, question.by) == ("allow", "acpx") and (fleet.workspace / "pushed").exists()
