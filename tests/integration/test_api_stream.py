"""The API's event stream, from servers as people start them: what is told, and that nothing is lost between two of them.

Tests of swarm/cli/daemons.py, swarm/web/stream.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.serving import serving

SCENARIO = """
name: stream
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo one", description: "say one"}}]}
  - when: {last_text: "again"}
    reply: {text: "And once more."}
  - reply: {text: "It is done, all of it."}
"""


def events(url: str, token: str, path: str, last: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The stream's events: id, name, data."""
    headers = {"Authorization": f"Bearer {token}", **({"Last-Event-ID": last} if last else {})}
    with httpx.stream("GET", f"{url}/v1/{path}", headers=headers, timeout=30) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                yield fields["id"], fields["event"], json.loads(fields["data"])
                fields = {}


def test_a_stream_that_breaks_goes_on_at_another_server_and_misses_nothing(at_work: Fleet) -> None:
    token = ApiKeys(at_work.swarm.store.keyspace).create("streamer", SCOPES)
    job = at_work.submit("go", at_work.rehearse(SCENARIO))
    root = job.agents()[0].id
    path = f"jobs/{job.id}/stream?agent={root}&journal=0&words=true"
    entries: list[dict[str, Any]] = []
    last = ""
    with serving(at_work) as url:
        for cursor, event, data in events(url, token, path):
            last = cursor
            entries += data.get("entries", ()) if event == "patch" else ()
            if any(entry["kind"] == "reply" for entry in entries):
                break
    # Nobody listens, and no server runs, while the job ends.
    assert job.wait(30).text == "It is done, all of it."
    with serving(at_work) as url:
        state = ""
        for _, event, data in events(url, token, path, last):
            assert event in ("hello", "patch"), data
            entries += data.get("entries", ())
            state = data.get("job", {}).get("state", state)
            if state == "completed" and entries[-1]["kind"] == "end":
                break
        numbers = [entry["n"] for entry in entries]
        assert numbers == list(range(1, len(at_work.swarm.journal(root)) + 1))
        assert ["call" in entry["parts"][0] for entry in entries if entry["kind"] == "reply"] == [True, False]
        job.send("root", "again")
        for _, _, data in events(url, token, path, last):
            if any("once more" in json.dumps(entry) for entry in data.get("entries", ())):
                break


def test_events_are_read_page_by_page(at_work: Fleet) -> None:
    token = ApiKeys(at_work.swarm.store.keyspace).create("pager", ["read"])
    job = at_work.submit("go", at_work.rehearse(SCENARIO))
    with serving(at_work) as url, httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        kinds: list[str] = []
        after, ended = "0-0", False
        while not ended:
            found = client.get(f"{url}/v1/jobs/{job.id}/events", params={"after": after, "wait_seconds": 20}).json()
            kinds += [event["kind"] for event in found["events"]]
            after, ended = (found["events"][-1]["id"] if found["events"] else after), found["ended"]
        assert kinds[0] == "job_started" and kinds[-1] == "job_ended" and kinds.count("ended") == 1
        refused = client.get(f"{url}/v1/jobs/{job.id}/stream", params={"journal": "x"})
        assert refused.status_code == 400 and "journal" in refused.json()["error"]["message"]
        assert client.get(f"{url}/v1/jobs/job-none/stream").status_code == 404
