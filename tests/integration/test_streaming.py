"""A job as a stream of typed events, for programs and for asyncio.

Tests of swarm/client/aio.py, swarm/client/event_feed.py, swarm/streaming/events.py.
"""

from __future__ import annotations

import asyncio
import traceback

import pytest

from swarm import Settings, Swarm, stream
from swarm.client import aio
from swarm.core.errors import RedisUnavailable
from swarm.streaming.events import STREAM_EVENT, AgentEnded, JobEnded, MessageSent, Prompt, QuestionClosed, Reply
from tests.fleet import Fleet
from tests.waiting import wait_for

TREE = "TREE depth=1 fanout=2 steps=2"


def test_a_stream_has_all_that_the_journals_have_in_order_and_with_labels(at_work: Fleet) -> None:
    job = at_work.submit(TREE, at_work.rehearse())
    told = list(stream(at_work.swarm, job))
    agents = job.agents()
    assert [told[0].type, told[-1].type] == ["job_started", "job_ended"]
    assert {event.label for event in told} == {agent.label for agent in agents}
    for agent in agents:
        entries = at_work.swarm.journal(agent.id)
        replies = [entry for entry in entries if entry.kind == "assistant"]
        ours = [event for event in told if event.agent_id == agent.id]
        assert [event.usage for event in ours if isinstance(event, Reply)] == [entry.usage for entry in replies]
        results = [entry.text for entry in entries if entry.kind == "tool_finished"]
        assert [event.text for event in ours if event.type == "tool_result"] == results
        assert [event.seq for event in ours] == sorted(event.seq for event in ours)
        [ended] = [event for event in ours if isinstance(event, AgentEnded)]
        assert (ended.text, ended.state, ended.cost_usd) == (agent.text, "completed", 0)
    last = told[-1]
    assert isinstance(last, JobEnded)
    assert (last.result, last.agents, last.rehearsed) == (job.view().text, 3, True)


def test_a_line_of_the_stream_is_read_again_as_what_it_was(at_work: Fleet) -> None:
    job = at_work.submit(TREE, at_work.rehearse())
    for event in stream(at_work.swarm, job):
        assert STREAM_EVENT.validate_json(event.model_dump_json()) == event


def test_questions_answers_and_messages_are_told_whole(at_work: Fleet) -> None:
    job = at_work.swarm.submit("Greet me", workspace=at_work.workspace, base_url=at_work.rehearse("ask").url)
    asked = wait_for("it asks", lambda: next(iter(at_work.swarm.questions.open(job.id)), None))
    job.send("root", "in English, please")
    at_work.swarm.answer(asked.id, "English")
    told = list(stream(at_work.swarm, job))
    [question] = [event for event in told if event.type == "question"]
    assert (question.question_id, question.kind, question.options) == (
        asked.id,
        "question",
        ["English", "Deutsch", "中文"],
    )
    [closed] = [event for event in told if isinstance(event, QuestionClosed)]
    assert (closed.state, closed.answer, closed.by) == ("answered", "English", "user")
    [message] = [event for event in told if isinstance(event, MessageSent)]
    assert (message.body, message.to) == ("in English, please", job.view().root_id)
    assert next(event for event in told if isinstance(event, Prompt)).text.endswith("Greet me")


def test_following_yields_events_alone_unless_asked_for_pauses(at_work: Fleet) -> None:
    slow = at_work.rehearse("tree", latency_seconds=1.5)
    job = at_work.submit("TREE depth=0 fanout=0 steps=1", slow)
    assert [event.kind for event in job.follow()][-1] == "job_ended"
    with_pauses = at_work.submit("TREE depth=0 fanout=0 steps=1", slow)
    assert None in list(with_pauses.follow(idle_seconds=0.05))


def test_views_handles_and_errors_are_short(at_work: Fleet) -> None:
    job = at_work.submit(TREE, at_work.rehearse())
    view = job.wait(60)
    assert repr(job) == f"Job('{job.id}')"
    assert repr(at_work.swarm).startswith("Swarm('unix://")
    assert repr(view).startswith(f"JobView(id='{job.id}', state='completed'") and len(repr(view)) < 400
    with Swarm(Settings(redis_url="redis://:secret@127.0.0.1:9/0")) as away:
        assert "secret" not in repr(away)
        with pytest.raises(RedisUnavailable) as failure:
            away.submit("hi", workspace=at_work.workspace)
    told = "".join(traceback.format_exception(failure.value))
    assert told.count("Traceback") == 1 and "secret" not in told


def test_the_asynchronous_client_runs_follows_and_streams_several_jobs_at_once(at_work: Fleet) -> None:
    url = at_work.rehearse().url

    async def run_one(swarm: aio.Swarm) -> tuple[list[str], list[str], str]:
        job = await swarm.submit(TREE, agent="general-purpose", workspace=at_work.workspace, base_url=url)
        kinds = [event.kind async for event in job.follow()]
        types = [event.type async for event in job.stream()]
        return kinds, types, (await job.wait()).text

    async def run_all() -> list[tuple[list[str], list[str], str]]:
        async with aio.Swarm(at_work.settings) as swarm:
            return await asyncio.gather(*(run_one(swarm) for _ in range(3)))

    for kinds, types, text in asyncio.run(run_all()):
        assert (kinds[0], kinds[-1], text) == ("job_started", "job_ended", "DONE 3")
        assert (types[0], types[-1]) == ("job_started", "job_ended")


def test_an_asynchronous_wait_can_be_given_up_and_the_job_goes_on(at_work: Fleet) -> None:
    url = at_work.rehearse("tree", latency_seconds=1.0).url

    async def give_up() -> str:
        async with aio.Swarm(at_work.settings) as swarm:
            job = await swarm.submit(TREE, agent="general-purpose", workspace=at_work.workspace, base_url=url)
            with pytest.raises(TimeoutError):
                await job.wait(timeout_seconds=0.2)
            assert (await job.wait(60)) == (await job.wait(0)), "a job that has ended is not waited for"
            return job.id

    assert at_work.swarm.job(asyncio.run(give_up())).wait(60).state == "completed"
