"""Summaries for people: made beside the work by a small model, paid by the job, waited for by nobody.

Tests of swarm/capabilities/summaries/step.py.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from swarm import Job, Limits
from swarm.agent.entries import Started
from swarm.capabilities.summaries.step import SummaryStep
from swarm.core.settings import Settings
from swarm.models import RateLimits as Stated
from swarm.models.anthropic import AnthropicModel
from swarm.models.catalogue import resolve_model
from swarm.runtime.parts import Parts
from swarm.store.values import Claim
from tests.fleet import Fleet
from tests.rehearsal import RehearsalServer
from tests.segments import make_segment
from tests.waiting import wait_for

WORK = """
name: watched
rules:
  - {when: {definition: summary, prompt: '<lately>'}, reply: {text: '"Counting the files"', latency_seconds: LATENCY}}
  - {when: {definition: summary, prompt: '<answer>'}, reply: {text: Asked to count; counted., latency_seconds: LATENCY}}
  - {when: {definition: summary}, reply: {text: Count files, latency_seconds: LATENCY}}
  - {when: {turn: 4+}, reply: {text: counted, latency_seconds: 0.3}}
  - {reply: {tools: [{name: LS, input: {}}], latency_seconds: 0.3}}
"""


def submit(fleet: Fleet, server: RehearsalServer, **given: Any) -> Job:
    return fleet.swarm.submit(
        "count it all", agent="general-purpose", workspace=fleet.workspace, base_url=server.url, summaries=True, **given
    )


def test_people_are_told_what_is_done_what_the_job_is_called_and_what_came_of_it(fleet: Fleet) -> None:
    fleet.start_worker(1, SWARM_SUMMARY_SECONDS="0.2")
    server = fleet.rehearse(WORK.replace("LATENCY", "0.0"))
    job = submit(fleet, server, limits=Limits(budget_usd=5))
    wait_for("a line is there", lambda: job.agents()[0].summary == "Counting the files")
    assert job.wait(30).state == "completed"
    wait_for("the digest is there", lambda: job.view().digest == "Asked to count; counted.")
    view, [root] = job.view(), job.agents()
    assert (view.title, root.summary) == ("Count files", "")
    # The job pays for it, and nothing stays set aside.
    assert view.usage.total_tokens > root.usage.total_tokens and view.reckoned_usd > root.reckoned_usd
    assert (view.reserved_tokens, view.reserved_cost) == (0, 0)
    assert {event.fields["sort"] for event in job.follow() if event.kind == "summary"} == {
        "progress",
        "title",
        "digest",
    }


def test_nobody_waits_for_a_summary_and_none_is_made_unasked(fleet: Fleet) -> None:
    fleet.start_worker(1, SWARM_SUMMARY_SECONDS="0.1")
    slow = fleet.rehearse(WORK.replace("LATENCY", "600"))
    job = submit(fleet, slow, limits=Limits(max_tokens=200_000))
    view = job.wait(30)
    assert (view.state, view.title, view.digest) == ("completed", "count it all", "")
    # And the process is free for the next agent.
    quick = fleet.rehearse(WORK.replace("LATENCY", "0.0"))
    given: dict[str, Any] = {"agent": "general-purpose", "workspace": fleet.workspace, "base_url": quick.url}
    other = fleet.swarm.submit("count it all", **given)
    assert other.wait(30).state == "completed"
    assert quick.stats()["requests"] == other.view().turns


def test_of_a_limit_they_take_a_small_share(fleet: Fleet) -> None:
    fleet.start_worker(1, SWARM_SUMMARY_SECONDS="0.1")
    server = fleet.rehearse(WORK.replace("LATENCY", "0.0"))
    job = submit(fleet, server, limits=Limits(max_tokens=8_000))
    assert job.wait(30).ended
    root = job.agents()[0]
    assert job.view().usage.total_tokens - root.usage.total_tokens <= 8_000 * 0.05


def test_one_whose_agent_is_told_to_stop_while_it_waits_gives_back_what_it_set_aside(
    unmanned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    server = unmanned.rehearse(WORK.replace("LATENCY", "0.0"))
    job, store = submit(unmanned, server), unmanned.swarm.store
    claim = store.agents.claim(job.view().root_id, "worker", 60)
    assert isinstance(claim, Claim)
    model = AnthropicModel.rehearsing(Settings(), server.url)
    segment = make_segment(claim, store, model=model)
    small = resolve_model(segment.settings.small_model, default="", parent=None)
    store.rates.apply_limits(model.limit_class(small), Stated(requests=1, requests_left=0))
    segment.stop.requested = True
    segment.stop.event.set()
    SummaryStep(Parts(segment)).opened(Started(spec=segment.spec))
    wait_for("the thread has ended", lambda: not any(one.name == "summary" for one in threading.enumerate()))
    assert not broken and server.stats()["requests"] == 0
    assert store.keyspace.client.hmget(store.keyspace.key("job", job.id), "aside_tokens", "aside_cost") == ["0", "0"]
