"""Hooks of real jobs: what people's programs and addresses are told, what they may decide, and that it holds.

Tests of swarm/capabilities/hooks/payloads.py, swarm/capabilities/hooks/step.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from swarm.agent.entries import Assistant, Compacted, CompactionFailed, Entry, Hooked, ToolFinished
from swarm.agent.history import fold
from swarm.client.project import gather
from swarm.client.swarm import Job
from swarm.core.usage import Charge
from swarm.models.anthropic import AnthropicModel
from swarm.permissions.trust import TrustStore
from swarm.replay.past import read_past
from swarm.replay.resumption import Resumption, go_on
from swarm.runtime.loop import Loop
from swarm.store.values import Claim
from tests.documents import ROOT, blocks
from tests.fleet import Fleet
from tests.segments import make_segment

SHELL = """
name: shell
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "touch made && echo made it"}}]}
  - when: {turn: 1}
    reply: {text: "first: {last_result}"}
  - reply: {text: then}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home without anything."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def put(folder: Path, hooks: dict[str, Any], name: str = ".claude/settings.json") -> None:
    """A settings file with these hooks."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"hooks": hooks}))


def on(event: str, command: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}]}


def submit(fleet: Fleet, scenario: str = SHELL, prompt: str = "go", **options: Any) -> Job:
    if "base_url" not in options:
        options["base_url"] = fleet.rehearse(scenario).url
    options = {"agent": "general-purpose", "workspace": fleet.workspace, **options}
    return fleet.swarm.submit(prompt, **options)


def journal(fleet: Fleet, job: Job) -> list[Entry]:
    return list(fleet.swarm.journal(job.view().root_id))


def heard(fleet: Fleet, job: Job) -> dict[str, Hooked]:
    return {entry.name: entry for entry in journal(fleet, job) if isinstance(entry, Hooked)}


def trust(fleet: Fleet) -> None:
    TrustStore(fleet.settings.state_folder()).trust(fleet.workspace, gather(fleet.workspace, fleet.settings).grants)


def test_a_hook_refuses_a_call_by_its_exit_code_and_the_agent_is_told_why(at_work: Fleet, home: Path) -> None:
    command = "grep -q '\"command\": \"touch made' && { echo 'no touching' >&2; exit 2; }"
    put(home, on("PreToolUse", command, "Bash"))
    job = submit(at_work)
    text = job.wait(30).text
    assert "no touching" in text and "not run" in text
    assert not (at_work.workspace / "made").exists()
    [refused] = [entry for entry in journal(at_work, job) if isinstance(entry, ToolFinished)]
    assert refused.denied.startswith("Bash touch made"), "it counts among denials, so that it is not repeated for ever"
    [told] = [event for event in job.follow() if event is not None and event.kind == "hooked"]
    assert told.fields["event"] == "PreToolUse" and "denied: no touching" in told.fields["why"]


def test_a_hook_changes_what_a_call_is_given_and_what_it_returned(at_work: Fleet, home: Path) -> None:
    changed = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo rewritten"}}}
    output = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "mind the gap"}}
    before, after = (f"cat >/dev/null; echo '{json.dumps(said)}'" for said in (changed, output))
    put(home, {**on("PreToolUse", before, "Bash"), **on("PostToolUse", after)})
    job = submit(at_work)
    text = job.wait(30).text
    assert "rewritten" in text and not (at_work.workspace / "made").exists()
    assert [entry.input for entry in heard(at_work, job).values()] == [{"command": "echo rewritten"}, None]
    assert "mind the gap" in heard(at_work, job)["PostToolUse"].text


def test_the_page_tells_of_hooks_that_work(unmanned: Fleet, home: Path, tmp_path: Path) -> None:
    settings, refusing, trial, limiting = (block.text for block in blocks(ROOT / "docs/hooks.md"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (home / ".config" / "swarm").mkdir(parents=True)
    (home / ".config" / "swarm" / "settings.json").write_text(settings)
    (home / ".claude" / "hooks").mkdir(parents=True)
    (home / ".claude" / "hooks" / "no_force.py").write_text(refusing)
    put(home, on("PreToolUse", "python3 limit.py"))
    (workspace / "limit.py").write_text(limiting)
    server = """
