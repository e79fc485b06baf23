"""What of people's hooks runs on a worker's host, outside of the sandbox: only what no agent and no clone can have written.

Tests of swarm/capabilities/hooks/placement.py.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from swarm.agent.entries import Hooked, ToolFinished
from swarm.client.plugins import PluginSpec, add_plugin
from tests.fleet import Fleet
from tests.integration.test_hooks_in_jobs import heard, journal, on, put, run_here, submit, trust
from tests.needs import need_sandbox

OWN = 'python3 "$CLAUDE_PROJECT_DIR"/no_force.py'
EVIL = 'import os, pathlib; pathlib.Path("{marker}").write_text(str(os.getuid()))'
TWICE = """
name: twice
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: %s}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: "true"}}]}
  - reply: {text: done}
"""


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's home, which the worker is started in."""
    return tmp_path_factory.mktemp("person")


@pytest.fixture(scope="module")
def stack(person: Path) -> Iterator[Fleet]:
    need_sandbox("bubblewrap")
    with closing(Fleet(user_hooks="host", sandbox="bubblewrap")) as fleet:
        fleet.start_worker(2, HOME=str(person))
        yield fleet


@pytest.fixture
def own(stack: Fleet, person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A worker of the person's own: their hooks run on its host."""
    monkeypatch.setenv("HOME", str(person))
    for left in person.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    with stack.lend(tmp_path / "workspace") as fleet:
        yield fleet


def writing(text: str) -> str:
    """An agent that writes the script in a way that no rule sees: where one does, a person is asked."""
    code = f"import os; p = 'no_' + 'force.py'; os.path.exists(p) and os.unlink(p); open(p, 'w').write({text!r})"
    return TWICE % json.dumps(f"python3 -c {shlex.quote(code)}")


@pytest.mark.parametrize("trusted", [True, False])
def test_an_agent_that_writes_the_script_of_a_persons_hook_runs_nothing_on_the_host(
    own: Fleet, person: Path, trusted: bool
) -> None:
    marker, ran, script = person / "marker", person / "ran", own.workspace / "no_force.py"
    good = f'import pathlib\ntry:\n    pathlib.Path("{ran}").write_text("x")\nexcept OSError:\n    pass\n'
    script.write_text(good)
    put(person, on("PreToolUse", OWN, "Bash"))
    if trusted:
        trust(own)
    job = submit(own, writing(EVIL.format(marker=marker)), mode="acceptEdits")
    job.wait(30)
    assert not marker.exists() and script.read_text() == good
    runs = [run for entry in journal(own, job) if isinstance(entry, Hooked) for run in entry.runs]
    assert [run.outcome for run in runs] == ["ok", "ok"]
    assert ran.exists() is trusted, "on the host only what the person trusts, pinned; else in the sandbox"


def test_a_script_that_comes_with_a_clone_does_not_run_on_the_host(own: Fleet, person: Path) -> None:
    marker = person / "marker"
    put(person, on("PreToolUse", OWN, "Bash"))
    (own.workspace / "no_force.py").write_text(EVIL.format(marker=marker))
    job = submit(own, TWICE % '"true"')
    assert any("no_force.py" in warning for warning in job.warnings)
    job.wait(30)
    assert heard(own, job)["PreToolUse"].runs and not marker.exists()


@pytest.mark.parametrize(
    "command",
    [
        "cd h && sh a.sh",
        "bash -c './h/a.sh x'",
        "sh h/*.sh",
        "S=h/a.sh; sh $S",
        "true | sh h/a.sh",
        "/usr/bin/env sh h/a.sh",
        "make",
        "h/../h/a.sh",
        '"$CLAUDE_PROJECT_DIR"//h/a.sh',
        "a.sh",
    ],
)
def test_no_other_way_to_a_script_of_the_workspace_runs_on_the_host(own: Fleet, person: Path, command: str) -> None:
    marker = person / "marker"
    put(person, on("PreToolUse", command, "Bash"))
    (own.workspace / "h").mkdir()
    for name in ("h/a.sh", "a.sh"):
        (own.workspace / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (own.workspace / name).chmod(0o755)
    (own.workspace / "Makefile").write_text(f"all:\n\ttouch {marker}\n")
    job = submit(own, TWICE % '"true"')
    job.wait(30)
    assert heard(own, job)["PreToolUse"].runs and not marker.exists()


def test_a_persons_script_outside_of_the_workspace_runs_on_the_host(own: Fleet, person: Path) -> None:
    ran = person / "ran"
    scripts = person / ".claude" / "hooks"
    scripts.mkdir(parents=True)
    (scripts / "note.py").write_text(f"import sys, helper; helper.note('{ran}', sys.argv[1:])")
    (scripts / "helper.py").write_text("def note(path, words): open(path, 'a').write(' '.join(words))")
    (scripts / "direct").write_text(f"#!/bin/sh\necho direct >>{ran}")
    (scripts / "direct").chmod(0o755)
    put(
        person,
        {
            **on("PreToolUse", "python3 ~/.claude/hooks/note.py '$not;run' a", "Bash"),
            **on("PostToolUse", f"{scripts}/direct", "Bash"),
        },
    )
    submit(own, TWICE % '"true"').wait(60)
    assert not ran.exists() or "direct" in ran.read_text()
    put(person, on("PreToolUse", "python3 ~/.claude/hooks/note.py one two", "Bash"))
    ran.unlink(missing_ok=True)
    submit(own, TWICE % '"true"').wait(60)
    assert ran.read_text() == "one twoone two"


def test_what_agents_leave_where_hooks_are_told_leads_nowhere(own: Fleet, person: Path) -> None:
    """The transcript and the channels of a hook are no links that an agent's process made."""
    victim, heard_of = person / "victim", person / "heard"
    scripts = person / ".claude" / "hooks"
    scripts.mkdir(parents=True)
    (scripts / "note.py").write_text(
        "import json, os, sys\ntold = json.load(sys.stdin)\n"
        f"open('{heard_of}', 'a').write(str(os.path.getsize(told['transcript_path']) > 0))\n"
    )
    put(person, {**on("PreToolUse", "python3 ~/.claude/hooks/note.py", "Bash"), **on("PostToolUse", "cat >&2; exit 2")})
    command = f'for n in transcript.jsonl hook.json hook.err; do ln -s {victim} "$HOME/$n"; done; ls "$HOME"'
    job = submit(own, TWICE % json.dumps(command))
    job.wait(30)
    assert not victim.exists() and heard_of.read_text() == "TrueTrue"
    told = [entry for entry in journal(own, job) if isinstance(entry, Hooked) and entry.name == "PostToolUse"]
    assert "transcript_path" in told[0].text


@pytest.mark.parametrize("whose", ["user", "managed"])
def test_a_script_that_is_not_what_it_was_is_not_run(
    unmanned: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    script, marker = workspace / "check.sh", home / "marker"
    script.write_text("true")
    settings = {"user_hooks": "host", "sandbox": "off" if whose == "managed" else "auto"}
    put(home, on("PreToolUse", "sh check.sh", "Bash"), ".claude/settings.json" if whose == "user" else "managed.json")
    if whose == "managed":
        settings["managed_hooks"] = home / "managed.json"
    server = unmanned.rehearse(TWICE % '"touch made"')
    fleet_workspace, unmanned.workspace = unmanned.workspace, workspace
    try:
        if whose == "user":
            trust(unmanned)
        job = submit(unmanned, base_url=server.url, workspace=workspace)
    finally:
        unmanned.workspace = fleet_workspace
    script.write_text(f"touch {marker}")
    run_here(unmanned, job, server.url, **settings)
    assert not marker.exists()
    [first, *_] = [entry for entry in journal(unmanned, job) if isinstance(entry, Hooked)]
    [run] = first.runs
    assert run.outcome == "not_run"
    if whose == "user":
        assert "check.sh has changed since the job was submitted" in run.why
    else:
        assert first.decision == "deny" and "a required hook of the operator failed" in first.reason
    results = [entry for entry in journal(unmanned, job) if isinstance(entry, ToolFinished)]
    assert results[0].is_error is (whose == "managed")


def test_a_hook_of_a_persons_plugin_runs_on_the_host_from_the_content_that_was_added(
    own: Fleet, person: Path, tmp_path: Path
) -> None:
    marker, plugin = person / "marker", tmp_path / "kit"
    hooks = {"hooks": on("PreToolUse", 'sh "${CLAUDE_PLUGIN_ROOT}/mark.sh"', "Bash")}
    (plugin / "hooks").mkdir(parents=True)
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    (plugin / "mark.sh").write_text(
        f'echo seen >> "$CLAUDE_PLUGIN_DATA/seen" && cp "$CLAUDE_PLUGIN_DATA/seen" {marker}\n'
    )
    add_plugin(PluginSpec(str(plugin)), person)
    (plugin / "mark.sh").write_text("exit 2\n")
    job = submit(own, TWICE % '"true"')
    job.wait(30)
    assert [run.outcome for run in heard(own, job)["PreToolUse"].runs] == ["ok"]
    seen = marker.read_text()
    submit(own, TWICE % '"true"').wait(30)
    assert seen and marker.read_text() == 2 * seen, "its data outlives the job"
