"""The page's data: a real Flower in front of a real Redis and real workers, over real HTTP.

Tests of swarm/web/entries.py, swarm/web/handlers.py, swarm/web/operations.py, swarm/web/panels/memory.py, swarm/web/panels/team.py,
swarm/web/panels/costs.py, swarm/web/panels/triggers.py, swarm/web/panels/panel.py, swarm/web/reads.py, swarm/web/transcripts.py.
"""

from __future__ import annotations

import gzip
import json
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from swarm import Job
from swarm.capabilities.memory.pages import Author, Memories
from swarm.capabilities.triggers.model import read_trigger
from swarm.client.triggers import put_trigger
from swarm.definitions.memory_stores import Places
from swarm.local.redis_server import stop_redis
from swarm.web.panels.memory import forget_job
from tests.fleet import Fleet
from tests.flower import Flower, Response, Stream, running_flower
from tests.waiting import wait_for

TALE = """
name: tale
rules:
  - when: {prompt: 'wait for me', turn: 0}
    reply: {tools: [{name: Bash, input: {command: 'touch begun; while [ ! -e go ]; do sleep 0.05; done'}}]}
  - when: {prompt: 'long', turn: 0}
    reply: {tools: [{name: Write, input: {file_path: a.txt, content: "LINES"}}]}
  - when: {prompt: 'steps', turn: 20}
    reply: {text: all steps are done}
  - when: {prompt: 'steps'}
    reply: {tools: [{name: Glob, input: {pattern: '*.none'}}]}
  - when: {last_text: 'hello there'}
    reply: {text: I have read it}
  - when: {prompt: 'speak'}
    reply: {text: 'WORDS'}
  - reply: {text: done}
faults:
  - {kind: slow, seconds: 4, when: {prompt: speak}, times: 1}
""".replace("LINES", "\\n".join(f"line {n}" for n in range(2_000))).replace("WORDS", "word " * 400)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with closing(Fleet()) as fleet:
        asking = fleet.rehearse("ask")
        fleet.start_worker(4, SWARM_BASE_URL=asking.url)
        with running_flower(fleet) as flower:
            yield Site(fleet, flower)


class Site:
    """A fleet at work, and the Flower in front of it."""

    def __init__(self, fleet: Fleet, flower: Flower) -> None:
        self.fleet, self.flower = fleet, flower
        self._tale = fleet.rehearse(TALE)

    def tell(self, prompt: str, **given: Any) -> Job:
        for name in ("begun", "go"):
            (self.fleet.workspace / name).unlink(missing_ok=True)
        return self.fleet.swarm.submit(
            prompt, agent="general-purpose", workspace=self.fleet.workspace, base_url=self._tale.url, **given
        )

    def let_go(self) -> None:
        (self.fleet.workspace / "go").touch()

    def wait_begun(self) -> None:
        wait_for("it waits", (self.fleet.workspace / "begun").exists)

    def ask(self, **given: Any) -> Job:
        return self.fleet.swarm.submit("Greet me", workspace=self.fleet.workspace, ask_seconds=120, **given)


def take(held: dict[str, Any], patch: dict[str, Any]) -> None:
    """Fold a patch into a snapshot, as the contract of the page has it."""
    held["job"] = {**held["job"], **patch.get("job", {})}
    held["questions"] = patch.get("questions", held["questions"])
    rows = {row["id"]: row for row in held["agents"]}
    held["agents"] = list({**rows, **{row["id"]: row for row in patch.get("agents", [])}}.values())
    held["inbox"] += patch.get("inbox", [])


def follow(stream: Stream, held: dict[str, Any]) -> list[dict[str, Any]]:
    """Take patches in until the job has ended; returns them."""
    patches = []
    while held["job"]["state"] == "running":
        told = stream.until("patch")
        take(held, told.data)
        patches.append(told.data)
    return patches


# -- looking -------------------------------------------------------------------------------------------------