name: push
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "git push --force"}}, {name: Bash, input: {command: "echo hello $0"}}]}
  - reply: {text: done}
"""
    url = unmanned.rehearse(server).url
    job = submit(unmanned, base_url=url, workspace=workspace)
    run_here(unmanned, job, url, user_hooks="host")
    first, second = (entry for entry in journal(unmanned, job) if isinstance(entry, ToolFinished))
    assert "Push without --force" in first.text and (first.is_error, second.is_error) == (True, False)
    assert second.text == "hello sh"
    environment = {**unmanned.environment(), "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    tried = subprocess.run(["sh", "-c", trial], cwd=workspace, env=environment, capture_output=True, text=True)
    assert tried.returncode == 2 and "Push without --force" in tried.stderr, tried


def test_a_job_from_its_beginning_to_its_end(at_work: Fleet, home: Path) -> None:
    """Context at the start, an end that is sent back until it is right, and what is told beside that."""
    log = at_work.workspace / "log"
    record = f'python3 -c \'import json, sys; e = json.load(sys.stdin); print(json.dumps(e), file=open("{log}", "a"))\''
    back = "grep -q first && { echo 'say then' >&2; exit 2; } || exit 0"
    put(
        home,
        {
            **on("SessionStart", "echo the branch is main"),
            **on("UserPromptSubmit", "echo mind the prompt"),
            **on("Stop", back),
            **on("SessionEnd", record),
            **on("PostToolUse", record, "Bash"),
        },
    )
    job = submit(at_work, SHELL, snapshots=True)
    assert job.wait(30).text == "then"
    [ran] = [entry for entry in journal(at_work, job) if isinstance(entry, ToolFinished)]
    assert heard(at_work, job)["PostToolUse"].commit not in ("", ran.commit), (
        "what hooks leave is kept like what calls do"
    )
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["hook_event_name"], one["session_id"]) for one in told] == [
        ("PostToolUse", job.id),
        ("SessionEnd", job.id),
    ]
    assert told[0]["tool_response"]["stdout"] == "made it" and told[0]["tool_input"]["command"].startswith("touch")
    [sent_back] = [one for one in journal(at_work, job) if isinstance(one, Hooked) and one.decision == "block"]
    assert sent_back.name == "Stop" and "say then" in sent_back.text
    texts = [block.get("text", "") for block in _first_message(at_work, job)]
    assert any("the branch is main" in text for text in texts) and any("mind the prompt" in text for text in texts)

    past = read_past(at_work.swarm.store, job.id)
    url = past.agents[past.root].spec["base_url"]
    again = go_on(at_work.swarm, past, Resumption(past.root, 1, files="here"), lambda _: url).job
    assert again.wait(30).text == "then"
    sent, once_more = (
        [one.request_sha for one in journal(at_work, each) if isinstance(one, Assistant)] for each in (job, again)
    )
    assert sent == once_more, "what hooks have said by then is not said again"
    assert [json.loads(line)["hook_event_name"] for line in log.read_text().splitlines()[2:]] == ["SessionEnd"]


EXPORTED = """
name: exported
rules:
  - when: {prompt: '^child', turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo child has $FROM_HOOK"}}]}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "echo root has $FROM_HOOK; exit 3"}},
      {name: Agent, input: {description: child, prompt: child, subagent_type: general-purpose}}]}
  - reply: {text: "{last_result}"}
