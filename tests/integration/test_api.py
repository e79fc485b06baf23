"""The HTTP API: the application itself, called by a real client, over a real Redis and real workers.

Tests of swarm/api/openapi.py, swarm/client/acts.py, swarm/client/boards.py, swarm/client/reads.py, swarm/store/api_keys.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate

from swarm.api.application import make_app
from swarm.permissions.ceiling import Ceiling
from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.waiting import wait_for

SCENARIO = """
name: api
rules:
  - when: {turn: 0, prompt: "ask me"}
    reply: {tools: [{name: Bash, input: {command: "git push", description: "push"}}]}
  - when: {prompt: "(?P<what>count|once|first)"}
    reply: {text: "done: {what}"}
  - when: {prompt: "wait"}
    reply: {text: late, latency_seconds: 30}
  - reply: {text: over}
"""


class Client:
    """Calls the application as a program would."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.app = make_app(fleet.settings)
        self.keys = ApiKeys(fleet.swarm.store.keyspace)
        self.token = self.keys.create("tester", SCOPES)

    def call(self, method: str, path: str, *, token: str | None = None, **given: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://api", timeout=90) as client:
                bearer = {"Authorization": f"Bearer {self.token if token is None else token}"}
                return await client.request(method, path, headers={**bearer, **given.pop("headers", {})}, **given)

        return asyncio.run(send())

    def start(self, prompt: str, **given: Any) -> httpx.Response:
        headers = given.pop("headers", {})
        body = {"prompt": prompt, "workspace": str(self.fleet.workspace), **given}
        return self.call("POST", "/v1/jobs", json=body, headers=headers)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    fleet = Fleet()
    try:
        client = Client(fleet)
        fleet.start_worker(2, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
        yield client
    finally:
        fleet.close()


def test_a_job_is_started_waited_for_and_read(client: Client) -> None:
    started = client.start("count", title="A count")
    assert started.status_code == 201, started.text
    job = started.json()["job"]
    assert job["title"] == "A count" and job["state"] == "running"
    ended = client.call("GET", f"/v1/jobs/{job['id']}", params={"wait_seconds": 30}).json()
    assert (ended["state"], ended["text"]) == ("completed", "done: count")
    assert ended["turns"] == 1 and ended["usage"]["output_tokens"] > 0
    [agent] = client.call("GET", f"/v1/jobs/{job['id']}/agents").json()["agents"]
    assert agent["id"] == ended["root_id"] and agent["state"] == "completed"
    first = client.call("GET", f"/v1/agents/{agent['id']}/transcript", params={"count": 2}).json()
    assert [entry["entry"]["kind"] for entry in first["entries"]] == ["started", "prompt"] and first["more"]
    rest = client.call("GET", f"/v1/agents/{agent['id']}/transcript", params={"after": 2}).json()
    assert rest["entries"][0]["number"] == 3 and not rest["more"]
    assert job["id"] in [one["id"] for one in client.call("GET", "/v1/jobs?state=completed").json()["jobs"]]


def test_jobs_are_listed_in_parts_that_link_to_the_next(client: Client) -> None:
    for _ in range(3):
        client.start("wait", headers={})
    shown, link = [], "?state=running&limit=2"
    while link:
        answer = client.call("GET", f"/v1/jobs{link}")
        shown += [one["id"] for one in answer.json()["jobs"]]
        link = answer.links["next"]["url"] if answer.json()["next"] else ""
        assert bool(link) == ("link" in answer.headers)
    assert shown == [view.id for view in client.fleet.swarm.jobs(state="running")] and len(shown) >= 3
    for job in shown:
        client.call("POST", f"/v1/jobs/{job}/cancel", json={})
    assert client.call("GET", "/v1/jobs?state=running").json() == {"jobs": [], "next": ""}


def test_an_order_that_is_sent_again_starts_no_second_job(client: Client) -> None:
    key = {"Idempotency-Key": "order 17"}
    first, again = client.start("once", headers=key), client.start("once", headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job"]["id"] == again.json()["job"]["id"]
    other = client.start("something else", headers=key)
    assert other.status_code == 409 and other.json()["error"]["code"] == "conflict"
    # Somebody else's keys are his own.
    mine, client.token = client.token, client.keys.create("other", SCOPES)
    try:
        assert client.start("something else", headers=key).status_code == 201
    finally:
        client.token = mine


def test_a_question_is_found_and_answered_in_the_name_of_the_key(client: Client) -> None:
    job = client.start("ask me to push", ask=["Bash(git push:*)"]).json()["job"]
    wait_for("it asks", lambda: client.call("GET", "/v1/questions", params={"job": job["id"]}).json()["questions"])
    [question] = client.call("GET", "/v1/questions", params={"job": job["id"]}).json()["questions"]
    assert question["kind"] == "permission" and "git push" in question["detail"]
    path = f"/v1/questions/{question['id']}/answer"
    reader = client.keys.create("reader", ["read"])
    refused = client.call("POST", path, json={"answer": "allow"}, token=reader)
    assert refused.status_code == 403 and "answer" in refused.json()["error"]["message"]
    answered = client.call("POST", path, json={"answer": "deny", "reason": "not now"})
    assert (answered.json()["state"], answered.json()["by"]) == ("answered", "tester")
    late = client.call("POST", path, json={"answer": "allow"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "question_closed")
    assert late.json()["error"]["question"]["answer"] == "deny"
    assert client.call("GET", f"/v1/jobs/{job['id']}?wait_seconds=30").json()["state"] == "completed"


def test_a_map_is_started_read_tried_again_and_cancelled(client: Client) -> None:
    order = {"workspace": str(client.fleet.workspace), "title": "three"}
    lines = ["count", {"way": "once"}]
    refused = client.call("POST", "/v1/maps", json={**order, "prompt": "the same", "lines": lines})
    assert refused.status_code == 400 and "is the same for every line" in refused.json()["error"]["message"]
    started = client.call("POST", "/v1/maps", json={**order, "prompt": "{way}", "lines": lines})
    assert started.status_code == 201, started.text
    path, at, texts = f"/v1/maps/{started.json()['map']['id']}", "0", dict[int, str]()
    while not (part := client.call("GET", f"{path}/results", params={"after": at, "wait_seconds": 30}).json())["over"]:
        texts |= {one["line"]: one["text"] for one in part["results"]}
        at = part["next"]
    texts |= {one["line"]: one["text"] for one in part["results"]}
    assert texts == {1: "done: count", 2: "done: once"}
    assert client.call("GET", path).json()["completed"] == 2 and client.call("GET", f"{path}/failures").json() == {
        "failures": []
    }
    assert client.call("POST", f"{path}/retry").json()["retried"] == 0
    elsewhere = client.keys.create("elsewhere", SCOPES, Ceiling(workspaces=(Path("/srv"),)))
    assert client.call("POST", f"{path}/retry", token=elsewhere).status_code == 403
    slow = client.call("POST", "/v1/maps", json={**order, "prompt": "wait {it}", "lines": ["x"]}).json()["map"]["id"]
    assert client.call("POST", f"/v1/maps/{slow}/cancel", json={"reason": "enough"}).json()["state"] == "cancelled"
    assert [one["id"] for one in client.call("GET", "/v1/maps").json()["maps"]] == [slow, started.json()["map"]["id"]]
    assert client.call("GET", "/v1/maps/map-none").status_code == 404


def test_messages_reach_an_agent_and_it_goes_on(client: Client) -> None:
    job = client.start("first").json()["job"]["id"]
    assert client.call("GET", f"/v1/jobs/{job}?wait_seconds=30").json()["text"] == "done: first"
    sent = client.call("POST", f"/v1/jobs/{job}/messages", json={"text": "and now?"})
    assert sent.status_code == 200 and sent.json()["names"] == ["root"]
    root = client.fleet.swarm.job(job).agents()[0].id
    wait_for("it has gone on", lambda: client.call("GET", f"/v1/agents/{root}").json()["turns"] == 2)
    mailbox = client.call("GET", f"/v1/agents/{root}/mailbox").json()
    assert [message["body"] for message in mailbox["messages"]] == ["and now?"]
    assert mailbox["read_up_to"] == mailbox["messages"][0]["id"]
    unknown = client.call("POST", f"/v1/jobs/{job}/messages", json={"text": "hello", "to": "nobody"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (409, "refused")


def test_an_agent_is_told_to_have_its_conversation_summarized(client: Client) -> None:
    job = client.start("wait for long").json()["job"]["id"]
    root = client.fleet.swarm.job(job).agents()[0].id
    noted = client.call("POST", f"/v1/agents/{root}/compact", json={"focus": "the names"})
    assert noted.status_code == 200 and noted.json()["id"] == root
    keyspace = client.fleet.swarm.store.keyspace
    assert "the names" in keyspace.client.hget(keyspace.key("agent", root), "wanted_summary")
    assert client.call("POST", f"/v1/agents/{root}/compact", json={"focus": "x" * 3_000}).status_code == 400
    client.fleet.swarm.cancel(root)
    assert client.call("POST", f"/v1/agents/{root}/compact", json={}).status_code == 409


def test_an_event_is_told_once_in_the_name_of_the_key(client: Client) -> None:
    told = client.call("POST", "/v1/events", json={"key": "build/1", "data": "passed"})
    assert (told.status_code, told.json()["new"], told.json()["by"]) == (201, True, "tester")
    again = client.call("POST", "/v1/events", json={"key": "build/1", "data": "failed"})
    assert (again.status_code, again.json()["new"], again.json()["data"]) == (200, False, "passed")
    refused = client.call("POST", "/v1/events", json={"key": "build 1"})
    assert refused.status_code == 400 and "without spaces" in refused.json()["error"]["message"]
    reader = client.keys.create("event-reader", ["read"])
    assert client.call("POST", "/v1/events", json={"key": "build/2"}, token=reader).status_code == 403


def test_a_job_is_cancelled_and_forgotten(client: Client) -> None:
    job = client.start("wait for long").json()["job"]["id"]
    assert client.call("POST", f"/v1/jobs/{job}/forget", json={}).status_code == 409
    cancelled = client.call("POST", f"/v1/jobs/{job}/cancel", json={"reason": "no longer wanted"})
    assert cancelled.status_code == 200
    ended = client.call("GET", f"/v1/jobs/{job}?wait_seconds=30").json()
    assert (ended["state"], ended["reason"]) == ("cancelled", "no longer wanted")
    canceller = client.keys.create("canceller", ["cancel"])
    assert client.call("POST", f"/v1/jobs/{job}/forget", json={}, token=canceller).status_code == 403
    assert client.call("POST", f"/v1/jobs/{job}/forget", json={}).json() == {"job_id": job}
    assert client.call("GET", f"/v1/jobs/{job}").status_code == 404


def test_however_many_wait_the_others_are_served(client: Client) -> None:
    job = client.start("wait for long").json()["job"]["id"]

    async def waits_and_asks() -> list[httpx.Response]:
        bearer = {"Authorization": f"Bearer {client.token}"}
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=bearer, timeout=90) as http:
            waiting = [asyncio.create_task(http.get(f"/v1/jobs/{job}", params={"wait_seconds": 50})) for _ in range(60)]
            async with asyncio.timeout(30):
                # Each waits in one short blocking read after the other.
                while int(client.fleet.swarm.store.keyspace.client.info("clients")["blocked_clients"]) < 50:
                    await asyncio.sleep(0.05)
            assert (await http.post(f"/v1/jobs/{job}/cancel", json={})).status_code == 200
            return await asyncio.gather(*waiting)

    assert {one.json()["state"] for one in asyncio.run(waits_and_asks())} == {"cancelled"}


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), ("swarm_wrong", 401), ("\ud800".encode("utf-8", "surrogatepass").hex(), 401)]
)
def test_without_a_key_that_was_made_nothing_is_told(client: Client, token: str, status: int) -> None:
    answer = client.call("GET", "/v1/jobs", token=token)
    assert answer.status_code == status and "swarm keys add" in answer.json()["error"]["message"]
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_key_that_is_taken_back_is_refused_at_once(client: Client) -> None:
    token = client.keys.create("brief", ["read"])
    assert client.call("GET", "/v1/jobs", token=token).status_code == 200
    assert client.keys.remove("brief") and not client.keys.remove("brief")
    assert client.call("GET", "/v1/jobs", token=token).status_code == 401
    stored = str(client.fleet.swarm.store.keyspace.client.hgetall("swarm:api_keys"))
    assert client.token not in stored and token not in stored


def test_a_key_may_be_held_to_folders(client: Client) -> None:
    below = client.fleet.workspace / "below"
    below.mkdir()
    (below / "away").symlink_to(client.fleet.folder)
    mine, client.token = client.token, client.keys.create("held", ["submit"], Ceiling(workspaces=(below,)))
    try:
        refused = client.start("x")
        assert refused.status_code == 403 and str(below) in refused.json()["error"]["message"]
        assert client.start("x", workspace=str(below / "away")).status_code == 403
        assert client.start("x", workspace=str(below)).status_code == 201
    finally:
        client.token = mine


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "says"),
    [
        ("GET", "/v1/jobs/job-unknown", {}, 404, "job-unknown"),
        ("GET", "/v1/agents/agent-unknown/transcript", {}, 404, "agent-unknown"),
        ("GET", "/v1/jobs?limit=many", {}, 400, "limit"),
        ("GET", "/v1/jobs?before=job-1", {}, 400, "position"),
        ("GET", "/v1/jobs?state=parked", {}, 400, "state"),
        ("GET", "/v1/jobs?colour=red", {}, 400, "colour"),
        ("POST", "/v1/jobs", {"json": {"prompt": "x"}}, 400, "workspace"),
        ("POST", "/v1/jobs", {"json": {"prompt": "x", "workspace": "relative"}}, 400, "absolute"),
        ("POST", "/v1/jobs", {"json": {"prompt": "", "workspace": "/usr/share"}}, 400, "empty"),
        ("POST", "/v1/jobs", {"json": {"prompt": "x", "workspace": "/usr/share", "promt": "y"}}, 400, "promt"),
        ("POST", "/v1/jobs", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "JSON"),
        ("POST", "/v1/jobs", {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}, 400, "JSON"),
        ("POST", "/v1/jobs", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "application/json"),
        ("POST", "/v1/jobs", {"content": b" " * 5_300_000}, 413, "KiB"),
        ("POST", "/v1/questions/question-unknown/answer", {"json": {"answer": "allow"}}, 404, "question-unknown"),
        ("DELETE", "/v1/jobs", {}, 405, "openapi"),
        ("GET", "/v2/jobs", {}, 404, "openapi"),
    ],
)
def test_bad_input_is_refused_with_what_which_and_what_to_do(
    client: Client, method: str, path: str, given: dict[str, Any], status: int, says: str
) -> None:
    answer = client.call(method, path, **given)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["error"]["message"] and answer.json()["error"]["code"]


def test_its_document_is_valid_and_names_every_path(client: Client) -> None:
    document = client.call("GET", "/v1/openapi.json", token="").json()
    validate(document)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) >= 17
    assert {"prompt"} == set(document["components"]["schemas"]["NewJob"]["required"])