def test_the_page_is_a_tab_of_flower_under_a_strict_policy(site: Site) -> None:
    shell = site.flower.get("")
    html = shell.body.decode()
    assert shell.status == 200 and "script-src 'self'" in shell.headers["Content-Security-Policy"]
    assert 'href="/swarm" aria-current="page">Swarm</a>' in html and 'data-base="/swarm"' in html
    assert "<script>" not in html and "onclick" not in html and "style=" not in html.partition("<main")[2]
    about = site.flower.read("about")
    names = ["timeline", "board", "pad", "memory", "servers", "workflow", "triggers", "compare", "cost", "limits"]
    assert [panel["name"] for panel in about["panels"]] == names
    assert (about["user"], about["read_only"]) == ("user", False)


@dataclass
class Watched:
    """A job of a team that was watched from its beginning to its end."""

    job: Job
    held: dict[str, Any]
    patches: list[dict[str, Any]]


@pytest.fixture(scope="module")
def team(site: Site) -> Watched:
    fleet, flower = site.fleet, site.flower
    job = fleet.swarm.submit("go", agent="build", workspace=fleet.workspace, base_url=fleet.rehearse("team").url)
    held = flower.read(f"jobs/{job.id}/snapshot")
    with flower.stream(f"job={job.id}&events={held['events']}") as stream:
        return Watched(job, held, follow(stream, held))


def test_patches_of_the_stream_fold_to_what_the_snapshot_is_at_the_end(site: Site, team: Watched) -> None:
    job, held, patches = team.job, team.held, team.patches
    now = site.flower.read(f"jobs/{job.id}/snapshot")
    for name in ("agents", "questions", "inbox"):
        assert held[name] == now[name], name
    assert {name: value for name, value in now["job"].items() if name != "text"} == {
        name: value for name, value in held["job"].items() if name != "text"
    }
    assert len(now["agents"]) == 5 and now["job"]["state"] == "completed" and now["job"]["text"]
    seqs = [event["seq"] for patch in patches for event in patch.get("events", ())]
    assert seqs == sorted(set(seqs)) and {panel for patch in patches for panel in patch.get("stale", ())} >= {
        "board",
        "pad",
    }


def test_panels_show_the_time_the_board_the_pad_and_the_costs(site: Site, team: Watched) -> None:
    flower, job = site.flower, team.job

    def panel(name: str) -> Any:
        return flower.read(f"jobs/{job.id}/panel/{name}")["data"]

    agents = {agent.id: agent for agent in job.agents()}
    assert panel("servers") == {"servers": []}
    for lane in panel("timeline")["lanes"]:
        spans, agent = lane["spans"], agents.pop(lane["id"])
        assert spans[0][0] == "queued" and {span[0] for span in spans} <= {"queued", "running", "parked"}
        assert all(before[2] == after[1] for before, after in zip(spans, spans[1:], strict=False))
        assert spans[-1][2] == pytest.approx(agent.ended_at, abs=0.01)
    assert not agents
    assert [task["state"] for task in panel("board")["tasks"]] == ["completed"] * 4 and panel("board")["team"] is None
    pages = [page["name"] for page in panel("pad")["pages"]]
    assert pages and panel(f"pad?page={urllib.parse.quote(pages[0])}")["text"]
    cost, view = panel("cost"), job.view()
    reckoned = sum(row["reckoned_usd"] for row in cost["by_agent"])
    assert cost["total"]["reckoned_usd"] == view.reckoned_usd == pytest.approx(reckoned) != 0
    assert cost["total"]["cost_usd"] == view.cost_usd == 0, "it is a rehearsal"
    root = next(row for row in cost["by_agent"] if row["id"] == view.root_id)
    assert root["reckoned_usd"] + root["below_reckoned_usd"] == pytest.approx(view.reckoned_usd)
    for name in ("nothing", "pad?page=none"):
        assert flower.get(f"/api/jobs/{job.id}/panel/{name}").status in (404, 409)


