"""The process dies around hooks of each kind: none runs twice for one event, and their answers, or their loss, hold.

Tests of swarm/capabilities/hooks/step.py.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swarm.agent.entries import Hooked
from tests.chaos.crashing_worker import Order
from tests.chaos.test_crash_windows import Line

JUDGE = """
  - when: {prompt: JUDGE}
    reply: {text: '{"ok": true}'}
"""
WORK = f"""
name: work
rules:{JUDGE}
  - when: {{turn: 0}}
    reply: {{tools: [{{name: Bash, input: {{command: "echo effect >>effect"}}}}]}}
  - reply: {{text: done}}
"""
TALK = f"name: talk\nrules:{JUDGE}  - reply: {{text: done}}\n"


class _Site(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append(told["event_id"])  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.fleet.close()


@pytest.fixture
def asked(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ids of events that the address was told of; hooks of all kinds are on all events of a short life."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        site.told = []  # type: ignore[attr-defined]
        threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True).start()
        record = "import json, sys; print(json.load(sys.stdin)['event_id'], file=open('told', 'a'))"
        all_kinds = [
            {"type": "command", "command": "python3", "args": ["-c", record]},
            {"type": "http", "url": f"http://127.0.0.1:{site.server_address[1]}/"},
            {"type": "prompt", "prompt": "JUDGE $ARGUMENTS"},
        ]
        (tmp_path / ".claude").mkdir()
        table = {event: [{"hooks": all_kinds}] for event in ("PreToolUse", "PostToolUse", "Stop")}
        (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": table}))
        for name in ("told", "effect"):
            (line.fleet.workspace / name).write_text("")
        yield site.told  # type: ignore[attr-defined]
        site.shutdown()


WINDOWS = [
    ("before they are noted", WORK, Order("append", "before", kind="hooks_begun"), 0),
    ("they are noted, and not run", WORK, Order("append", "after", kind="hooks_begun"), 1),
    ("they have run, unwritten", WORK, Order("append", "before", kind="hooked"), 1),
    ("what they said is written", WORK, Order("append", "after", kind="hooked"), 0),
    ("the call has run, unwritten", WORK, Order("append", "before", kind="tool_finished"), 0),
    ("at the end they have run, unwritten", TALK, Order("append", "before", kind="hooked"), 1),
    ("at the end, before it is written", TALK, Order("finish", "before"), 0),
]


@pytest.mark.parametrize(("name", "script", "order", "lost"), WINDOWS, ids=[window[0] for window in WINDOWS])
def test_no_hook_runs_twice_for_one_event(
    line: Line, asked: list[str], name: str, script: str, order: Order, lost: int
) -> None:
    line.man(SWARM_USER_HOOKS="host")
    [done] = line.order(order)
    server = line.fleet.rehearse(script)
    job = line.fleet.submit("go", server)
    line.see_through(job)
    assert done.exists(), "it died there"
    entries = list(line.fleet.swarm.journal(job.view().root_id))
    heard = [entry for entry in entries if isinstance(entry, Hooked)]
    interrupted = [one for one in heard if any(run.outcome == "interrupted" for run in one.runs)]
    assert len(interrupted) == lost and len({one.event for one in heard}) == len(heard)
    commands = (line.fleet.workspace / "told").read_text().split("\n")[:-1]
    for told in (commands, asked):
        assert max(Counter(told).values(), default=1) == 1, told
        assert {event.partition("/")[2] for event in told} >= {one.event for one in heard if one not in interrupted}
    assert sum(request.source == "rule 1" for request in server.requests) <= len(heard)
    # A call that nobody knows the word about is not run; the script does not make it again.
    refused = [one for one in interrupted if one.decision == "deny"]
    effects = (line.fleet.workspace / "effect").read_text().count("effect")
    assert effects == (script == WORK) - len(refused)
