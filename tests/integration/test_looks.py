"""Commands that no rule allows are tried where nothing can come of them; only what that is not enough for is asked about.

Tests of swarm/permissions/sandbox/backend.py, swarm/permissions/sandbox/probe.py, swarm/permissions/shell/kinds.py,
swarm/permissions/shell/looks.py.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from swarm.client.swarm import Job
from swarm.core.records import JobView
from swarm.permissions.sandbox import Backend, choose_backend
from swarm.store.questions import Question
from tests.fleet import Fleet
from tests.needs import need
from tests.unit.test_permissions_shell_everyday import EVERYDAY
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    backend = choose_backend("auto")
    need(isinstance(backend, Backend) and backend.name == "bubblewrap", "bubblewrap")


def make_project(root: Path) -> None:
    """A project in which everyday commands find what they name."""
    for folder in ("src", "tests", "node_modules"):
        (root / folder).mkdir()
    names = (
        "README.md",
        "x",
        "y",
        "a",
        "b",
        "a.py",
        "b.py",
        "src/a.py",
        "src/b.ts",
        "a.txt",
        "a.csv",
        "a.bin",
        "log.txt",
        "a.cfg",
        "a.b",
    )
    for name in names:
        (root / name).write_text("foo\n")
    (root / "package.json").write_text('{"scripts": {"build": "x"}, "version": "1"}')
    (root / "a.json").write_text('{"a": [{"b": 1}]}')
    (root / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    (root / "Makefile").write_text("x:\n\techo x\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    for step in (
        ("init", "-q"),
        ("add", "."),
        ("commit", "-qm", "first"),
        ("commit", "-q", "--allow-empty", "-m", "second"),
    ):
        subprocess.run(["git", *identity, *step], cwd=root, check=True)


def _submit(fleet: Fleet, *commands: str | dict[str, Any], **options: Any) -> Job:
    """A job whose agent makes these calls of Bash, one after the other, and says what came of the last."""
    inputs = [{"command": given} if isinstance(given, str) else given for given in commands]
    rules = "".join(
        f"  - when: {{turn: {turn}}}\n    reply: {{tools: [{{name: Bash, input: {json.dumps(given)}}}]}}\n"
        for turn, given in enumerate(inputs)
    )
    server = fleet.rehearse(f"name: looks\nrules:\n{rules}  - reply: {{text: '{{last_result}}'}}\n")
    options = {"mode": "default", "ask_seconds": 0} | options
    return fleet.swarm.submit("go", agent="general-purpose", workspace=fleet.workspace, base_url=server.url, **options)


def _run(fleet: Fleet, *commands: str | dict[str, Any], **options: Any) -> JobView:
    return _submit(fleet, *commands, **options).wait(60)


@pytest.mark.parametrize(
    "command",
    [
        'for f in *.txt; do wc -l "$f"; done | sort',
        "python3 -c 'print(sum(range(10)))'",
        "x=$(cat a.txt); [[ $x == one ]] && echo same",
        "cat <<EOF | tr a-z A-Z\nword\nEOF",
        "mktemp -d >/dev/null && echo made",
    ],
)
def test_a_look_is_not_asked_about_however_it_is_written(at_work: Fleet, command: str) -> None:
    (at_work.workspace / "a.txt").write_text("one\n")
    view = _run(at_work, command)
    assert "[looked: files were read-only" in view.text and "Not allowed" not in view.text
    assert at_work.swarm.questions.of_job(view.id) == []


def test_a_search_that_finds_nothing_is_a_look_that_failed_and_not_a_question(at_work: Fleet) -> None:
    text = _run(at_work, "grep -rn nowhere . || exit 3").text
    assert "[exit code 3]" in text and "[looked:" in text


@pytest.mark.parametrize(
    "command",
    [
        "touch made",
        "echo x > made",
        "touch made || true",
        'python3 -c \'open("made", "w")\'',
        "echo x > /tmp/made",
        "echo x > ~/made",
        {"command": "sleep 30", "timeout": 300},
        {"command": "true", "changes": True},
        {"command": "true", "run_in_background": True},
    ],
)
def test_what_a_look_is_not_enough_for_is_asked_about_and_then_run_for_real(
    at_work: Fleet, command: str | dict[str, Any]
) -> None:
    job = _submit(at_work, command, "ls; ls /tmp ~", ask_seconds=60)
    question = wait_for("a question is asked", lambda: next(iter(at_work.swarm.questions.open(job.id)), None))
    assert not (at_work.workspace / "made").exists()
    at_work.swarm.answer(question.id, "allow")
    text = job.wait(60).text
    if "made" in str(command):
        assert "made" in text


def test_the_question_says_what_the_look_did_not_have(at_work: Fleet) -> None:
    text = _run(at_work, "touch made").text
    assert "a look was not enough" in text and "Read-only file system" in text


def test_the_network_is_nothing_that_a_look_has(at_work: Fleet) -> None:
    command = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'"
    text = _run(at_work, command, mode="acceptEdits", network=True).text
    assert "a look was not enough" in text and "unreachable" in text


def test_a_silent_failure_says_that_it_was_only_a_look(at_work: Fleet) -> None:
    text = _run(at_work, "touch made 2>/dev/null; true").text
    assert "[looked: files were read-only" in text
    assert not (at_work.workspace / "made").exists()


def test_what_a_rule_denies_to_be_read_is_hidden_from_every_command(at_work: Fleet) -> None:
    (at_work.workspace / ".env").write_text("SECRET\n")
    (at_work.workspace / "keys").mkdir()
    (at_work.workspace / "keys" / "a").write_text("SECRET\n")
    backend = choose_backend("auto")
    assert isinstance(backend, Backend)
    for mode in ("default", "acceptEdits") if backend.name == "bubblewrap" else ("default",):
        for command in (
            "grep -rs . . ; true",
            "python3 -c 'import glob; print(open(glob.glob(\".e*\")[0]).read())'; ls keys",
        ):
            text = _run(at_work, command, deny=["Read(.env)", "Read(/keys/**)"], mode=mode).text
            assert "SECRET" not in text, (mode, command)


def test_a_denied_file_is_hidden_behind_links_and_outside_of_the_workspace(at_work: Fleet) -> None:
    (at_work.workspace / "config").mkdir()
    (at_work.workspace / "config" / "prod.txt").write_text("SECRET\n")
    (at_work.workspace / ".env").symlink_to("config/prod.txt")
    for command, deny in (
        ('python3 -c \'print(open(".e" + "nv").read())\'', "Read(.env)"),
        ("cat /e*/hostnam[e]; true", "Read(//etc/hostname)"),
    ):
        text = _run(at_work, f"{command}; echo ended", deny=[deny]).text
        assert "SECRET" not in text and socket.gethostname() not in text, (command, text)


def test_nobody_who_listens_in_the_workspace_hears_of_a_look(at_work: Fleet) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(at_work.workspace / "s"))
        listening.listen()
        listening.settimeout(0.2)
        _run(at_work, "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"s\")'; true")
        with pytest.raises(TimeoutError):
            listening.accept()


def test_a_look_that_prints_long_lines_or_leaves_deep_folders_ends(at_work: Fleet) -> None:
    text = _run(
        at_work, "head -c 200000 /dev/zero | tr '\\\\0' x; cd $TMPDIR && mkdir -p $(printf \"d/%.0s\" $(seq 1100))"
    ).text
    assert "[looked:" in text
    # Other tests' looks come and go beside it.
    wait_for("nothing is left", lambda: not [*Path(tempfile.gettempdir()).glob("swarm-*/*/look-*")])


def test_an_agent_in_the_mode_dont_ask_looks_and_is_denied_the_rest(at_work: Fleet) -> None:
    assert "[looked:" in _run(at_work, "ls | sort", mode="dontAsk").text
    assert "asks no questions" in _run(at_work, "touch made", mode="dontAsk").text


def test_a_rule_that_denies_or_asks_is_not_tried_first(at_work: Fleet) -> None:
    for options in ({"deny": ["Bash(id:*)"]}, {"ask": ["Bash(id:*)"]}):
        for command in ("id", "[ x ]# ; id", "x=1; echo ${x/<(id)/b}", "echo ${x#{a}; id }"):
            assert "uid=" not in _run(at_work, command, **options).text, (command, options)


def test_a_lasting_approval_is_of_its_kind_alone_and_can_be_withdrawn(at_work: Fleet) -> None:
    make_project(at_work.workspace)
    commands = ("git fetch a.b", "git fetch --prune a.b", "git fetch --upload-pack='touch P' .", "git fetch a.b")
    job = _submit(at_work, *commands, ask_seconds=60)
    questions = at_work.swarm.questions

    def asked(command: str) -> Question:
        found = wait_for("a question is asked", lambda: next(iter(questions.open(job.id)), None))
        assert json.loads(found.detail.rpartition("\n\n")[2])["command"] == command
        return found

    first = asked(commands[0])
    assert first.lasting_rule.startswith("Bash(git fetch a.b:*), only with plain words")
    at_work.swarm.answer(first.id, "allow", always=True)
    other = asked(commands[2])
    [rule] = questions.lasting(job.id)
    assert questions.withdraw(job.id, rule) and not questions.withdraw(job.id, rule)
    at_work.swarm.answer(other.id, "deny")
    at_work.swarm.answer(asked(commands[3]).id, "deny")
    job.wait(60)
    assert not (at_work.workspace / "P").exists()


@pytest.mark.long
def test_hardly_any_everyday_command_is_asked_about(at_work: Fleet) -> None:
    make_project(at_work.workspace)
    calls = ", ".join(json.dumps({"name": "Bash", "input": {"command": command}}) for command in EVERYDAY)
    server = at_work.rehearse(
        f"name: everyday\nrules:\n  - when: {{turn: 0}}\n    reply: {{tools: [{calls}]}}\n  - reply: {{text: done}}\n"
    )
    job = at_work.swarm.submit(
        "go", agent="general-purpose", workspace=at_work.workspace, base_url=server.url, mode="default", ask_seconds=0
    )
    job.wait(120)
    denied = [event.fields for event in job.follow() if event is not None and event.kind == "denied"]
    assert len(denied) <= 6, [(fields["call"], fields["why"]) for fields in denied]