def test_the_panel_of_triggers_shows_their_events_and_has_their_acts(site: Site) -> None:
    text = "---\nname: seen\nschedule: 0 3 * * *\ntimezone: Europe/Berlin\npurse: {usd: 5, per: day}\nlimits: {budget_usd: 1}\n---\nLook."
    put_trigger(site.fleet.swarm, read_trigger(text, "seen"), "ann", folder=site.fleet.workspace)

    def act(name: str, **body: Any) -> Response:
        return site.flower.post(f"/api/panel/triggers/{name}", body)

    fired = act("fire", trigger="seen").json()["data"]
    assert act("pause", trigger="seen").status == 200
    shown = site.flower.read("panel/triggers?trigger=seen")["data"]
    [one] = shown["triggers"]
    assert (one["starts"], one["by"], one["bounds"]) == ("0 3 * * * Europe/Berlin", "ann", "$5.00 a day")
    assert one["paused_at"] and one["text"].endswith("Look.")
    assert [(each["id"], each["job"]) for each in shown["events"]] == [(fired["event"], fired["job"])]
    assert act("replay", trigger="seen", event=fired["event"]).json()["data"]["job"] != fired["job"]
    bad = [act("fire"), act("fire", trigger=7), act("paint", trigger="seen"), act("fire", trigger="none")]
    assert [one.status for one in bad] == [400, 400, 404, 404] and site.flower.get("/api/panel/board").status == 404
    assert act("delete", trigger="seen").status == 200 and not site.flower.read("panel/triggers")["data"]["triggers"]


def test_the_panel_of_memory_shows_the_project_s_pages_and_takes_the_job_s_back(site: Site) -> None:
    job = site.tell("be done")
    job.wait(60)
    store = site.fleet.swarm.store
    places = Places.model_validate_json(store.keyspace.client.hget(store.keyspace.key("job", job.id), "memory"))
    memories, memory_store = Memories(store.keyspace), places.memory_store("team", "")
    memories.change(memory_store, "create", "a.md", Author(), text="# Known\n")
    memories.change(memory_store, "insert", "a.md", Author("scribe", job=job.id), line=1, text="from the job")
    (shown,) = site.flower.read(f"jobs/{job.id}/panel/memory")["data"]["memory_stores"]
    assert [(page["name"], page["title"], page["job"]) for page in shown["pages"]] == [("a.md", "Known", job.id)]
    page = site.flower.read(f"jobs/{job.id}/panel/memory?memory_store={urllib.parse.quote(memory_store.id)}&page=a.md")[
        "data"
    ]
    assert page["text"] == "# Known\nfrom the job\n" and [each["op"] for each in page["versions"]] == [
        "create",
        "insert",
    ]
    assert site.flower.get(f"/api/jobs/{job.id}/panel/memory?page=none").status in (404, 409)
    forget_job(site.fleet.swarm, job.id)
    assert memories.read(memory_store, "a.md")[1] == "# Known\n"  # type: ignore[index]


def test_a_transcript_is_read_page_by_page_with_its_turns_and_whole_where_it_is_cut(site: Site) -> None:
    job = site.tell("take 20 steps")
    root = job.view().root_id
    job.wait(60)
    whole = site.flower.read(f"agents/{root}/journal?after=0&count=500")
    assert [entry["n"] for entry in whole["entries"]] == list(range(1, whole["length"] + 1))
    assert [entry["turn"] for entry in whole["entries"] if entry["kind"] == "reply"] == list(range(1, 22))
    assert [part["title"] for part in whole["entries"][0]["parts"]] == ["tools", "system prompt"]
    last = site.flower.read(f"agents/{root}/journal?count=10")
    assert last["entries"] == whole["entries"][-10:]
    before = site.flower.read(f"agents/{root}/journal?before={last['first']}&turns={last['turns_before']}&count=7")
    assert before["entries"] == whole["entries"][-17:-10]
    after = site.flower.read(f"agents/{root}/journal?after={before['last']}&count=500")
    assert after["entries"] == last["entries"]


