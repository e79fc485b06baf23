"""Real MCP servers, used by agents on a fleet through the host's broker.

Tests of swarm/capabilities/mcp/broker/__main__.py, swarm/capabilities/mcp/broker/calls.py,
swarm/capabilities/mcp/broker/keeper.py, swarm/capabilities/mcp/broker/content.py,
swarm/capabilities/mcp/broker/service.py, swarm/capabilities/mcp/broker/transports.py, swarm/capabilities/mcp/caller.py,
swarm/capabilities/mcp/broker_client.py, swarm/capabilities/mcp/places.py, swarm/capabilities/mcp/step.py,
swarm/web/panels/servers.py, swarm/capabilities/mcp/host.py.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from swarm.agent.entries import Hooked, Started, ToolFinished
from swarm.client.project import gather
from swarm.client.swarm import Job
from swarm.permissions.trust import TrustStore
from swarm.runtime.scratch import broker_folder
from swarm.web.panels.servers import read_servers
from tests.fleet import Fleet
from tests.flower import free_port
from tests.mcp_world import configure, find_server, running
from tests.waiting import wait_for

OWN = Path(__file__).parents[1] / "mcp_server.py"
PUBLISHED = ("everything", "filesystem", "memory", "git", "time")
NAMES = ("everything", "files", "memory", "git", "clock", "desk", "far")
FAR_PORT = free_port()
ALL = tuple(f"mcp__{name}__*" for name in NAMES)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet of two workers, a person with servers, and types of agents with those of one of them."""
    home = tmp_path_factory.mktemp("home")
    with closing(Fleet()) as fleet, pytest.MonkeyPatch.context() as patch:
        subprocess.run(["git", "init", "-q", fleet.workspace], check=True)
        servers = {
            "everything": {"command": find_server("everything")},
            "files": {"command": find_server("filesystem"), "args": ["."]},
            # Beside its program it may write nothing; /tmp is its own.
            "memory": {"command": find_server("memory"), "env": {"MEMORY_FILE_PATH": "/tmp/memory.jsonl"}},
            "git": {"command": find_server("git")},
            "clock": {"command": find_server("time"), "args": ["--local-timezone", "UTC"]},
            "desk": {"command": sys.executable, "args": [str(OWN)]},
            "far": {"type": "http", "url": f"http://127.0.0.1:{FAR_PORT}/mcp"},
            "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]},
        }
        agents = fleet.workspace / ".claude" / "agents"
        agents.mkdir(parents=True)
        for name in ("desk", "everything", "far", "broken"):
            (agents / f"{name}.md").write_text(
                f"---\nname: {name}\ndescription: d\ntools: mcp__{name}__*\n---\nUse it.\n"
            )
        for _ in range(2):
            fleet.begin_worker(3)
        for worker in fleet.workers:
            worker.wait_ready()
        configure(patch, home, servers)
        yield fleet
        job = submit(fleet, calling(f"{{name: mcp__desk__stamp, input: {{path: {fleet.workspace}/x, seconds: 90}}}}"))
        wait_for("it stamps", lambda: "desk: stamping" in job.agents()[0].activity)
        below = broker_of(fleet).children(recursive=True)  # type: ignore[union-attr]
        assert below
        fleet.close()
        killed = "nothing is left when all workers are killed in the middle of a call"
        wait_for(killed, lambda: broker_of(fleet) is None and not any(one.is_running() for one in below))


def broker_of(fleet: Fleet) -> psutil.Process | None:
    """The one process that speaks with servers for this fleet."""
    words = ("swarm.capabilities.mcp.broker", str(broker_folder(fleet.settings)))
    # Of two that are started at once the second one ends as soon as the first one serves.
    wait_for("there is one broker on a host", lambda: len(running(*words)) <= 1)
    found = running(*words)
    return found[0] if found else None


