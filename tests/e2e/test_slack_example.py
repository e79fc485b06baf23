"""The Slack bridge of examples/, end to end: a server that speaks Slack's Web API, signed events, a real API and a real worker.

Tests of examples/slack, swarm/capabilities/triggers/sources.py.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.serving import serving
from tests.trigger_world import sign
from tests.waiting import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "slack"
BRIDGE = ("uvicorn", "bridge:app", "--timeout-graceful-shutdown", "1")
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SCENARIO = r"""
name: slack
rules:
  - when: {last_text: "and then"}
    reply: {text: "Then I rested."}
  - when: {turn: 0, prompt: "push"}
    reply: {tools: [{name: Bash, input: {command: "git push", description: "push"}}]}
  - when: {prompt: "push"}
    reply: {text: "<!channel> Nothing was pushed."}
  - reply: {text: "Mended."}
"""


class Slack:
    """The part of Slack's Web API that the bridge calls, strict about its fields; and a sender of signed deliveries."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        slack = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *about: Any) -> None:
                pass

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["content-length"])))
                known = self.headers["authorization"] == "Bearer xoxb-1"
                told = slack.answer(self.path, given) if known else {"ok": False, "error": "invalid_auth"}
                body = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.api = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(given) - {"channel", "text", "thread_ts", "ts", "blocks"}:
            return {"ok": False, "error": f"invalid_arguments: {unknown}"}
        for block in given.get("blocks", []):
            assert block["type"] in ("section", "actions") and len(block.get("elements", [])) <= 25
        if path == "/chat.postMessage":
            given["ts"] = f"{1_790_000_000 + len(self.messages)}.000100"
            self.messages.append(given)
        elif path == "/chat.update":
            [known] = [one for one in self.messages if one["ts"] == given["ts"]]
            known.update(given)
        else:
            return {"ok": False, "error": "unknown_method"}
        return {"ok": True, "ts": given["ts"]}

    def send(self, url: str, kind: str, body: bytes, form: bool = False, secret: str = SECRET, at: float = 0) -> int:
        when = str(int(at or time.time()))
        headers = {
            "x-slack-request-timestamp": when,
            "x-slack-signature": "v0=" + sign(secret, b"v0:%s:%s" % (when.encode(), body)),
            "content-type": "application/x-www-form-urlencoded" if form else "application/json",
        }
        return httpx.post(f"{url}/slack/{kind}", content=body, headers=headers, timeout=30).status_code

    def tell(self, url: str, one: str, **event: str) -> int:
        event = {"channel": "C1", "user": "U1", **event}
        data = {"type": "event_callback", "team_id": "T1", "event_id": one, "event": event}
        return self.send(url, "events", json.dumps(data).encode())

    def press(self, url: str, one: str, user: str, value: str) -> int:
        action = {"type": "button", "action_id": "answer-1", "value": value}
        data = {"type": "block_actions", "user": {"id": user}, "trigger_id": one, "actions": [action]}
        return self.send(url, "actions", urlencode({"payload": json.dumps(data)}).encode(), form=True)

    def find(self, words: str, thread: str | None) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((one for one in self.messages if words in one["text"] and one.get("thread_ts") == thread), None)

        return wait_for(f"Slack shows {words!r}", look, 60)


@pytest.fixture
def slack() -> Iterator[Slack]:
    with closing(Slack()) as slack:
        yield slack


def test_a_thread_is_a_job_and_buttons_answer_its_questions_over_a_restart(
    fleet: Fleet, slack: Slack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ApiKeys(fleet.swarm.store.keyspace).create("slack", SCOPES)
    (fleet.workspace / ".claude").mkdir()
    (fleet.workspace / ".claude" / "settings.json").write_text('{"permissions": {"ask": ["Bash(git push:*)"]}}')
    fleet.start_worker(1, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
    for name, value in {
        "SLACK_SIGNING_SECRET": SECRET,
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_PEOPLE": "U1,U2",
        "SLACK_API": slack.api,
        "SLACK_THREADS": str(tmp_path / "threads.db"),
    }.items():
        monkeypatch.setenv(name, value)

    @contextmanager
    def bridge(port: int = 0) -> Iterator[str]:
        with serving(fleet, *BRIDGE, cwd=EXAMPLE, port=port) as url:
            yield url

    with serving(fleet) as api:
        for name, value in {"API": api, "KEY": key, "ORDER": json.dumps({"workspace": str(fleet.workspace)})}.items():
            monkeypatch.setenv(f"BRIDGE_{name}", value)
        with bridge() as url:
            hello = json.dumps({"type": "url_verification", "challenge": "x"}).encode()
            assert slack.send(url, "events", hello) == 200
            assert slack.send(url, "events", hello, secret="wrong") == 401
            assert slack.send(url, "events", hello, at=time.time() - 900) == 401
            asked = {"type": "app_mention", "text": "<@B1> push it", "ts": "1.1"}
            for one in ("E1", "E1"):
                assert slack.tell(url, one, **asked) == 200
            slack.tell(url, "E2", **{**asked, "type": "message"})
            slack.tell(url, "E3", **{**asked, "user": "U666", "ts": "6.6"})
            question = slack.find("git push", "1.1")
            deny = question["blocks"][1]["elements"][1]["value"]
            assert deny.endswith(" deny")
            slack.press(url, "P1", "U666", deny.replace("deny", "allow"))
        with bridge(int(url.rpartition(":")[2])) as url:
            slack.press(url, "P2", "U2", deny)
            slack.find("_answered_", "1.1")
            assert slack.find("Nothing was pushed.", "1.1")["text"] == "&lt;!channel&gt; Nothing was pushed."
            slack.tell(url, "E4", type="message", text="and then?", ts="1.2", thread_ts="1.1")
            slack.find("Then I rested.", "1.1")
            form = {"command": "/swarm", "text": "mend it", "user_id": "U2", "channel_id": "C1", "trigger_id": "t.1"}
            assert slack.send(url, "commands", urlencode(form).encode(), form=True) == 200
            begun = slack.find("<@U2>: mend it", None)
            slack.find("Mended.", begun["ts"])
    jobs = fleet.swarm.jobs()
    assert sorted(one.title for one in jobs) == ["mend it (U2)", "push it (U1)"]
    assert {one.state for one in jobs} == {"completed"}
    assert len(slack.messages) == 5, [one["text"] for one in slack.messages]