def test_long_texts_are_cut_and_edits_are_differences(site: Site) -> None:
    job = site.tell("something long")
    root = job.view().root_id
    job.wait(60)
    [call] = [
        entry
        for entry in site.flower.read(f"agents/{root}/journal")["entries"]
        if "parts.0.input.content" in entry.get("cut", ())
    ]
    block = call["parts"][0]
    assert len(block["input"]["content"]) == 4_000 < call["cut"]["parts.0.input.content"]
    assert block["diff"][:2] == [["+", "line 0"], ["+", "line 1"]] and block["diff"][-1] == ["@", "… 1600 more lines"]
    full = site.flower.read(f"agents/{root}/entry/{call['n']}")["entry"]
    assert full["parts"][0]["input"]["content"].endswith("line 1999") and "cut" not in full
    assert site.flower.get(f"/api/agents/{root}/entry/999").code == "unknown"


def test_answers_are_zipped_for_those_who_take_it(site: Site) -> None:
    plain = site.flower.get("/api/start")
    zipped = site.flower.get("/api/start", **{"Accept-Encoding": "gzip"})
    assert (plain.headers["Content-Encoding"], zipped.headers["Content-Encoding"]) == (None, "gzip")
    assert json.loads(gzip.decompress(zipped.body))["agents"] == plain.json()["agents"]


# -- the stream ----------------------------------------------------------------------------------------------


def test_a_tab_that_comes_back_goes_on_where_it_was_and_misses_nothing(site: Site) -> None:
    job = site.tell("take 20 steps")
    root = job.view().root_id
    numbers: list[int] = []
    last: str | None = None
    while not numbers or site.flower.read(f"agents/{root}")["length"] > len(numbers) or not job.view().ended:
        query = f"job={job.id}&agent={root}" + ("" if last else "&journal=0&events=0-0&mail=0-0")
        with site.flower.stream(query, **{"Last-Event-ID": last}) as stream:
            told = stream.until("patch")
            numbers += [entry["n"] for entry in told.data.get("entries", ())]
            last = told.id
    assert numbers == list(range(1, len(numbers) + 1))


def test_words_come_as_they_are_generated_while_somebody_looks_and_only_then(site: Site) -> None:
    job = site.tell("speak")
    root = job.view().root_id
    store = site.fleet.swarm.store
    said = ""
    with site.flower.stream(f"job={job.id}&agent={root}&journal=0&words=1") as stream:
        while not job.view().ended or not said:
            for piece in stream.until("patch").data.get("words", ()):
                assert (piece["type"], piece["block"], piece["from"]) == ("text", 0, len(said))
                said += piece["text"]
            if said:
                break
        assert not job.view().ended, "the words came before the reply's end"
    assert ("word " * 400).startswith(said)
    job.wait(60)
    unseen = site.tell("take 20 steps")
    unseen.wait(60)
    assert not store.keyspace.client.exists(store.keyspace.key("live", unseen.view().root_id))


def test_the_rows_of_all_jobs_come_as_they_change(site: Site) -> None:
    jobs = site.flower.read("jobs")
    with site.flower.stream(f"jobs=1&feed={jobs['feed']}") as stream:
        job = site.tell("take 20 steps")
        states: list[str] = []
        while "completed" not in states:
            states += [row["state"] for row in stream.until("patch", "jobs").data["jobs"] if row["id"] == job.id]
    assert states[0] == "running"
    [row] = [row for row in site.flower.read("jobs")["jobs"] if row["id"] == job.id]
    assert (row["group"], row["agents"], row["turns"]) == ("ended", 1, 21)
    newer = site.tell("be quick")
    newest = site.flower.read("jobs?count=1")
    older = site.flower.read(f"jobs?count=1&before={newest['last']}")
    assert [[row["id"] for row in page["jobs"]] for page in (newest, older)] == [[newer.id], [job.id]]
    assert site.flower.read("jobs?count=200")["last"] is None
    assert site.flower.read("jobs?count=1&before=1.5:job-gone")["jobs"] == []


def test_what_was_trimmed_or_has_expired_is_said(site: Site) -> None:
    job = site.tell("take 20 steps")
    job.wait(60)
    store, root = site.fleet.swarm.store, job.view().root_id
    cursor = store.keyspace.client.xrange(store.keyspace.key("events", job.id), count=1)[0][0]
    store.keyspace.client.xtrim(store.keyspace.key("events", job.id), maxlen=3, approximate=False)
    with site.flower.stream(f"job={job.id}&agent={root}&events={cursor}&journal=9999") as stream:
        assert stream.until("reset").data["what"] == ["job", "agent"]
    with site.flower.stream(f"job=job-none&agent={root}") as stream:
        assert stream.until("gone").data["what"] == "job"