def servers_of(fleet: Fleet, *names: str) -> list[psutil.Process]:
    """The processes of servers, without what holds and confines them."""
    broker = broker_of(fleet)
    found = []
    for process in broker.children(recursive=True) if broker is not None else ():
        with suppress(psutil.Error):
            program = process.cmdline()[1:2]
            if program and any(program[0].endswith(f"mcp-server-{name}") for name in names):
                found.append(process)
    return found


def submit(fleet: Fleet, scenario: str, **given: object) -> Job:
    server = fleet.rehearse(f"name: served\nrules:\n{scenario}")
    options = {"agent": "desk", "ask_seconds": 0, "allow": ALL, **given}
    return fleet.swarm.submit("Use them.", workspace=fleet.workspace, base_url=server.url, **options)


def calling(*calls: str) -> str:
    """A scenario of an agent that makes these calls, each in a reply of its own, and is done then."""
    rules = [f"  - {{when: {{turn: {n}}}, reply: {{tools: [{call}]}}}}" for n, call in enumerate(calls)]
    return "\n".join([*rules, "  - {reply: {text: done}}\n"])


def results(fleet: Fleet, agent_id: str) -> list[ToolFinished]:
    return [entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, ToolFinished)]


def started(fleet: Fleet, agent_id: str) -> Started:
    return next(entry for entry in fleet.swarm.journal(agent_id) if isinstance(entry, Started))


def test_eleven_agents_share_one_process_of_each_server_which_ends_with_the_job(served: Fleet) -> None:
    job = submit(
        served,
        r"""
  - {when: {prompt: 'I am number-', turn: 2+}, reply: {text: seen}}
  - when: {prompt: 'I am number-', turn: 1}
    reply: {tools: [{name: mcp__everything__trigger-long-running-operation, input: {duration: 1, steps: 2}}]}
  - when: {prompt: 'I am (?P<who>number-\d+)'}
    reply:
      tools:
        - name: mcp__memory__create_entities
          input: {entities: [{name: "{who}", entityType: agent, observations: []}]}
        - {name: mcp__git__git_status, input: {repo_path: .}}
        - {name: mcp__clock__get_current_time, input: {timezone: UTC}}
        - {name: mcp__files__list_allowed_directories, input: {}}
  - {when: {turn: 3+}, reply: {text: done}}
  - {when: {turn: 2}, reply: {tools: [{name: mcp__memory__read_graph, input: {}}]}}
  - when: {turn: 0}
    reply:
      tools:
        - {name: mcp__everything__echo, input: {message: hello}}
        - {name: mcp__files__write_file, input: {path: note.txt, content: kept}}
        - {name: mcp__git__git_status, input: {repo_path: .}}
        - {name: mcp__everything__get-tiny-image, input: {}}
        - {name: mcp__everything__get-sum, input: {a: one}}
        - {name: ListMcpResources, input: {}}
        - {name: ToolSearch, input: {query: knowledge graph entities}}
  - reply:
      tools:
"""
        + "".join(
            f"        - {{name: Agent, input: {{description: number {n}, prompt: I am number-{n}}}}}\n"
            for n in range(10)
        ),
        agent="general-purpose",
        allow=[*ALL, "ReadMcpResource"],
    )
    most = dict.fromkeys(PUBLISHED, 0)

    def watch() -> bool:
        for name in PUBLISHED:
            most[name] = max(most[name], len(servers_of(served, name)))
        return job.view().ended

    wait_for("all have used them", watch, seconds=110)
    view = job.view()
    assert view.text == "done" and most == dict.fromkeys(PUBLISHED, 1)
    echo, written, status, image, wrong, resources, searched, *_, graph = results(served, view.root_id)
    assert echo.text == "Echo: hello"
    assert "note.txt" in written.text and (served.workspace / "note.txt").read_text() == "kept"
    assert "Untracked files" in status.text
    assert "[an image that cannot be shown" in image.text, "that one is damaged, and no conversation must hold it"
    assert wrong.is_error and "expected number, received string" in wrong.text
    assert "everything:\n- demo://resource/static" in resources.text
    assert {"type": "tool_reference", "tool_name": "mcp__memory__create_entities"} in (searched.blocks or [])
    agents = [agent for agent in job.agents() if agent.parent_id]
    assert len(agents) == 10 and all(agent.text == "seen" for agent in agents)
    assert [one.text for agent in agents for one in results(served, agent.id) if one.is_error] == []
    # It reads and writes its file for each call, so of several at once it may lose some.
    assert sum(f'"number-{n}"' in graph.text for n in range(10)) > 1, "one memory, of one process"
    begun = started(served, view.root_id)
    tools = {tool["name"]: tool for tool in begun.tools}
    assert tools["mcp__memory__read_graph"]["defer_loading"], "so many are not given whole"
    assert "defer_loading" not in tools["ToolSearch"]
    assert begun.kinds["mcp__memory__read_graph"] == "look" and "mcp__memory__create_entities" not in begun.kinds
    assert "Say please." in begun.system
    wait_for("the job's servers end with it", lambda: not servers_of(served, *PUBLISHED), seconds=15)


