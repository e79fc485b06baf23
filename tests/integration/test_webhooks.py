"""People are told of jobs over HTTP: a real receiver, a worker that is killed in the middle of a delivery.

Tests of swarm/capabilities/webhooks/notices.py, swarm/cli/webhooks.py, swarm/capabilities/webhooks/delivery.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import Result
from standardwebhooks import Webhook
from typer.testing import CliRunner

from swarm import Job, Limits, Swarm
from swarm.capabilities.webhooks.notices import OWN, Webhooks
from swarm.cli.app import app
from swarm.core.errors import WebhookRefused
from tests.fleet import Fleet
from tests.waiting import wait_for

FLEET_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
JOB_SECRET = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
SCENARIO = """
name: told
rules:
  - when: {prompt: "ask", turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: "Which colour?", options: [red, blue]}}]}
  - when: {prompt: "ask"}
    reply: {text: asked}
  - when: {prompt: "spend", turn: 0}
    reply: {tools: [{name: LS, input: {}}], usage: {input_tokens: 90000}}
  - when: {prompt: "spend"}
    reply: {text: spent}
  - when: {prompt: "say (?P<what>.*)"}
    reply: {text: "said {what}"}
"""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        site: Receiver = self.server  # type: ignore[assignment]
        secret = FLEET_SECRET if self.path == "/fleet" else JOB_SECRET
        event = Webhook(secret).verify(body, dict(self.headers))
        assert self.headers["webhook-id"] == event["id"]
        site.told.append((self.path, event))
        if site.holding.is_set():
            site.released.wait(30)
        self.send_response({"/moved": 302, "/gone": 410}.get(self.path, 204))
        if self.path == "/moved":
            self.send_header("Location", f"{site.url}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Receiver(ThreadingHTTPServer):
    """It believes nothing that is not signed, and may hold what it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.holding, self.released = threading.Event(), threading.Event()
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.host}"

    def at(self, path: str, kind: str) -> list[dict[str, Any]]:
        """What an address was told of one kind."""
        return [event for where, event in list(self.told) if where == path and event["type"] == f"swarm.{kind}.v1"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, args=(0.01,), daemon=True).start()
        yield receiver
        receiver.released.set()
        receiver.shutdown()


def _start(fleet: Fleet, receiver: Receiver, **env: str) -> Any:
    webhooks = json.dumps({"ops": f"{receiver.url}/fleet"})
    return fleet.start_worker(1, SWARM_WEBHOOKS=webhooks, SWARM_WEBHOOK_SECRET=FLEET_SECRET, **env)


def test_the_end_of_a_job_is_told_though_the_worker_dies_that_tells_it(fleet: Fleet, receiver: Receiver) -> None:
    worker = _start(fleet, receiver)
    receiver.holding.set()
    job = fleet.submit("say it", fleet.rehearse(SCENARIO))
    [first] = wait_for("the receiver was told", lambda: receiver.at("/fleet", "job_ended"))
    worker.kill()
    receiver.holding.clear()
    _start(fleet, receiver)
    key = fleet.swarm.store.keyspace.key("webhooks", "ops")
    wait_for("it was delivered", lambda: not fleet.swarm.store.keyspace.client.exists(key))
    assert [event["id"] for event in receiver.at("/fleet", "job_ended")] == [first["id"]] * 2
    assert first["specversion"] == "1.0" and first["subject"] == f"{job.id}/{job.view().root_id}"
    told = first["data"]
    assert (told["type"], told["job_id"], told["state"]) == ("job_ended", job.id, "completed")
    assert "said it" not in json.dumps(first)
    seqs = [event.seq for event in job.follow() if event.kind == "job_ended"]
    assert first["id"] == f"{job.id}/{seqs[0]}"