def test_a_redis_that_restarts_is_told_of_and_nothing_is_lost() -> None:
    with closing(Fleet()) as fleet:
        server = fleet.rehearse(TALE)
        fleet.start_worker(2)
        with running_flower(fleet) as flower:
            site = Site(fleet, flower)
            job = fleet.swarm.submit(
                "wait for me", agent="general-purpose", workspace=fleet.workspace, base_url=server.url
            )
            site.wait_begun()
            held = flower.read(f"jobs/{job.id}/snapshot")
            root = held["job"]["root_id"]
            numbers: list[int] = []
            with flower.stream(f"job={job.id}&agent={root}&events={held['events']}&journal=0") as stream:
                numbers += [entry["n"] for entry in stream.until("patch", "entries").data["entries"]]
                stop_redis(fleet.settings)
                assert stream.until("away").data["since"] > 0
                assert flower.get("/api/jobs").code == "redis_away"
                fleet.restart_redis()
                stream.until("back")
                site.let_go()
                while held["job"]["state"] == "running" or len(numbers) < flower.read(f"agents/{root}")["length"]:
                    patch = stream.until("patch").data
                    numbers += [entry["n"] for entry in patch.get("entries", ())]
                    take(held, patch)
            assert numbers == list(range(1, flower.read(f"agents/{root}")["length"] + 1))


def test_so_many_tabs_and_no_more(site: Site) -> None:
    # Flower may not have noticed yet that those of other tests are closed.
    streams = [wait_for("a place is free", lambda: _opened(site.flower)) for _ in range(12)]
    try:
        for stream in streams:
            stream.until("hello")
        refused = site.flower.get("/api/stream", query="?jobs=1")
        assert (refused.status, refused.code) == (429, "too_many_streams")
        assert refused.json()["error"]["retry_after"] > 0
    finally:
        for stream in streams:
            stream.__exit__()
    wait_for("a place is free", lambda: _opened(site.flower)).__exit__()


def _opened(flower: Flower) -> Stream | None:
    stream = flower.stream("jobs=1")
    if stream.found.status == 200:
        return stream
    stream.__exit__()
    return None


# -- acting --------------------------------------------------------------------------------------------------


def test_a_job_is_started_asks_and_is_answered(site: Site) -> None:
    flower = site.flower
    form = flower.read("start?workspace=" + urllib.parse.quote(str(site.fleet.workspace)))
    assert "build" in [agent["name"] for agent in form["agents"]] and form["default_agent"] == "build"
    body = {"prompt": "Greet me", "workspace": str(site.fleet.workspace), "mode": "plan", "limits": {"budget_usd": 1.5}}
    job_id = flower.act("jobs", body)["job"]["id"]
    held = flower.read(f"jobs/{job_id}/snapshot")
    assert held["job"]["budget_usd"] == 1.5 and held["job"]["limits"]["budget_usd"] == 1.5
    with flower.stream(f"job={job_id}&events={held['events']}") as stream:

        def question() -> Any:
            while not held["questions"]:
                take(held, stream.until("patch").data)
            return held["questions"].pop()

        plan = question()
        assert plan["kind"] == "plan" and "greeting" in plan["detail"]
        done = flower.act(f"questions/{plan['id']}/answer", {"answer": "allow", "mode": "default"})
        assert (done["state"], done["by"], done["mode"]) == ("answered", "user", "default")
        words = question()
        assert words["options"] == ["English", "Deutsch", "中文"]
        flower.act(f"questions/{words['id']}/answer", {"answer": "中文"})
        leave = question()
        assert leave["kind"] == "permission" and leave["input"]["content"] == "Hello, in 中文!\n" and leave["always"]
        late = flower.post(f"/api/questions/{words['id']}/answer", {"answer": "English"})
        assert (late.status, late.code) == (409, "question_closed")
        assert late.json()["error"]["question"]["answer"] == "中文"
        assert [row["group"] for row in flower.read("jobs")["jobs"] if row["id"] == job_id] == ["needs_you"]
        flower.act(f"questions/{leave['id']}/answer", {"answer": "deny", "reason": "not now"})
        follow(stream, held)
    assert held["job"]["state"] == "completed" and not (site.fleet.workspace / "greeting.txt").exists()