def test_a_server_that_ends_in_a_call_is_told_of_and_started_anew(served: Fleet) -> None:
    job = submit(
        served,
        calling(
            "{name: mcp__desk__drawer_1, input: {}}",
            "{name: mcp__desk__crash, input: {}}",
            "{name: mcp__desk__long_list, input: {lines: 20000}}",
            "{name: mcp__desk__secrets, input: {}}",
        ),
    )
    view = job.wait(60)
    drawer, crash, long, secrets = results(served, view.root_id)
    assert drawer.text == "empty" and crash.is_error
    assert "ended during this call" in crash.text and "exit code 3" in crash.text and "check before" in crash.text
    assert long.text.startswith("[The MCP server desk was restarted") and 'file_path="output:' in long.text
    assert "was restarted" not in secrets.text, "it is said once"
    assert "SWARM_" not in secrets.text and "/tmp" in secrets.text and ".ssh" not in secrets.text


def test_calls_that_a_kill_interrupts_are_told_and_not_repeated(served: Fleet) -> None:
    marks = served.workspace / "marks.txt"

    def interrupt(kill: object) -> ToolFinished:
        marks.unlink(missing_ok=True)
        job = submit(served, calling(f"{{name: mcp__desk__stamp, input: {{path: {marks}, seconds: 60}}}}"))
        wait_for("it stamps", lambda: "desk: stamping" in job.agents()[0].activity)
        kill(job)  # type: ignore[operator]
        [result] = results(served, job.wait(60).root_id)
        assert marks.read_text() == "stamped\n", "once"
        return result

    def kill_broker(job: Job) -> None:
        held = broker_of(served)
        assert held is not None
        below = held.children(recursive=True)
        held.send_signal(signal.SIGKILL)
        wait_for("its servers end with it", lambda: not any(one.is_running() for one in below))

    def kill_worker(job: Job) -> None:
        for worker in served.workers:
            for child in worker.children():
                child.kill()

    assert "The process that speaks with the MCP server desk ended during this call" in interrupt(kill_broker).text
    assert "This call was interrupted while it ran (its worker stopped)" in interrupt(kill_worker).text


