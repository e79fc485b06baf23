"""Triggers over a real Redis, real workers and the HTTP server: each event starts one job, by the rule of its key and within its purse.

Tests of swarm/capabilities/triggers/store.py, swarm/capabilities/triggers/worker.py, swarm/client/triggers.py,
swarm/client/trigger_acts.py, swarm/client/trigger_reads.py, swarm/api/hooks.py, swarm/cli/triggers.py.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from swarm.api.application import make_app
from swarm.capabilities.triggers.model import Trigger, TriggerEvent, firing_key, read_trigger
from swarm.capabilities.triggers.schedules import name_time
from swarm.capabilities.triggers.store import Firing, Owner, Triggers
from swarm.client.operations import Invocation
from swarm.client.trigger_acts import fire_trigger, pause_trigger, replay_event, resume_trigger
from swarm.client.triggers import put_trigger, read_files, start_due, take_event
from swarm.core.errors import BeyondCeiling, ConfigurationError, UnknownTrigger
from swarm.core.ids import job_id_for
from swarm.permissions.ceiling import Ceiling
from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.forge_world import git
from tests.job_world import open_store
from tests.trigger_world import remove_triggers, settled, sign
from tests.waiting import wait_for

SCENARIO = r"""
name: triggers
rules:
  - when: {last_text: 'second'}
    reply: {text: "again"}
  - when: {prompt: 'Review (?P<file>\S+)'}
    reply: {text: "done {file}"}
  - reply: {text: "done", usage: {input_tokens: 1000, output_tokens: 100}}
