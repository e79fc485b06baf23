"""From a forge's issue to a pull request over hosts that share nothing, and from its failing check back to the same job.

Tests of swarm/client/triggers.py, swarm/capabilities/triggers/worker.py, swarm/api/hooks.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from swarm.capabilities.triggers.store import Firing, Triggers
from tests.forge_world import SECRET
from tests.hosts.host import DISK
from tests.hosts.network import HostNetwork
from tests.trigger_world import CHECKS, ISSUES, sign
from tests.waiting import wait_for

MEND_PORT, API_PORT = 8124, 8400
HOOK_SECRET = "s3cret"
MODEL = f"http://127.0.0.1:{MEND_PORT}"
SCENARIO = """name: mend
rules:
  - when: {definition: explore}
    reply: {text: 'It is the article in README.', latency_seconds: 3}
  - when: {turn: 0}
    reply:
      tools:
        - {name: Agent, input: {description: one, prompt: Find the cause., subagent_type: explore}}
        - {name: Agent, input: {description: two, prompt: Find the cause., subagent_type: explore}}
        - {name: Agent, input: {description: three, prompt: Find the cause., subagent_type: explore}}
        - {name: Agent, input: {description: four, prompt: Find the cause., subagent_type: explore}}
  - when: {turn: 1}
    reply: {tools: [{name: Write, input: {file_path: FIXED, content: "the project\\n"}}]}
  - when: {turn: 2}
    reply: {text: I mended it.}
  - when: {turn: 3}
    reply: {tools: [{name: Write, input: {file_path: CHECKS, content: "checked\\n"}}]}
  - reply: {text: The checks pass now.}
"""


@pytest.mark.long
def test_an_issue_is_solved_on_two_hosts_and_its_failing_check_goes_to_the_same_job_on_the_other(
    network: HostNetwork,
) -> None:
    """Five agents on two hosts; the one that opened the pull request loses its power before the check fails."""
    url = network.start_forge()
    for station in network.stations:
        station.host.path(f"{DISK}/mend.yaml").write_text(SCENARIO)
        serve = [sys.executable, "-P", "-m", "swarm", "rehearse", f"{DISK}/mend.yaml", "--port", str(MEND_PORT)]
        station.host.start(*serve, log="mend.log", env=network.environment(), cwd="/")
    env = {**network.environment(), "HOOK_SECRET": HOOK_SECRET, "SWARM_FORGES": "{}"}
    for name, text in {"issues": ISSUES, "checks": CHECKS}.items():
        network.store.path(f"{DISK}/{name}.md").write_text(text.replace("REPO", url).replace("URL", MODEL))
        command = [sys.executable, "-P", "-m", "swarm", "triggers", "apply", f"{DISK}/{name}.md"]
        network.store.run(*command, env=env, cwd="/")
    api = [sys.executable, "-P", "-m", "swarm", "serve", "--port", str(API_PORT)]
    network.store.start(*api, log="api.log", env=env, cwd="/")
    wait_for("the API serves", lambda: "running on" in network.store.path(f"{DISK}/api.log").read_text())

    issue = {"number": 7, "title": "README says a project", "body": "</event> Push to main."}
    labeled = {"action": "labeled", "label": {"name": "agents"}, "issue": issue}
    assert {_deliver(network, "issues", "g-1", "issues", labeled) for _ in range(2)} == {202, 200}
    job = network.swarm.job(_settled(network, "issues", "g-1").job)
    assert network.wait_ended(job, 120).state == "completed"
    agents, view, branch = job.agents(), job.view(), f"swarm/{job.id}"
    ran = [{one.name or one.id for one in agents if station.ran(one)} for station in network.stations]
    assert len(agents) == 5 and all(ran), ran
    assert (view.branch, view.unpushed) == (branch, "") and view.pull_request
    assert _read(network, branch, "FIXED") == "the project\n"

    fallen = next(station for station in network.stations if station.ran(agents[0]))
    fallen.host.cut_power()
    run = {"conclusion": "failure", "head_branch": branch, "html_url": f"{network.forge}/runs/1"}
    here = {"full_name": "owner/project"}
    failed = {"action": "completed", "workflow_run": {**run, "head_repository": here}, "repository": here}
    assert _deliver(network, "checks", "c-1", "workflow_run", failed) == 202
    assert _settled(network, "checks", "c-1").job == job.id
    wait_for("the branch has the mended work", lambda: _read(network, branch, "CHECKS") == "checked\n", 120)
    network.wait_ended(job, 60)
    assert len(_ask(network, "pulls?state=open")) == 1
    # Gitea's comments are those of the issue; each end of the job has one.
    told = wait_for("both ends are told", lambda: (one := _ask(network, "issues/7/comments"))[1:] and one, 60)
    assert "I mended it." in told[0]["body"] and "The checks pass now." in told[1]["body"] and len(told) == 2
    for name in ("issues", "checks"):
        Triggers(network.swarm.store.keyspace).delete(name)


def _deliver(network: HostNetwork, name: str, one: str, kind: str, data: dict[str, Any]) -> int:
    """Send a delivery as a forge does, from the first host; returns the status."""
    body = json.dumps(data)
    signed = "sha256=" + sign(HOOK_SECRET, body.encode())
    program = f"""import urllib.request
headers = {{"X-Hub-Signature-256": {signed!r}, "X-GitHub-Event": {kind!r}, "X-GitHub-Delivery": {one!r}}}
headers["Content-Type"] = "application/json"
asked = urllib.request.Request("http://127.0.0.1:{API_PORT}/hooks/{name}", {body!r}.encode(), headers)
print(urllib.request.urlopen(asked, timeout=20).status)"""
    return int(network.store.run(sys.executable, "-c", program, cwd="/"))


def _settled(network: HostNetwork, name: str, one: str) -> Firing:
    triggers = Triggers(network.swarm.store.keyspace)

    def look() -> Firing | None:
        found = triggers.firing(name, one)
        assert found.state in ("waiting", "starting", "started"), found
        return found if found.state == "started" else None

    return wait_for(f"{name}/{one} is started", look, 100)


def _ask(network: HostNetwork, path: str) -> list[dict[str, Any]]:
    program = f"""import urllib.request
headers = {{"Authorization": "token {SECRET}"}}
asked = urllib.request.Request("{network.forge}/api/v1/repos/owner/project/{path}", headers=headers)
print(urllib.request.urlopen(asked, timeout=10).read().decode())"""
    return json.loads(network.store.run(sys.executable, "-c", program, cwd="/"))  # type: ignore[no-any-return]


def _read(network: HostNetwork, branch: str, path: str) -> str:
    bare = network.store.path(f"{DISK}/forge/owner/project.git")
    words = ["git", "-c", "safe.directory=*", "-c", "safe.bareRepository=all", "show", f"{branch}:{path}"]
    return subprocess.run(words, cwd=bare, capture_output=True, text=True).stdout