"""


def test_what_a_hook_exports_at_the_start_is_set_in_later_commands_of_the_whole_tree(
    at_work: Fleet, home: Path
) -> None:
    export = 'echo \'export FROM_HOOK="it is set"\' >>"$CLAUDE_ENV_FILE"'
    tell = "cat >>told; echo >>told"
    put(
        home,
        {
            **on("SessionStart", export),
            **on("PostToolUseFailure", tell, "Bash"),
            **on("PostToolUse", tell, "Agent"),
        },
    )
    job = submit(at_work, EXPORTED)
    assert "child has it is set" in job.wait(60).text
    failed, agent = map(json.loads, (at_work.workspace / "told").read_text().splitlines())
    assert failed["error"] == "Exit code 3\nroot has it is set"
    response = agent["tool_response"]
    assert (response["status"], response["agentId"]) == ("completed", job.agents()[1].id)


def _first_message(fleet: Fleet, job: Job) -> list[dict[str, Any]]:
    content = fold(job.view().root_id, journal(fleet, job)).messages[0]["content"]
    return list(content)


def test_a_repositorys_hook_runs_only_once_it_is_trusted_and_only_in_the_sandbox(at_work: Fleet, home: Path) -> None:
    outside = home / "outside"
    command = (
        f"echo run >>ran; touch {outside}; curl -s --max-time 2 http://127.0.0.1:1 || cat ~/.ssh/id 2>>ran; exit 0"
    )
    put(at_work.workspace, on("PreToolUse", command, "Bash"), ".claude/settings.json")
    job = submit(at_work)
    assert any("are ignored" in warning for warning in job.warnings)
    job.wait(30)
    assert not heard(at_work, job) and not (at_work.workspace / "ran").exists()
    trust(at_work)
    job = submit(at_work)
    job.wait(30)
    assert heard(at_work, job)["PreToolUse"].runs[0].outcome == "ok"
    assert (at_work.workspace / "ran").read_text().startswith("run") and not outside.exists()
    put(at_work.workspace, on("PreToolUse", f"{command} ", "Bash"), ".claude/settings.json")
    assert any("are ignored" in warning for warning in submit(at_work).warnings)


class _Site(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((asked, dict(self.headers)))  # type: ignore[attr-defined]
        body = json.dumps({"decision": "block", "reason": "the policy says no"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        site.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=site.serve_forever, args=(0.01,), daemon=True).start()
        yield site
        site.shutdown()


def _asking(site: ThreadingHTTPServer) -> dict[str, Any]:
    hook = {"type": "http", "url": f"http://127.0.0.1:{site.server_address[1]}/", "headers": {"X": "${TZ}"}}
    return {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}


def test_an_address_of_a_repositorys_is_one_that_its_agent_could_fetch(
    at_work: Fleet, home: Path, site: ThreadingHTTPServer
) -> None:
    put(at_work.workspace, _asking(site))
    trust(at_work)
    job = submit(at_work)
    job.wait(30)
    [run] = heard(at_work, job)["PreToolUse"].runs
    assert run.outcome == "not_run" and "is this host" in run.why and not site.asked  # type: ignore[attr-defined]


def run_here(fleet: Fleet, job: Job, url: str, **settings: Any) -> str:
    """Run the job's first agent in this process, as a worker with these settings would; returns what it said in the end."""
    store, given = fleet.swarm.store, fleet.settings.model_copy(update=settings)
    claim = store.agents.claim(job.view().root_id, "test", 600.0)
    assert isinstance(claim, Claim), claim
    Loop(make_segment(claim, store, given, AnthropicModel.rehearsing(given, url)), draining=str).run()
    return str(job.view().text)


def test_an_operators_hook_is_heard_or_nothing_is_done(
    unmanned: Fleet, home: Path, site: ThreadingHTTPServer, tmp_path: Path
) -> None:
    managed, workspace, server = tmp_path / "managed.json", tmp_path / "workspace", unmanned.rehearse(SHELL)
    managed.write_text(json.dumps({"hooks": _asking(site)}))

    def run() -> str:
        job = submit(unmanned, SHELL, base_url=server.url, workspace=workspace)
        return run_here(unmanned, job, server.url, managed_hooks=managed)

    workspace.mkdir()
    assert "the policy says no" in run() and not (workspace / "made").exists()
    [(asked, headers)] = site.asked  # type: ignore[attr-defined]
    assert asked["event_id"].replace(" ", "/") == headers["Idempotency-Key"] and headers["X"] == ""
    site.shutdown()
    site.server_close()
    assert "a required hook of the operator failed" in run() and not (workspace / "made").exists()