"""
FLOW = """export const meta = { name: "review", description: "Review files." };
const found = await parallel(args.files.map((file) => () => agent(`Review ${file}`)));
return [...found, args.by, args.gone];
"""
SECRET = "s3cret"


@pytest.fixture
def place(at_work: Fleet) -> Iterator[Fleet]:
    """A fleet at work; its triggers are removed at the end."""
    yield at_work
    remove_triggers(at_work)


@pytest.fixture
def quiet(unmanned: Fleet) -> Iterator[Fleet]:
    """No workers: a test starts what is due by itself, and its jobs stay open."""
    yield unmanned
    remove_triggers(unmanned)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def put(fleet: Fleet, name: str, lines: str = "", prompt: str = "Look.", url: str = "http://127.0.0.1:9") -> Trigger:
    text = f"---\nname: {name}\nbase_url: {url}\nisolation: none\n{lines}\n---\n{prompt}"
    put_trigger(fleet.swarm, read_trigger(text, name), "ann", folder=fleet.workspace)
    return Triggers(fleet.swarm.store.keyspace).get(name).trigger


def send(fleet: Fleet, trigger: Trigger, one: str, data: Any = None) -> str:
    return take_event(fleet.swarm, trigger, TriggerEvent(id=one, type="test", data=data)).state


def firing(fleet: Fleet, name: str, one: str) -> Firing:
    return Triggers(fleet.swarm.store.keyspace).firing(name, one)


def started(fleet: Fleet, name: str, one: str) -> Firing:
    """What became of an event when a worker has looked once."""
    start_due(fleet.swarm)
    return firing(fleet, name, one)


def test_workers_start_one_job_for_an_event_and_for_a_time_and_tell_of_it(place: Fleet) -> None:
    url = place.rehearse(SCENARIO).url
    trigger = put(place, "look", "title: '\"Issue \" + string(event.number)'", url=url)
    put(place, "daily", "schedule: 0 3 * * *", url=url)
    assert [send(place, trigger, "e-1", {"number": 7}) for _ in range(3)] == ["taken", "duplicate", "duplicate"]
    make_due(place, "daily", place.swarm.store.now() - 1)
    found = settled(place, "look", "e-1")
    assert found.state == "started", found
    view = place.swarm.job(found.job).wait(60)
    assert (view.state, view.title, view.text) == ("completed", "Issue 7", "done")
    triggers = Triggers(place.swarm.store.keyspace)
    [time_of_day] = wait_for("its time has come", lambda: triggers.firings("daily"))
    assert place.swarm.job(settled(place, "daily", time_of_day.id).job).wait(60).state == "completed"
    told = triggers.get("look")
    assert (told.events, told.by, told.waiting) == (1, "ann", 0)


def make_due(fleet: Fleet, name: str, when: float) -> None:
    """Let the time that a schedule waits for be this one."""
    keyspace = fleet.swarm.store.keyspace
    keyspace.client.hset(keyspace.key("trigger", name), "next", when)
    keyspace.client.zadd(keyspace.key("triggers", "next"), {name: when})


def test_an_event_is_fired_by_hand_and_replayed_by_the_trigger_as_it_is_now(quiet: Fleet) -> None:
    trigger = put(quiet, "look", "title: event.about")
    call = Invocation(quiet.swarm, "ann")
    send(quiet, trigger, "e-1", {"about": "first"})
    first = started(quiet, "look", "e-1").job
    put(quiet, "look", "title: '\"again \" + event.about'")
    again = replay_event(call, "look", "e-1")
    assert quiet.swarm.job(started(quiet, "look", again.event).job).view().title == "again first"
    pause_trigger(call, "look")
    assert send(quiet, trigger, "e-2") == "paused"
    fired = [fire_trigger(call, "look", {"about": "second"}, event="mine") for _ in range(2)]
    assert [one.state for one in fired] == ["taken", "duplicate"] and fired[0].job == fired[1].job
    assert quiet.swarm.job(started(quiet, "look", "mine").job).view().title == "again second"
    assert len({first, again.job, fired[0].job}) == 3


def test_events_of_one_key_follow_the_rule(quiet: Fleet) -> None:
    """skip, queue and replace, each with a job that is at work."""
    rules = ("skip", "queue", "replace")
    triggers = {rule: put(quiet, rule, f"concurrency: {rule}\nkey: event.about") for rule in rules}
    for rule, trigger in triggers.items():
        send(quiet, trigger, f"{rule}-1", {"about": "a"})
    first = {rule: started(quiet, rule, f"{rule}-1").job for rule in triggers}
    for rule, trigger in triggers.items():
        send(quiet, trigger, f"{rule}-2", {"about": "a"})
        send(quiet, trigger, f"{rule}-3", {"about": "b"})
    other = {rule: started(quiet, rule, f"{rule}-3").job for rule in triggers}
    assert len({*first.values(), *other.values()}) == 6, "another key has a job of its own"
    skipped = firing(quiet, "skip", "skip-2")
    assert (skipped.state, skipped.job) == ("skipped", first["skip"])
    replaced = firing(quiet, "replace", "replace-2")
    assert replaced.state == "started" and quiet.swarm.job(first["replace"]).view().state == "cancelled"
    assert firing(quiet, "queue", "queue-2").state == "waiting"
    quiet.swarm.job(first["queue"]).cancel()
    queued = started(quiet, "queue", "queue-2")
    assert queued.state == "started" and queued.job != first["queue"]


def test_a_later_event_continues_the_job_of_its_key_or_of_its_branch(place: Fleet) -> None:
    url = place.rehearse(SCENARIO).url
    trigger = put(place, "talk", "concurrency: continue\nkey: event.about\nfields: {say: event.say}", url=url)
    send(place, trigger, "t-1", {"about": "7", "say": "first"})
    job = place.swarm.job(started(place, "talk", "t-1").job)
    assert job.wait(60).text == "done"
    send(place, trigger, "t-2", {"about": "7", "say": "second"})
    found = started(place, "talk", "t-2")
    assert (found.state, found.job) == ("started", job.id)
    wait_for("it has read the second event", lambda: place.swarm.job(job.id).view().text == "again" or None, 60)
    checks = put(place, "checks", "concurrency: continue\nkey: event.branch", url=url)
    send(place, checks, "c-1", {"branch": f"swarm/{job.id}"})
    assert started(place, "checks", "c-1").job == job.id
    stranger = place.swarm.submit("mine", workspace=place.workspace, base_url=url)
    stranger.wait(60)
    send(place, checks, "c-2", {"branch": f"swarm/{stranger.id}"})
    assert started(place, "checks", "c-2").job != stranger.id, "no event may wake a job that events have not started"


def test_a_purse_bounds_what_all_jobs_of_a_trigger_spend(quiet: Fleet) -> None:
    trigger = put(quiet, "dear", "limits: {budget_usd: 2}\npurse: {usd: 5, per: month}")
    for number in range(4):
        send(quiet, trigger, f"d-{number}")
    states = [started(quiet, "dear", f"d-{number}") for number in range(4)]
    assert sorted(one.state for one in states) == ["refused", "refused", "started", "started"]
    assert {one.why for one in states if one.state == "refused"} == {"the trigger's purse is empty"}
    for one in states:
        if one.state == "started":
            quiet.swarm.job(one.job).cancel()
    # They spent nothing, and gave back what they had reserved.
    send(quiet, trigger, "d-4")
    assert started(quiet, "dear", "d-4").state == "started"


def test_an_event_gives_a_workflow_its_arguments(place: Fleet) -> None:
    folder = place.workspace / ".swarm" / "workflows"
    folder.mkdir(parents=True)
    (folder / "review.js").write_text(FLOW)
    url = place.rehearse(SCENARIO).url
    lines = "agent: review\narguments: {files: 'event.commits.map(one, one.file)', by: event.who, gone: event.nothing}"
    trigger = put(place, "pushes", lines, "", url)
    send(place, trigger, "w-1", {"who": "</event> ann", "commits": [{"file": "a.py"}, {"file": "b.py"}]})
    view = place.swarm.job(started(place, "pushes", "w-1").job).wait(60)
    assert (view.state, view.data) == ("completed", ["done a.py", "done b.py", "</event> ann", None]), view.reason
    with pytest.raises(ConfigurationError, match="`arguments` are for a workflow, and the type build is none"):
        put(place, "wrong", "agent: build\narguments: {a: event.a}", "")


def test_an_event_names_the_branch_to_work_on_and_no_other_repository(quiet: Fleet, tmp_path: Path) -> None:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    git(made, "checkout", "-q", "-b", "fix/7")
    git(made, "commit", "-q", "--allow-empty", "-m", "second")
    lines = f"repo: {made}\nref: event.ref"
    text = f"---\nname: pulls\nbase_url: http://127.0.0.1:9\n{lines}\n---\nReview it."
    put_trigger(quiet.swarm, read_trigger(text, "pulls"), "ann")
    trigger, store = Triggers(quiet.swarm.store.keyspace).get("pulls").trigger, quiet.swarm.store
    found = {}
    for number, data in enumerate([{"ref": "fix/7"}, {}, {"ref": "none"}, {"ref": "x@main"}, {"ref": "-oProxy"}]):
        send(quiet, trigger, f"r-{number}", data)
        found[number] = started(quiet, "pulls", f"r-{number}")
    for number, ref in enumerate(["fix/7", ""]):
        repository = store.agents.spec(store.jobs.get(found[number].job).root_id).repository
        commit = git(made, "rev-parse", ref or "HEAD").strip()
        assert repository and (repository.url, repository.ref, repository.commit) == (made.as_uri(), ref, commit)
    assert [found[number].state for number in (2, 3, 4)] == ["failed"] * 3
    assert "has no branch, tag or full commit id none" in found[2].why and "cannot name a branch" in found[3].why
    for wrong, told in {
        "ref: event.ref": "`ref` needs `repo`",
        f"ref: event.ref\nrepo: {made}@main": "not both",
    }.items():
        with pytest.raises(ConfigurationError, match=told):
            put_trigger(quiet.swarm, read_trigger(f"---\nname: x\n{wrong}\n---\nx", "x"), "ann", folder=tmp_path)


def test_a_schedule_makes_up_for_missed_times_and_rests_while_it_is_paused(quiet: Fleet) -> None:
    put(quiet, "often", "schedule: every 10s\ncatch-up: all")
    triggers, keyspace = Triggers(quiet.swarm.store.keyspace), quiet.swarm.store.keyspace
    pause_trigger(Invocation(quiet.swarm, "ann"), "often")
    assert triggers.get("often").paused_at and keyspace.client.zscore(keyspace.key("triggers", "next"), "often") is None
    assert resume_trigger(Invocation(quiet.swarm, "ann"), "often").paused_at is None
    # An outage of a minute: nobody looked at the times that came.
    now = keyspace.now()
    make_due(quiet, "often", (int(now) // 10 - 6) * 10)
    [(name, trigger, expected)] = triggers.look(socket.gethostname())[1]
    for _ in range(2):
        triggers.advance(name, trigger, expected, now)
    assert [one.id for one in triggers.firings("often")] == [
        name_time((int(now) // 10 - back) * 10) for back in range(7)
    ]
    start_due(quiet.swarm)
    assert len({firing(quiet, "often", one.id).job for one in triggers.firings("often")}) == 7


@pytest.mark.parametrize("count", [30, pytest.param(1_000, marks=pytest.mark.long)])
def test_schedules_miss_no_time_over_an_outage_and_a_change_of_the_clock(unmanned: Fleet, count: int) -> None:
    """The clock of Berlin goes from 2 to 3 within the two hours that no worker looks; then eight look at once."""
    store = open_store(unmanned)
    triggers = Triggers(store.keyspace)
    begin, now = at("2027-03-28T00:30+00:00"), at("2027-03-28T02:31+00:00")
    rules = ("all", "last", "none")
    for number in range(count):
        given = {
            "schedule": "*/30 * * * *",
            "timezone": "Europe/Berlin",
            "catch_up": rules[number % 3],
            "prompt": "Look.",
        }
        triggers.put(Trigger.model_validate({"name": f"s-{number}", **given}), Owner(name="ann"), "")
        store.keyspace.client.hset(store.keyspace.key("trigger", f"s-{number}"), "next", begin)
        store.keyspace.client.zadd(store.keyspace.key("triggers", "next"), {f"s-{number}": 0})

    def look(_: int) -> None:
        mine = Triggers(store.keyspace)
        for _round in range(2 + count // 100):
            for name, trigger, expected in mine.look("")[1]:
                mine.advance(name, trigger, expected, now)

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(look, range(8)))
    half_hours = ["2027-03-28T00:30:00Z", "2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z", "2027-03-28T02:00:00Z"]
    half_hours.append("2027-03-28T02:30:00Z")
    wanted = {"all": half_hours, "last": half_hours[-1:], "none": half_hours[-1:]}
    for number in range(count):
        assert sorted(one.id for one in triggers.firings(f"s-{number}")) == wanted[rules[number % 3]]
        assert triggers.get(f"s-{number}").next_at == at("2027-03-28T03:00+00:00")


def test_a_trigger_cannot_do_more_than_whoever_put_it(quiet: Fleet) -> None:
    text = "---\nname: mighty\nisolation: none\nmode: bypassPermissions\n---\nDo it."
    bounded = quiet.swarm.within(Ceiling(mode="acceptEdits"))
    with pytest.raises(BeyondCeiling):
        put_trigger(bounded, read_trigger(text, "x"), "bob", folder=quiet.workspace)
    trigger = put(quiet, "mighty", "mode: bypassPermissions")
    with pytest.raises(BeyondCeiling):
        fire_trigger(Invocation(bounded, "bob"), "mighty")
    assert send(quiet, trigger, "m-1") == "taken"
    with pytest.raises(ConfigurationError, match="needs `repo` or `workspace`"):
        put_trigger(quiet.swarm, read_trigger("---\nname: lost\n---\nDo it.", "x"), "ann")
    with pytest.raises(ConfigurationError, match="the trigger lost: there is no option modell; did you mean model"):
        put_trigger(
            quiet.swarm, read_trigger("---\nname: lost\nmodell: x\n---\nDo it.", "x"), "ann", folder=quiet.workspace
        )
    with pytest.raises(ConfigurationError, match="on_end is no option"):
        put_trigger(
            quiet.swarm, read_trigger("---\nname: lost\non-end: x\n---\nDo it.", "x"), "ann", folder=quiet.workspace
        )


def test_a_job_that_cannot_start_is_told_with_its_reason(quiet: Fleet, tmp_path: Path) -> None:
    trigger = put(quiet, "broken")
    agents = quiet.workspace / "gone"
    agents.mkdir()
    lost = trigger.model_copy(update={"name": "lost", "order": {**trigger.order, "workspace": str(agents)}})
    put_trigger(quiet.swarm, lost, "ann", folder=quiet.workspace)
    agents.rmdir()
    send(quiet, lost, "l-1")
    found = started(quiet, "lost", "l-1")
    assert found.state == "failed" and "gone is not a folder" in found.why
    with pytest.raises(UnknownTrigger):
        Triggers(quiet.swarm.store.keyspace).get("nothing")
    (tmp_path / "a.md").write_text("---\nname: a\n---\nx")
    (tmp_path / "b.md").write_text("---\nname: a\n---\nx")
    with pytest.raises(ConfigurationError, match="two files are the trigger 'a'"):
        read_files([tmp_path])


# -- over HTTP -------------------------------------------------------------------------------------------------


class Forge:
    """Sends deliveries as GitHub does."""

    def __init__(self, fleet: Fleet) -> None:
        self.app = make_app(fleet.settings)
        token = ApiKeys(fleet.swarm.store.keyspace).create(f"key-{time.time_ns()}", SCOPES)
        self.key = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=90) as client:
                return await client.request(method, path, **given)

        return asyncio.run(ask())

    def deliver(self, name: str, one: str, data: Any, secret: str = SECRET) -> httpx.Response:
        body = json.dumps(data).encode()
        signed = "sha256=" + sign(secret, body)
        headers = {"x-hub-signature-256": signed, "x-github-event": "issues", "x-github-delivery": one}
        return self.call("POST", f"/hooks/{name}", content=body, headers=headers)


def test_a_signed_delivery_starts_one_job_and_nobody_else_learns_anything(
    quiet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    lines = "webhook: github\nsecret: HOOK_SECRET\nwhen: type == 'issues.labeled'\nper-hour: 3"
    put(quiet, "issues", lines)
    put(quiet, "hand")
    forge, labeled = Forge(quiet), {"action": "labeled", "issue": {"number": 7}}
    first = forge.deliver("issues", "g-1", labeled)
    assert (first.status_code, first.json()["state"]) == (202, "taken")
    again = forge.deliver("issues", "g-1", labeled)
    assert (again.status_code, again.json()["state"], again.json()["job"]) == (200, "duplicate", first.json()["job"])
    assert forge.deliver("issues", "g-2", {"action": "closed"}).json()["state"] == "ignored"
    refused = [forge.deliver("issues", "g-3", labeled, "wrong"), forge.deliver("nobody", "g-3", labeled)]
    refused += [forge.deliver("hand", "g-3", labeled)]
    assert {(one.status_code, one.json()["error"]["message"]) for one in refused} == {
        (404, refused[0].json()["error"]["message"])
    }
    assert forge.deliver("issues", "g-4", {"action": "labeled", "pad": "x" * 300_000}).status_code == 413
    assert [forge.deliver("issues", f"h-{number}", labeled).status_code for number in range(3)] == [202, 202, 429]
    assert started(quiet, "issues", "g-1").job == first.json()["job"]
    forge.call("POST", "/v1/triggers/issues/pause", headers=forge.key, json={})
    assert forge.deliver("issues", "g-5", labeled).status_code == 503
    listed = forge.call("GET", "/v1/triggers/issues/events", headers=forge.key).json()["events"]
    assert {one["id"] for one in listed} == {"g-1", "h-0", "h-1"}
    monkeypatch.delenv("HOOK_SECRET")
    forge.call("POST", "/v1/triggers/issues/resume", headers=forge.key, json={})
    assert forge.deliver("issues", "g-6", labeled).status_code == 500


def test_a_trigger_is_put_shown_and_deleted_over_http(quiet: Fleet) -> None:
    forge = Forge(quiet)
    text = f"---\nname: over-http\nworkspace: {quiet.workspace}\nschedule: 0 3 * * *\n---\nLook."
    made = forge.call("POST", "/v1/triggers", headers=forge.key, json={"text": text}).json()
    assert made["state"] == "new" and made["trigger"]["next_at"] > time.time(), made
    assert forge.call("POST", "/v1/triggers", headers=forge.key, json={"text": text}).json()["state"] == "same"
    bad = text.replace("schedule", "base_url: http://127.0.0.1:1\nschedule")
    assert (
        "only programs on a worker's own host"
        in forge.call("POST", "/v1/triggers", headers=forge.key, json={"text": bad}).text
    )
    names = [one["name"] for one in forge.call("GET", "/v1/triggers", headers=forge.key).json()["triggers"]]
    assert names == ["over-http"]

    def act(path: str, **given: Any) -> httpx.Response:
        return forge.call("POST", f"/v1/triggers/over-http/{path}", headers=forge.key, json=given)

    fired = act("fire", data={"a": 1}, event="e-1").json()
    assert (fired["state"], act("fire", event="e-1").json()["state"]) == ("taken", "duplicate")
    assert "more than 256 KiB" in act("fire", data="x" * 300_000).text and act("fire", dta=1).status_code == 400
    again = act("events/e-1/replay").json()
    assert again["event"].startswith("e-1~") and again["job"] != fired["job"]
    assert act("events/none/replay").status_code == 400
    assert firing(quiet, "over-http", again["event"]).event == TriggerEvent(
        id=again["event"], type="by hand", data={"a": 1}
    )
    assert forge.call("POST", "/v1/triggers/over-http/delete", headers=forge.key, json={}).json() == {
        "deleted": "over-http"
    }
    assert forge.call("GET", "/v1/triggers/over-http", headers=forge.key).status_code == 404


def test_events_that_come_often_in_any_order_start_one_job_each_whoever_dies(
    unmanned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four senders repeat sixty events while three workers die before and after the starts of jobs."""
    chance, numbers = random.Random(7), range(60)
    trigger = put(unmanned, "storm")
    sent = [number for number in numbers for _ in range(chance.randint(1, 3))]
    chance.shuffle(sent)
    deaths = iter([chance.random() < 0.3 for _ in range(200)])
    monkeypatch.setattr("swarm.client.triggers.LEASE_SECONDS", 0.0)

    def dying(act: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            dies = next(deaths, False)
            if dies and not after:
                raise SystemExit
            done = act(*given)
            if dies:
                raise SystemExit
            return done

        return run

    def count_started() -> int:
        return sum(one.state == "started" for one in triggers.firings("storm", 100))

    def work(_: int) -> int:
        died, until = 0, time.monotonic() + 60
        while time.monotonic() < until and count_started() < len(numbers):
            try:
                start_due(unmanned.swarm)
            except SystemExit:
                died += 1
        return died

    triggers = Triggers(unmanned.swarm.store.keyspace)
    monkeypatch.setattr(Triggers, "settle", dying(Triggers.settle, after=False))
    monkeypatch.setattr(Triggers, "take_due", dying(Triggers.take_due, after=True))
    with ThreadPoolExecutor(7) as threads:
        answers = [threads.submit(send, unmanned, trigger, f"e-{number}", {"number": number}) for number in sent]
        died = sum(threads.map(work, range(3)))
    assert [one.result() for one in answers].count("taken") == len(numbers) and died > 10
    found = {one.id: one for one in triggers.firings("storm", 100)}
    jobs = {f"e-{number}": job_id_for(firing_key("storm", f"e-{number}")) for number in numbers}
    assert {one.id: one.job for one in found.values()} == jobs
    assert {job.id for job in unmanned.swarm.jobs(1_000) if job.title == "storm"} == set(jobs.values())
    remove_triggers(unmanned)


def test_a_worker_that_dies_while_it_starts_jobs_starts_none_twice(
    unmanned: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows of a start: before the job, between the job and its record, and after its end."""
    trigger = put(unmanned, "fragile", "limits: {budget_usd: 1}\npurse: {usd: 3}")
    triggers = Triggers(unmanned.swarm.store.keyspace)
    monkeypatch.setattr("swarm.client.triggers.LEASE_SECONDS", 0.0)
    send(unmanned, trigger, "f-1")
    [taken] = triggers.take_due(socket.gethostname(), 5, 0.0)
    assert taken.tries == 1
    settle = Triggers.settle
    monkeypatch.setattr(Triggers, "settle", lambda *_: (_ for _ in ()).throw(SystemExit))
    with pytest.raises(SystemExit):
        start_due(unmanned.swarm)
    job = firing(unmanned, "fragile", "f-1").job
    unmanned.swarm.job(job).cancel()
    monkeypatch.setattr(Triggers, "settle", settle)
    assert start_due(unmanned.swarm) == 1
    found = firing(unmanned, "fragile", "f-1")
    assert (found.state, found.job, found.tries) == ("started", job, 3)
    keyspace = unmanned.swarm.store.keyspace
    [period] = keyspace.client.keys(keyspace.key("trigger", "fragile", "spent", "*"))
    assert keyspace.client.get(period) == "0", "its end gave the reserved money back, once"
    assert keyspace.client.hlen(keyspace.key("triggers", "jobs")) == 0
    triggers.delete("fragile")
