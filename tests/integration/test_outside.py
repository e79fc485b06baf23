"""Tools and capabilities from outside the package: one folder and one row each, used by an agent on a real worker.

Tests of swarm/tools/outside.py.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from swarm.core.errors import ConfigurationError
from swarm.tools.outside import declare_outside_tools
from tests.fleet import Fleet

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"


class Sunny(BaseHTTPRequestHandler):
    """A server that knows one kind of weather."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"sunny, 21 degrees")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Sunny)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/today"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def outside_path(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(OUTSIDE))
    return os.pathsep.join([str(OUTSIDE), str(OUTSIDE.parents[1])])


ASK_THE_SERVER = """
name: weather
rules:
  - name: say it
    when: {{last_result: "sunny"}}
    reply: {{text: "It is {{last_result}}."}}
  - name: give up
    when: {{last_result: "Not allowed|permission"}}
    reply: {{text: "I may not ask."}}
  - name: ask
    reply: {{tools: [{{name: Weather, input: {{url: "{address}"}}}}]}}
"""


def test_an_agent_uses_a_network_tool_from_outside_under_rules_that_name_it(
    fleet: Fleet, address: str, outside_path: str
) -> None:
    fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"tools": "weather"})
    fleet.start_worker(1, PYTHONPATH=outside_path)
    server = fleet.rehearse(ASK_THE_SERVER.format(address=address))
    given = {"workspace": fleet.workspace, "base_url": server.url, "agent": "general-purpose", "ask_seconds": 0}
    # It reaches the network, and no rule says that it may.
    denied = fleet.swarm.submit("How is the weather?", **given).wait(60)
    assert (denied.state, denied.text) == ("completed", "I may not ask.")
    allowed = fleet.swarm.submit("How is the weather?", allow=["get_weather(domain:127.0.0.1)"], **given).wait(60)
    assert (allowed.state, allowed.text) == ("completed", "It is sunny, 21 degrees.")


VOTE_WITH_TWO_OTHERS = """
name: votes
rules:
  - name: the votes of all
    when: {prompt: '^Vote', last_result: 'The votes: (?P<tally>.*)'}
    reply: {text: '{tally}'}
  - name: the others have voted
    when: {prompt: '^Vote', last_result: 'voted'}
    reply: {tools: [{name: Vote, input: {choice: tea}}]}
  - name: have two others vote
    when: {prompt: '^Vote'}
    reply:
      tools:
        - {name: Agent, input: {description: one, prompt: vote for tea}}
        - {name: Agent, input: {description: two, prompt: vote for coffee}}
  - name: a voter is done
    when: {last_result: 'The votes'}
    reply: {text: 'I have voted.'}
  - name: a voter votes
    when: {prompt: 'vote for (?P<choice>.+)'}
    reply: {tools: [{name: Vote, input: {choice: '{choice}'}}]}
"""


def test_agents_use_a_capability_from_outside_that_keeps_its_own_state(fleet: Fleet, outside_path: str) -> None:
    fleet.settings = fleet.swarm.settings = fleet.settings.model_copy(update={"tools": "votes"})
    fleet.start_worker(2, PYTHONPATH=outside_path)
    server = fleet.rehearse(VOTE_WITH_TWO_OTHERS)
    job = fleet.swarm.submit("Vote.", workspace=fleet.workspace, base_url=server.url, agent="general-purpose")
    view = job.wait(60)
    assert view.state == "completed" and json.loads(view.text) == {"tea": 2, "coffee": 1}
    # Its keys go when the job's do.
    client, votes = fleet.swarm.store.keyspace.client, fleet.swarm.store.keyspace.key("job", job.id, "votes")
    assert client.hgetall(votes) == {"tea": "2", "coffee": "1"} and client.ttl(votes) > 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no luck')", "its tools cannot be loaded: RuntimeError: no luck"),
        ("x = 1", "there is no tool in it"),
        ("TOOLS = ['Weather']", "holds a str, not rows"),
        (
            "from swarm.definitions.tools import ToolRow; TOOLS = [ToolRow('Bash', home='m:T')]",
            "there is a tool 'Bash'",
        ),
    ],
)
def test_a_module_without_usable_tools_is_named_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    name = f"unusable_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=message) as caught:
        declare_outside_tools(name)
    assert "Bash" in message or name in str(caught.value)