def test_a_message_is_sent_and_then_read_in_a_turn(site: Site) -> None:
    job = site.tell("wait for me")
    root = job.view().root_id
    site.wait_begun()
    events = site.flower.read(f"jobs/{job.id}/snapshot")["events"]
    with site.flower.stream(f"job={job.id}&events={events}&agent={root}&mail=0-0") as stream:
        sent = site.flower.act(f"jobs/{job.id}/messages", {"to": "root", "text": "hello there"})
        message = sent["receivers"][root]
        assert sent["names"] == ["root"]
        [waiting] = site.flower.read(f"agents/{root}/mail")["messages"]
        assert (waiting["id"], waiting["read_in_turn"]) == (message, None)
        assert stream.until("patch", "mail").data["mail"][0]["body"] == "hello there"
        site.let_go()
        while True:
            told = [event for event in stream.until("patch", "events").data["events"] if event["kind"] == "read"]
            if told:
                break
    assert (told[0]["agent_id"], told[0]["fields"]["up_to"], told[0]["fields"]["turn"]) == (root, message, "2")
    job.wait(60)
    [read] = site.flower.read(f"agents/{root}/mail")["messages"]
    assert read["read_in_turn"] == 2
    entry = site.flower.read(f"agents/{root}/entry/{read['read_at_entry']}")["entry"]
    assert entry["kind"] == "mail" and entry["parts"][0]["text"].strip() == "hello there"
    assert job.view().text == "I have read it"


def test_a_cancel_says_how_many_it_ends(site: Site) -> None:
    job = site.tell("wait for me")
    site.wait_begun()
    assert site.flower.act(f"agents/{job.view().root_id}/cancel", {})["ended"] == 1
    wait_for("it is over", lambda: job.view().ended)
    assert (job.view().state, job.view().reason) == ("cancelled", "cancelled by user")
    assert site.flower.act(f"agents/{job.view().root_id}/cancel", {})["ended"] == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "field"),
    [
        ("jobs", {"workspace": "/"}, 400, "bad_request", "prompt"),
        ("jobs", {"prompt": "x", "workspace": "/", "secret": 1}, 400, "bad_request", "secret"),
        ("jobs", {"prompt": "x", "workspace": "/no/such/folder"}, 400, "refused", None),
        (
            "jobs",
            {"prompt": "x", "workspace": "/", "limits": {"max_depth": -1}},
            400,
            "bad_request",
            "limits.max_depth",
        ),
        ("jobs", b"{", 400, "bad_request", None),
        ("jobs", [1], 400, "bad_request", None),
        ("jobs/job-none/messages", {"to": "root", "text": "x"}, 404, "unknown", None),
        ("jobs/job-none/messages/read", {"up_to": "x"}, 404, "unknown", None),
        ("agents/agent-none/cancel", {}, 404, "unknown", None),
        ("questions/question-none/answer", {"answer": "allow"}, 404, "unknown", None),
        ("jobs/job-none/panel/board/paint", {}, 404, "unknown", None),
    ],
)
def test_bad_input_is_refused_with_words_and_its_field(
    site: Site, path: str, body: Any, status: int, code: str, field: str | None
) -> None:
    found = site.flower.post(f"/api/{path}", body)
    error = found.json()["error"]
    assert (found.status, error["code"], error.get("field")) == (status, code, field) and error["message"]


def test_a_message_that_cannot_be_delivered_says_why(site: Site) -> None:
    job = site.tell("be quick")
    job.wait(60)
    refused = site.flower.post(f"/api/jobs/{job.id}/messages", {"to": "nobody", "text": "x"})
    assert (refused.status, refused.code) == (409, "refused") and "nobody" in refused.json()["error"]["message"]
    assert not site.fleet.swarm.store.questions.of_job(job.id)