def test_a_hook_answers_a_question_in_a_persons_place_and_others_are_told_of_the_rest(
    unmanned: Fleet, home: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    decision = {"behavior": "allow", "updatedInput": {"command": "touch other; echo made it"}}
    answered = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    put(
        home,
        {
            **on("PermissionRequest", f"cat >/dev/null; [ -e silent ] || echo '{json.dumps(answered)}'", "Bash"),
            **on("Notification", "cat >told", "permission_prompt"),
            **on("PostToolBatch", 'echo \'{"continue": false, "stopReason": "enough"}\''),
        },
    )
    server = unmanned.rehearse(SHELL)
    options = {"base_url": server.url, "workspace": workspace, "mode": "default", "ask_seconds": 60}
    job = submit(unmanned, **options)
    run_here(unmanned, job, server.url)
    assert (workspace / "other").exists() and not (workspace / "made").exists() and not (workspace / "told").exists()
    assert "enough" in (job.view().reason or "")
    (workspace / "silent").touch()
    job = submit(unmanned, **options)
    run_here(unmanned, job, server.url)
    assert json.loads((workspace / "told").read_text())["title"].startswith("Bash touch made")
    assert job.agents()[0].state == "parked" and not (workspace / "made").exists()


JUDGED = """
name: judged
rules:
  - when: {prompt: '(?s)JUDGE.*touch'}
    reply: {text: 'It writes. {"ok": false, "reason": "write nothing"}'}
  - when: {prompt: '(?s)VERIFY.*"stop_hook_active": true'}
    reply: {text: '{"ok": true}'}
  - when: {prompt: 'VERIFY', turn: 0}
    reply: {tools: [{name: Read, input: {file_path: page.txt}}, {name: Write, input: {file_path: no.txt, content: x}}]}
  - when: {prompt: 'VERIFY'}
    reply: {text: '{"ok": false, "reason": "the page says: {last_result}"}'}
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "touch made"}}]}
  - reply: {text: "{last_result} {last_text}"}
"""


def test_a_model_decides_as_a_hook_at_the_agents_expense_and_is_asked_once(
    unmanned: Fleet, home: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "page.txt").write_text("the secret is 4")
    judge = {"type": "prompt", "prompt": "JUDGE $ARGUMENTS"}
    verify = {"type": "agent", "prompt": "VERIFY"}
    put(home, {"PreToolUse": [{"matcher": "Bash", "hooks": [judge]}], "Stop": [{"hooks": [verify]}]})
    server = unmanned.rehearse(JUDGED)
    job = submit(unmanned, base_url=server.url, workspace=workspace, limits={"budget_usd": 5.0})
    text = run_here(unmanned, job, server.url)
    assert not (workspace / "made").exists() and not (workspace / "no.txt").exists()
    assert "the secret is 4" in text and "there is no tool Write" in text
    entries = journal(unmanned, job)
    [refused] = [entry for entry in entries if isinstance(entry, ToolFinished)]
    assert "write nothing" in refused.text
    heard = [entry for entry in entries if isinstance(entry, Hooked)]
    assert [(one.name, one.decision) for one in heard] == [("PreToolUse", "deny"), ("Stop", "block"), ("Stop", "")]
    assert all(one.cost_usd > 0 and one.model for one in heard)
    paid = sum(entry.cost_usd for entry in entries if isinstance(entry, Charge))
    assert job.view().reckoned_usd == pytest.approx(paid)
    assert fold(job.view().root_id, entries).paid.cost_usd == pytest.approx(paid)
    assert len(server.requests) == len([entry for entry in entries if isinstance(entry, Assistant)]) + 1 + 2 + 1


CREW = """
name: crew
rules:
  - when: {prompt: '^mate', turn: 0}
    reply: {tools: [{name: BoardClaim, input: {}}]}
  - when: {prompt: '^mate', turn: 1}
    reply: {tools: [{name: BoardComplete, input: {task_id: 1, result: x}}]}
  - when: {prompt: '^mate', last_result: 'write more'}
    reply: {tools: [{name: BoardComplete, input: {task_id: 1, result: all of it}}]}
  - when: {prompt: '^mate', last_text: 'tidy up'}
    reply: {text: it is tidy}
  - when: {prompt: '^mate'}
    reply: {text: idle}
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew}}, {name: BoardAdd, input: {subject: the task}},
      {name: Agent, input: {description: mate, prompt: mate, name: mate, teammate: true, subagent_type: crewman}}]}
  - when: {turn: 1}
    reply: {tools: [{name: WaitAgents, input: {timeout_seconds: 60}}]}
  - when: {last_result: 'None of them is at work'}
    reply: {tools: [{name: TeamDelete, input: {force: true}}]}
  - reply: {text: "{last_result}"}
"""


def test_a_team_is_held_to_what_hooks_of_its_tasks_its_rest_and_its_types_say(at_work: Fleet, home: Path) -> None:
    once = "[ -e {0} ] && exit 0; touch {0}; echo '{1}' >&2; exit 2"
    subject = 'grep -q \'"task_subject": "the task".*"teammate_name": "mate"\' || exit 0; '
    put(
        home,
        {
            **on("TaskCreated", 'grep -q \'"task_subject": "the task"\' && touch created'),
            **on("TaskCompleted", subject + once.format("told", "write more")),
            **on("TeammateIdle", once.format("tidy", "tidy up")),
        },
    )
    agents = at_work.workspace / ".claude" / "agents"
    agents.mkdir(parents=True)
    hooks = "hooks:\n  SubagentStart:\n    - matcher: crewman\n      hooks: [{type: command, command: echo be kind}]"
    (agents / "crewman.md").write_text(f"---\nname: crewman\ndescription: d\n{hooks}\n---\nWork.")
    trust(at_work)
    job = submit(at_work, CREW, agent="build")
    assert "The team is dissolved" in job.wait(60).text
    [mate] = job.agents()[1:]
    told = [entry for entry in at_work.swarm.journal(mate.id) if isinstance(entry, Hooked)]
    assert [(one.name, one.decision) for one in told] == [
        ("SubagentStart", ""),
        ("TaskCompleted", "deny"),
        ("TaskCompleted", ""),
        ("TeammateIdle", "block"),
        ("TeammateIdle", ""),
    ]
    assert "be kind" in told[0].text and (at_work.workspace / "created").exists()
    assert [(task.state, task.owner_name) for task in job.board()] == [("completed", "mate")]


READING = """
name: reading
rules:
  - when: {turn: '0-13'}
    reply: {tools: [{name: Read, input: {file_path: page.txt}}]}
  - reply: {text: all read}
"""


def test_a_hook_refuses_a_summary_and_says_what_the_next_one_must_hold(
    unmanned: Fleet, home: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "page.txt").write_text("a line that is read again and again\n" * 200)
    before = "[ -e again ] && { echo keep the ids; exit 0; }; touch again; echo 'not yet' >&2; exit 2"
    put(
        home,
        {
            **on("PreCompact", before, "auto"),
            **on("SessionStart", "echo it was cut", "compact"),
            **on("PostCompact", "cat >summary", "auto"),
        },
    )
    server = unmanned.rehearse(READING)
    job = submit(unmanned, READING, base_url=server.url, workspace=workspace)
    assert run_here(unmanned, job, server.url, compact_tokens=12_000) == "all read"
    entries = journal(unmanned, job)
    [refused] = [entry for entry in entries if isinstance(entry, CompactionFailed)]
    cuts = [entry for entry in entries if isinstance(entry, Compacted)]
    assert refused.error_kind == "hook" and "not yet" in refused.error and refused.at < cuts[0].at
    assert "keep the ids" in cuts[0].focus
    assert json.loads((workspace / "summary").read_text())["compact_summary"]
    assert [one for one in entries if isinstance(one, Hooked) and "it was cut" in one.text]
    assert unmanned.swarm.store.journals.history(job.view().root_id) == fold(job.view().root_id, entries)


FOUNDING = """
name: founding
rules:
  - when: {turn: 0}
    reply: {tools: [{name: TeamCreate, input: {name: crew, agents: [{name: ada, prompt: be there}]}}]}
  - reply: {text: "{last_result}"}
"""


def test_whom_hooks_decide_about_is_not_started_within_another_call(unmanned: Fleet, home: Path) -> None:
    put(home, on("PreToolUse", "exit 2", "Agent"))
    server = unmanned.rehearse(FOUNDING)
    job = submit(unmanned, FOUNDING, base_url=server.url)
    assert "Not started: ada: Not allowed: hooks decide about Agent calls" in run_here(unmanned, job, server.url)
    assert len(job.agents()) == 1
