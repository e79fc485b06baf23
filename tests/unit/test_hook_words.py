"""Which hooks run on a host: what their words say without a shell, and where what they name lies.

Tests of swarm/capabilities/hooks/table.py, swarm/capabilities/hooks/files.py, swarm/capabilities/hooks/placement.py,
swarm/definitions/hook_commands.py, swarm/definitions/hooks.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from swarm.capabilities.hooks.files import FoundHooks, Managed, find_hooks
from swarm.capabilities.hooks.placement import Run, leads_through, place_hook
from swarm.capabilities.hooks.table import HookTable
from swarm.definitions.hook_commands import grant_of, read_words
from swarm.definitions.hooks import Hook, Hooks
from swarm.permissions.calls import JudgedCall
from swarm.permissions.judge import judge


def hook(command: str, **given: object) -> Hook:
    return Hook.model_validate(
        {"event": "Stop", "kind": "command", "command": command, "origin": "user", "source": "s", **given}
    )


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, workspace = tmp_path / "home", tmp_path / "w"
    (home / ".claude" / "hooks").mkdir(parents=True)
    (home / ".claude" / "hooks" / "a.py").write_text("pass")
    monkeypatch.setenv("HOME", str(home))
    (workspace / "h").mkdir(parents=True)
    (workspace / "h" / "a.sh").write_text("#!/bin/sh\ntrue\n")
    return workspace


def place(command: str, workspace: Path, *, trusted: bool = True, **given: object) -> Run:
    digest = hashlib.sha256((workspace / "h" / "a.sh").read_bytes()).hexdigest()
    job = Hooks(workspace=str(workspace), files={"h/a.sh": digest}, trusted=trusted)
    return place_hook(hook(command, **given), HookTable(job, (), Managed(Hooks()), "host"), workspace)


@pytest.mark.parametrize(
    "command",
    [
        *("a.sh", "make", "npm test", "python3 -m x", "python3 -c pass", "sh -c h/a.sh", "bash -e h/a.sh", "jq .x"),
        *("cd h && sh a.sh", "sh h/a.sh | cat", "sh h/a.sh; ls", "sh $H/a.sh", "sh h/?.sh", "sh h/{a,b}.sh", "sh `x`"),
        *(
            "sh h/a.sh >x",
            "sh h/a.sh <x",
            "sh h/a.sh &",
            "sh\nh/a.sh",
            "X=1 sh h/a.sh",
            "! sh h/a.sh",
            "sh 'h/a.sh",
            "sh",
        ),
        *("/usr/bin/env sh h/a.sh", "/usr/bin/make", "eval sh", ". h/a.sh", "sh # h/a.sh", "sh h/b.sh", "./h/b.sh", ""),
        *(
            "sh $CLAUDE_PROJECT_DIRX/h/a.sh",
            "sh h\\/a.sh",
            "( sh h/a.sh )",
            "sh .",
            "nosuch_interpreter h/a.sh",
        ),
    ],
)
def test_what_is_not_known_word_for_word_runs_in_the_sandbox(workspace: Path, command: str) -> None:
    run = place(command, workspace)
    assert run.place == "sandbox" and run.why, run


def test_a_program_of_the_system_is_no_script_even_where_the_path_does_not_name_its_folder(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for command in ("/usr/bin/env sh h/a.sh", "/usr/bin/make"):
        assert place(command, workspace).place == "sandbox", command


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("sh h/a.sh x", {}),
        ("./h/a.sh 'a b'", {}),
        ('"$CLAUDE_PROJECT_DIR"/h/a.sh', {}),
        ('bash "${SWARM_PROJECT_DIR}//h/./a.sh"', {}),
        ("/bin/sh $CLAUDE_PROJECT_DIR//h/a.sh", {}),
        ("sh", {"args": ["h/a.sh", "$(x)"]}),
    ],
)
def test_a_script_of_the_workspace_is_pinned_whatever_its_spelling(
    workspace: Path, command: str, given: dict[str, object]
) -> None:
    run = place(command, workspace, **given)
    assert (run.place, run.pinned, run.content) == ("host", "h/a.sh", b"#!/bin/sh\ntrue\n"), run
    assert run.argv[0].endswith("sh") and os.path.isabs(run.argv[0])
    assert place(command, workspace, trusted=False, **given).place == "sandbox"
    assert place(command, workspace, origin="managed", **given).why == "nothing pins h/a.sh"
    assert place(command, workspace, origin="project", **given) == Run("sandbox")


def test_a_changed_script_is_not_run_at_all(workspace: Path) -> None:
    before = place("sh h/a.sh", workspace)
    job = Hooks(files={"h/a.sh": "0" * 64}, trusted=True)
    run = place_hook(hook("sh h/a.sh"), HookTable(job, (), Managed(Hooks()), "host"), workspace)
    assert before.place == "host" and run.place == "off" and "has changed since" in run.why


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env -S sh -x", "#!/bin/sh ./evil", "#!evil", "#!/usr/bin/env evil", "echo"]
)
def test_a_script_that_names_no_interpreter_alone_is_not_run_on_the_host(workspace: Path, first: str) -> None:
    (workspace / "h" / "a.sh").write_text(f"{first}\n")
    assert place("./h/a.sh", workspace).place == "sandbox"


def test_programs_are_not_found_in_the_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = workspace / "bin" / "python3"
    evil.parent.mkdir()
    evil.write_text("#!/bin/sh\n")
    evil.chmod(0o755)
    link = workspace.parent / "link"
    link.symlink_to(workspace / "bin")
    monkeypatch.setenv("PATH", f"{evil.parent}:{link}:.:{os.environ['PATH']}")
    run = place("python3 ~/.claude/hooks/a.py", workspace)
    assert run.place == "host" and not leads_through(run.argv[0], [str(workspace)])
    assert not {str(evil.parent), str(link), "."} & set(run.variables["PATH"].split(":"))
    monkeypatch.setenv("PATH", f"{evil.parent}:{link}:.")
    assert place("python3 ~/.claude/hooks/a.py", workspace).place == "sandbox"
    assert place(f"{evil} ~/.claude/hooks/a.py", workspace).place == "sandbox"


def test_a_script_outside_runs_on_the_host_unless_its_way_leads_through_the_workspace(workspace: Path) -> None:
    home = Path(os.environ["HOME"])
    assert place("python3 ~/.claude/hooks/a.py", workspace).place == "host"
    assert place("~/.claude/hooks/a.py", workspace, origin="managed").place == "host"
    (workspace / "out").symlink_to(home / ".claude" / "hooks")
    (home / "in").symlink_to(workspace / "out")
    assert place("python3 ~/in/a.py", workspace).place == "sandbox"
    assert place(f"python3 {workspace.parent}/x/../w/h/a.sh", workspace).pinned == "h/a.sh"
    job = Hooks(workspace=str(workspace))
    elsewhere = place_hook(hook(f"sh {workspace}/h/a.sh"), HookTable(job, (), Managed(Hooks()), "host"), home)
    assert elsewhere.place == "sandbox", "an agent that works on a copy, and a script in the person's folder"


def found_hooks(workspace: Path, command: str, where: str) -> FoundHooks:
    home = Path(os.environ["HOME"])
    place = (home if where == "own" else workspace) / ".claude" / "settings.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}))
    return find_hooks(workspace, home)


@pytest.mark.parametrize("where", ["own", "project"])
def test_the_whole_script_is_trusted_and_changing_it_is_asked_about(workspace: Path, where: str) -> None:
    script = workspace / "h" / "a.sh"
    script.write_bytes(b"#" * (3 << 20) + b"\ntrue\n")
    found = found_hooks(workspace, "sh $CLAUDE_PROJECT_DIR//h/a.sh", where)
    [grant] = found.grants
    assert "h/a.sh" in grant.text and list(found.holding(trusted=False).files) == ["h/a.sh"]
    for tool, given in (("Write", {"file_path": "h/a.sh"}), ("Bash", {"command": "cat >h/a.sh"})):
        call = JudgedCall(tool, given, found.rules, "acceptEdits", workspace, sandboxed=True)
        assert judge(call).action == "ask"
    script.write_bytes(b"#" * (3 << 20) + b"\nevil\n")
    assert find_hooks(workspace, Path(os.environ["HOME"])).grants != found.grants


@pytest.mark.parametrize("command", ["cd h && sh a.sh", "bash -c './h/a.sh x'", "make"])
def test_a_repositorys_hook_that_is_not_pinned_is_said_to_be(workspace: Path, command: str) -> None:
    [grant] = found_hooks(workspace, command, "project").grants
    assert command in grant.text and "not pinned: it can run anything in this folder, in the sandbox" in grant.text
    assert "not pinned" not in grant_of(hook("sh h/a.sh"), workspace).text


def test_the_words_of_a_person_stay_words(workspace: Path) -> None:
    words = read_words(hook("python3 ~/.claude/hooks/a.py 'a b' c=d"), workspace)
    assert words.argv == ("python3", f"{os.environ['HOME']}/.claude/hooks/a.py", "a b", "c=d") and not words.file