def test_a_job_brings_an_address_only_where_workers_allow_it_and_what_it_cannot_be_told_is_said(
    fleet: Fleet, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    swarm = Swarm(fleet.settings.model_copy(update={"webhook_secret": JOB_SECRET}))
    model = fleet.rehearse(SCENARIO)

    def submit(prompt: str, url: str, **order: Any) -> Job:
        return swarm.submit(prompt, workspace=fleet.workspace, base_url=model.url, webhook=url, **order)

    with pytest.raises(WebhookRefused, match="SWARM_JOB_WEBHOOKS"):
        submit("say it", f"{receiver.url}/own")
    assert not swarm.jobs()
    _start(fleet, receiver, SWARM_JOB_WEBHOOKS="public", SWARM_WEB_HOSTS=receiver.host)
    asking = submit("ask", f"{receiver.url}/own", ask_seconds=60)
    [asked] = wait_for("the question was told", lambda: receiver.at("/own", "question"))
    [question] = swarm.questions.open()
    assert (asked["data"]["question_id"], asked["data"]["kind"]) == (question.id, "question")
    swarm.answer(question.id, "blue")
    wait_for("its end was told", lambda: receiver.at("/own", "job_ended"))
    assert (
        wait_for("the fleet's was, too", lambda: receiver.at("/fleet", "job_ended"))[0]["data"]["job_id"] == asking.id
    )

    # Its name is not the one that the operator has named; the other one is sent elsewhere.
    jobs = {submit("say it", f"http://localhost:{receiver.server_port}/own").id: "is this host"}
    jobs |= {submit("say it", f"{receiver.url}/moved").id: "status 302"}
    jobs |= {submit("say it", "http://10.255.255.254/hook").id: "10.255.255.254 is in a private network"}
    gone = submit("say it", f"{receiver.url}/gone")
    submit("spend it", f"{receiver.url}/own", limits=Limits(max_tokens=100_000))
    [budget] = wait_for("the budget was told", lambda: receiver.at("/own", "budget"))
    assert 0.9 <= budget["data"]["share"] < 1, "though there is no room for another call"
    client, key, webhooks = swarm.store.keyspace.client, swarm.store.keyspace.key, Webhooks(swarm.store.keyspace)
    [refused] = wait_for("an address that is gone was given up at once", lambda: _undelivered(gone))
    assert (refused["tries"], refused["why"]) == ("1", "its server answered with status 410")
    assert webhooks.find(OWN, refused["notice"]).state == "lost"

    def tried() -> list[str]:
        found = client.zrange(key("webhooks", OWN), 0, -1)
        return [notice for notice in found if webhooks.find(OWN, notice).why]

    notices = wait_for("all were tried", lambda: len(found := tried()) == 3 and found)
    client.zadd(key("webhooks", OWN), dict.fromkeys(notices, 1))
    assert webhooks.due(OWN, 8, 5, longest_seconds=0) == []
    for job_id, why in jobs.items():
        [given_up] = _undelivered(swarm.job(job_id))
        assert why in given_up["why"] and given_up["webhook"] == OWN
    assert not [where for where, _ in receiver.told if where == "/elsewhere"]

    monkeypatch.setenv("SWARM_REDIS_URL", fleet.url)
    monkeypatch.setenv("SWARM_STATE_DIR", str(fleet.settings.state_folder()))
    listed = {one["name"]: one for one in json.loads(_swarm("webhooks", "--json").stdout)}
    assert (listed.keys(), listed[OWN]["lost"], listed["ops"]["waiting"]) == ({"ops", OWN}, 4, 0)
    assert _swarm("webhooks", "test", "ops").stdout == "ops: delivered\n" and len(receiver.at("/fleet", "test")) == 1
    assert "no worker delivers to 'opps'; known names: " in str(_swarm("webhooks", "test", "opps").exception)
    assert "4 notices to be sent again" in _swarm("webhooks", "resend", OWN).stderr
    wait_for("it was told again, in vain", lambda: len([where for where, _ in receiver.told if where == "/gone"]) == 2)


def _undelivered(job: Job) -> list[dict[str, str]]:
    return [event.fields for event in job.follow() if event.kind == "undelivered"]


def _swarm(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)