def test_a_servers_question_waits_without_a_process_and_is_answered_in_both_eras(served: Fleet) -> None:
    jobs = {
        agent: submit(served, calling(f"{{name: mcp__{agent}__{call}}}"), agent=agent, ask_seconds=600)
        for agent, call in (
            ("desk", "print_copies, input: {name: plan.txt}"),
            ("everything", "trigger-elicitation-request, input: {}"),
        )
    }
    asked = {}
    for agent, job in jobs.items():
        served.wait_state(job.view().root_id, "parked", seconds=60)
        [asked[agent]] = served.swarm.questions.open(job.id)
        assert asked[agent].kind == "question" and f"The MCP server {agent} asks" in asked[agent].detail
    served.swarm.answer(asked["desk"].id, "many")
    wait_for("it is asked again", lambda: served.swarm.questions.open(jobs["desk"].id))
    [again] = served.swarm.questions.open(jobs["desk"].id)
    assert "copies must be of the type integer, not 'many'" in again.detail
    served.swarm.answer(again.id, "3")
    served.swarm.answer(asked["everything"].id, "name: Ada\ncheck: yes\ninteger: 7")
    [printed] = results(served, jobs["desk"].wait(60).root_id)
    [told] = results(served, jobs["everything"].wait(60).root_id)
    assert printed.text == "3 copies of plan.txt"
    assert "Name: Ada" in told.text and "Agreed to terms: true" in told.text and not told.is_error


@pytest.mark.long
def test_a_question_whose_call_is_gone_is_told_with_the_answer(served: Fleet) -> None:
    job = submit(
        served,
        calling("{name: mcp__everything__trigger-elicitation-request, input: {}}"),
        agent="everything",
        ask_seconds=600,
    )
    served.wait_state(job.view().root_id, "parked", seconds=60)
    held = broker_of(served)
    assert held is not None
    held.kill()
    [question] = served.swarm.questions.open(job.id)
    served.swarm.answer(question.id, "name: Ada")
    [result] = results(served, job.wait(60).root_id)
    assert result.is_error and "had ended when the answer came" in result.text and '"name": "Ada"' in result.text


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_a_tool_of_a_server_is_a_hook_that_is_given_fields_of_the_event(served: Fleet) -> None:
    settings = served.workspace / ".claude/settings.json"
    hook = {
        "type": "mcp_tool",
        "server": "desk",
        "tool": "stamp",
        "input": {"path": "${tool_input.path}.by-hook", "seconds": 0},
    }
    lost = {**hook, "server": "nowhere"}
    settings.write_text(json.dumps({"hooks": {"PostToolUse": [{"matcher": "mcp__desk__.*", "hooks": [hook, lost]}]}}))
    TrustStore(served.settings.state_folder()).trust(served.workspace, gather(served.workspace, served.settings).grants)
    try:
        job = submit(
            served, calling(f"{{name: mcp__desk__stamp, input: {{path: {served.workspace}/seal, seconds: 0}}}}")
        )
        entries = list(served.swarm.journal(job.wait(60).root_id))
    finally:
        settings.unlink()
    [hooked] = [entry for entry in entries if isinstance(entry, Hooked)]
    assert [run.outcome for run in hooked.runs] == ["ok", "not_run"], hooked
    assert (served.workspace / "seal.by-hook").exists() and "nowhere" in hooked.runs[1].why


def test_a_server_behind_a_url_is_used_and_one_that_does_not_start_is_told(served: Fleet) -> None:
    with subprocess.Popen([sys.executable, str(OWN), str(FAR_PORT)], stderr=subprocess.DEVNULL) as server:
        try:
            wait_for("it listens", lambda: is_listening(FAR_PORT))
            job = submit(served, calling("{name: mcp__far__drawer_3, input: {}}"), agent="far")
            [drawer] = results(served, job.wait(60).root_id)
        finally:
            server.terminate()
    assert drawer.text == "empty"
    shown = {one["name"]: one for one in read_servers(served.swarm, job.id)["servers"]}
    assert "drawer_3" in [tool["name"] for tool in shown["far"]["offer"]["tools"]] and shown["git"]["offer"] is None
    without = submit(served, calling(), agent="broken")
    system = started(served, without.wait(60).root_id).system
    assert "The MCP server broken is configured, and could not be started" in system and "no licence" in system
    [event] = [event for event in without.follow() if event.kind == "server"]
    assert "broken could not be started" in event.fields["why"]
