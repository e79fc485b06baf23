"""Approvals and their questions step by step, against a real Redis and without workers: who is asked, who answers, what closes them.

Tests of swarm/runtime/approvals.py, swarm/runtime/segment.py, swarm/runtime/toolbox.py,
swarm/runtime/wait.py, swarm/store/questions.py, swarm/tools/edit.py, swarm/tools/questions.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import (
    Assistant,
    Prompt,
    Spawned,
    Started,
    ToolFinished,
)
from swarm.agent.journaled import Condition
from swarm.agent.spec import AgentSpec
from swarm.core.errors import ConfigurationError, QuestionClosed, StaleRequest
from swarm.core.ids import child_agent_id
from swarm.mailbox import Receiver
from swarm.models import Usage
from swarm.runtime.approvals import Approvals
from swarm.runtime.parts import Parts
from swarm.runtime.segment import Waits
from swarm.runtime.toolbox import Toolbox
from swarm.runtime.wait import park
from swarm.store.store import Store
from swarm.store.values import Claim, OutgoingMessage, Signals
from swarm.tools.edit import EDIT, WRITE
from swarm.tools.questions import ASK_USER, EXIT_PLAN_MODE
from tests.fleet import Fleet
from tests.job_world import JobWorld, open_store
from tests.repeating import Repeating
from tests.segments import make_segment


@pytest.fixture
def store(unmanned: Fleet) -> Store:
    return open_store(unmanned)


class Asker:
    """An agent of a job whose person is away; its last reply made one call."""

    def __init__(self, store: Store, unmanned: Fleet, call: str, given: dict[str, Any], **spec: Any) -> None:
        self.world = JobWorld(store, unmanned)
        self.id = child_agent_id(self.world.root, "asker")
        child = self.world.spec.model_copy(
            update={"agent_id": self.id, "parent_id": self.world.root, "depth": 1, "name": "ada", **spec}
        )
        self.world.ids["ada"] = self.id
        self._spawn(store, child)
        claim = store.agents.claim(self.id, "worker", 60)
        assert isinstance(claim, Claim)
        self.segment = segment = make_segment(claim, store)
        self.journal = segment.journal
        reply = Assistant(
            content=[{"type": "tool_use", "id": "call-1", "name": call, "input": given}],
            stop_reason="tool_use",
            usage=Usage(),
            model="model",
        )
        tools = [tool.schema() for tool in (ASK_USER, EXIT_PLAN_MODE, EDIT, WRITE)]
        self.journal.append([Started(spec=child, tools=tools), Prompt(text="go"), reply])
        self.approvals = Approvals(segment, Toolbox(Parts(segment)))

    def _spawn(self, store: Store, child: AgentSpec) -> None:
        entry = Spawned(children={"asker": self.id})
        claim = self.world.claims["root"]
        assert isinstance(store.agents.spawn(claim, self.world.lengths["root"] + 1, entry, [child]), Signals)

    def ask(self) -> str:
        """Ask for approval, and park on the question; answers its id."""
        decision = self.approvals.decide(list(self.journal.history.pending.values()))
        assert decision.question is not None, decision
        asked_id, ask, call_id = decision.question
        answer = park(self.segment, Condition(question=asked_id), tool_use_id=call_id, ask=ask.model_dump())
        assert isinstance(answer, Waits)
        return asked_id

    def refusal(self) -> str:
        """Ask for approval, which refuses the call."""
        decision = self.approvals.decide(list(self.journal.history.pending.values()))
        assert decision.question is None and not decision.run
        [result] = decision.settled
        assert isinstance(result, ToolFinished) and result.is_error
        return result.text


def _planner(store: Store, unmanned: Fleet, plan: str = "1. do it", **spec: Any) -> Asker:
    """A teammate in plan mode that hands its plan in."""
    spec = {"teammate": True, "background": True, "mode": "plan", "after_plan": "acceptEdits", **spec}
    return Asker(store, unmanned, "ExitPlanMode", {"plan": plan}, **spec)


def _verdict(planner: Asker, asked_id: str) -> OutgoingMessage:
    root = planner.world.root
    job = planner.world.job_id
    return OutgoingMessage(
        job=job, sender=root, name="root", kind="plan_response", body="Approved.", reply_to=asked_id, approve=True
    )


def test_a_lead_approves_a_plan_where_no_person_is_there(store: Store, unmanned: Fleet) -> None:
    planner = _planner(store, unmanned)
    asked_id = planner.ask()
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60)
    assert planner.world.state("ada") == "parked"
    store.mail.send(_verdict(planner, asked_id), [Receiver(planner.id, "ada", "parked")])
    question = store.questions.find(asked_id)
    assert question is not None and (question.state, question.answer) == ("answered", "allow")
    assert planner.world.state("ada") == "queued"


def test_a_lead_is_told_when_the_person_was_faster(store: Store, unmanned: Fleet) -> None:
    planner = _planner(store, unmanned)
    asked_id = planner.ask()
    store.questions.answer(asked_id, "deny", by="user")
    with pytest.raises(StaleRequest, match="closed already: answered"):
        store.mail.send(_verdict(planner, asked_id), [Receiver(planner.id, "ada", "queued")])


def test_plan_mode_from_above_cannot_be_asked_away(store: Store, unmanned: Fleet) -> None:
    assert "comes from above" in _planner(store, unmanned, teammate=False, after_plan=None).refusal()


def test_only_the_first_agent_asks_the_person(store: Store, unmanned: Fleet) -> None:
    assert "Only the job's first agent" in Asker(store, unmanned, "AskUserQuestion", {"question": "Which?"}).refusal()


def test_a_plan_file_that_leads_out_of_the_workspace_is_not_read(store: Store, unmanned: Fleet, tmp_path: Path) -> None:
    planner = _planner(store, unmanned, plan="")
    (tmp_path / "secret").write_text("the key")
    plan_file = Path(planner.journal.claim.spec.plan_file)
    plan_file.parent.mkdir(parents=True, exist_ok=True)
    plan_file.symlink_to(tmp_path / "secret")
    assert "link to another file" in planner.refusal()


def test_a_question_whose_time_is_over_is_closed_before_its_agent_looks(store: Store, unmanned: Fleet) -> None:
    planner = _planner(store, unmanned)
    asked_id = planner.ask()
    store.keyspace.client.hset(store.keyspace.key("question", asked_id), "expires", 1)
    store.keyspace.client.zadd(store.keyspace.key("timers"), {planner.id: 1})
    store.leases.rescue(max_deaths=5, outbox_age_seconds=60)
    assert planner.world.state("ada") == "queued"
    store.agents.cancel(planner.id, "enough")
    question = store.questions.find(asked_id)
    assert question is not None and question.state == "expired"
    assert store.keyspace.client.zcard(store.keyspace.key("questions")) == 0


def test_a_person_is_asked_only_about_changes_that_can_be_made(store: Store, unmanned: Fleet, tmp_path: Path) -> None:
    read, unread = tmp_path / "a.txt", tmp_path / "unread.txt"
    for file in (read, unread):
        file.write_text("one\ntwo\nthree\n")

    def decide(call: str, **given: str) -> Asker:
        asker = Asker(store, unmanned, call, given, workspace=str(tmp_path), mode="default")
        asker.segment.history.files_read[str(read)] = read.stat().st_mtime_ns
        return asker

    for refused, told in [
        (decide("Edit", file_path="a.txt", old_string="four", new_string="4"), "does not occur in a.txt"),
        (decide("Edit", file_path="b.txt", old_string="x", new_string="y"), "b.txt does not exist"),
        (decide("Write", file_path="unread.txt", content="x"), "exists and you have not read it"),
    ]:
        assert told in refused.refusal()
    for asking, told in [
        (decide("Edit", file_path="a.txt", old_string="two", new_string="2"), "it changes a.txt from line 2 on"),
        (decide("Write", file_path="b.txt", content="x\ny\n"), "it creates b.txt (2 lines, 4 bytes)"),
    ]:
        permissions = store.jobs.permissions(asking.world.job_id)
        asking.segment.__dict__["_permissions"] = replace(permissions, ask_seconds=60.0)
        question = asking.approvals.decide(list(asking.journal.history.pending.values())).question
        assert question is not None and told in question[1].detail
    assert read.read_text() == "one\ntwo\nthree\n" and not (tmp_path / "b.txt").exists()


def test_an_answer_with_a_mode_that_does_not_exist_is_refused(store: Store, unmanned: Fleet) -> None:
    planner = _planner(store, unmanned)
    asked_id = planner.ask()
    with pytest.raises(ConfigurationError, match="no permission mode"):
        store.questions.answer(asked_id, "allow", mode="root", by="user")
    assert planner.world.state("ada") == "parked"


def test_an_answer_that_is_sent_again_after_a_broken_connection_is_no_other_answer(unmanned: Fleet) -> None:
    store = open_store(unmanned, Repeating)
    planner = _planner(store, unmanned)
    asked_id = planner.ask()
    store.questions.answer(asked_id, "allow", by="user", always=True)
    for words in ({"answer": "deny"}, {"answer": "allow", "reason": "why not"}, {"answer": "allow", "mode": "plan"}):
        with pytest.raises(QuestionClosed):
            store.questions.answer(asked_id, by="user", always=True, **words)
    with pytest.raises(QuestionClosed):
        store.questions.answer(asked_id, "allow", by="user")
    question = store.questions.find(asked_id)
    assert question is not None and question.answer == "allow"
