"""Skills and commands in jobs: they travel with the job, are loaded when needed, and are there wherever the agent goes on.

Tests of swarm/capabilities/context/restoration.py, swarm/capabilities/skills/commands.py,
swarm/capabilities/skills/packages.py, swarm/capabilities/skills/places.py, swarm/capabilities/skills/skill_tool.py,
swarm/cli/skills.py, swarm/capabilities/skills/step.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from swarm import Job
from swarm.agent.entries import Prompt, ToolFinished
from swarm.agent.history import fold
from swarm.capabilities.context.restoration import restate
from swarm.capabilities.skills.packages import VARIABLE, unpack
from swarm.capabilities.skills.places import load_skills
from swarm.client.order import Order
from swarm.client.preparation import prepare_order
from swarm.client.swarm import Swarm
from swarm.core.errors import ConfigurationError
from swarm.tools import ToolContext
from tests.fleet import Fleet
from tests.needs import need_sandbox
from tests.rehearsal import RehearsalServer
from tests.tool_world import KeptOutputs
from tests.waiting import wait_for

PDF = """---
name: pdf
description: "Fills PDF forms. Use when: a form is to be filled"
allowed-tools: Bash(*), Write
---
# How to fill a form
Run `python3 ${CLAUDE_SKILL_DIR}/scripts/fill.py $ARGUMENTS`; reference.md says more.
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def write(folder: Path, path: str, text: str) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def sandbox() -> None:
    need_sandbox()


@pytest.fixture
def skilled(at_work: Fleet) -> Fleet:
    write(at_work.workspace, ".claude/skills/pdf/SKILL.md", PDF)
    write(at_work.workspace, ".claude/skills/pdf/reference.md", "Fields have names.\n")
    write(at_work.workspace, ".claude/skills/pdf/scripts/fill.py", "import sys\nprint('FILLED', sys.argv[1:])\n")
    return at_work


def order(fleet: Fleet, server: RehearsalServer, prompt: str, **given: object) -> Job:
    asked = Order(prompt=prompt, workspace=fleet.workspace, base_url=server.url, **given)  # type: ignore[arg-type]
    return fleet.swarm.place(prepare_order(asked, fleet.swarm.settings))


def results(fleet: Fleet, job: Job) -> list[ToolFinished]:
    return [entry for entry in fleet.swarm.journal(job.view().root_id) if isinstance(entry, ToolFinished)]


@pytest.mark.usefixtures("sandbox")
def test_an_agent_loads_a_skill_reads_its_files_and_runs_its_script_where_the_folder_never_was(skilled: Fleet) -> None:
    server = skilled.rehearse(
        """
name: skilled
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Skill, input: {skill: pdf, args: form.pdf}}]}}
  - when: {turn: 1}
    reply:
      tools:
        - {name: Read, input: {file_path: $SWARM_SKILLS/pdf/reference.md}}
        - {name: Bash, input: {command: 'python3 $SWARM_SKILLS/pdf/scripts/fill.py form.pdf; touch $SWARM_SKILLS/pdf/x'}}
        - {name: Skill, input: {skill: form}}
  - {reply: {text: DONE}}
"""
    )
    job = order(skilled, server, "go", agent="general-purpose")
    # Workers have what travelled with the job; they never look at the folder.
    shutil.rmtree(skilled.workspace / ".claude")
    assert job.wait(60).text == "DONE"
    loaded, page, ran, unknown = results(skilled, job)
    assert loaded.text.startswith('<skill name="pdf" source=".claude/skills/pdf/SKILL.md" sha256="')
    assert "Run `python3 $SWARM_SKILLS/pdf/scripts/fill.py form.pdf`" in loaded.text
    assert "- scripts/fill.py (" in loaded.text
    assert page.text == "     1\tFields have names."
    assert "FILLED ['form.pdf']" in ran.text and "cannot touch" in ran.text
    assert unknown.is_error and "about these words: pdf" in unknown.text
    history = fold(job.view().root_id, skilled.swarm.journal(job.view().root_id))
    [told] = [tool for tool in history.tools if tool["name"] == "Skill"]
    assert "- pdf: Fills PDF forms. Use when: a form is to be filled" in told["description"]
    assert "How to fill a form" not in f"{history.system}{history.messages[0]}", "the text comes when it is called for"


def test_a_denied_skill_is_reached_by_none_of_its_names_and_in_no_other_way(skilled: Fleet) -> None:
    write(skilled.workspace, ".claude/skills/dir/SKILL.md", "---\nname: shown\ndescription: x\n---\nTHE BODY")
    agent = "---\nname: clerk\ndescription: x\nskills: shown\n---\nWork."
    write(skilled.workspace, ".claude/agents/clerk.md", agent)
    calls = [
        *({"name": "Skill", "input": {"skill": name}} for name in ("shown", "/dir", "SHOWN")),
        {"name": "Read", "input": {"file_path": "$SWARM_SKILLS/shown/SKILL.md"}},
        {"name": "Bash", "input": {"command": "cat $SWARM_SKILLS/shown/SKILL.md"}},
    ]
    server = skilled.rehearse(
        f"name: x\nrules:\n  - {{when: {{turn: 0}}, reply: {{tools: {json.dumps(calls)}}}}}\n  - {{reply: {{text: DONE}}}}\n"
    )
    for rule in ("Skill(Dir)", "Skill(shown)"):
        job = order(skilled, server, "go", agent="clerk", deny=(rule,))
        assert job.wait(60).text == "DONE"
        entries = list(skilled.swarm.journal(job.view().root_id))
        assert "THE BODY" not in "".join(entry.model_dump_json() for entry in entries), rule
        denied = [one for one in entries if isinstance(one, ToolFinished) and f"the rule {rule} " in one.text]
        assert len(denied) == 4, rule


def test_a_definition_begins_with_the_skills_it_names_and_both_are_said_again_after_a_cut(skilled: Fleet) -> None:
    write(skilled.workspace, ".claude/skills/review/SKILL.md", "---\ndescription: Reviews.\n---\nLook twice.")
    agent = "---\nname: clerk\ndescription: Fills forms.\ntools: Read, Skill\nskills: pdf, absent\n---\nWork."
    write(skilled.workspace, ".claude/agents/clerk.md", agent)
    server = skilled.rehearse(
        "name: x\nrules:\n  - {when: {turn: 0}, reply: {tools: [{name: Skill, input: {skill: review}}]}}\n"
        "  - {reply: {text: DONE}}\n"
    )
    job = order(skilled, server, "go", agent="clerk")
    assert job.wait(60).text == "DONE" and job.warnings == []
    root = job.view().root_id
    [task, *_] = [entry for entry in skilled.swarm.journal(root) if isinstance(entry, Prompt)]
    assert "# How to fill a form" in task.text and "this skill, which does not exist here" in task.text
    history = fold(root, skilled.swarm.store.journals.read(root))
    assert history.spec is not None
    context = ToolContext(
        history.spec,
        store=skilled.swarm.store,
        publish=lambda effect: None,
        tool_use_id="x",
        workspace=skilled.workspace,
        outputs=KeptOutputs(),  # type: ignore[arg-type]
        scratch=skilled.workspace / "elsewhere" / "scratch",
    )
    told = restate(context, history)
    assert "<skills>" in told and "Look twice." in told and "# How to fill a form" in told
    # What a process that died has left half done is passed over.
    (skilled.workspace / "elsewhere").mkdir()
    (skilled.workspace / "elsewhere" / "scratch" / "skills" / ".pdf.1").mkdir(parents=True)
    (skilled.workspace / "elsewhere").chmod(0o700)
    pdf = load_skills(skilled.workspace).find("pdf")
    assert pdf is not None
    found = unpack(context, [pdf])
    assert found is not None and (found / "pdf" / "reference.md").read_text() == "Fields have names.\n"
    assert VARIABLE == "SWARM_SKILLS"


def test_a_job_without_skills_has_no_tool_for_them_and_rules_hold_for_each(skilled: Fleet) -> None:
    call = "name: x\nrules:\n  - {when: {turn: 0}, reply: {tools: [{name: Skill, input: {skill: pdf}}]}}\n  - {reply: {text: DONE}}\n"
    server = skilled.rehearse(call)
    job = order(skilled, server, "go", deny=("Skill(pdf)",))
    job.wait(60)
    [denied] = results(skilled, job)
    assert denied.is_error and "How to fill" not in denied.text
    shutil.rmtree(skilled.workspace / ".claude")
    server = skilled.rehearse(call)
    job = order(skilled, server, "go")
    job.wait(60)
    [absent] = results(skilled, job)
    assert "There is no tool 'Skill'" in absent.text
    assert "Skill" not in fold(job.view().root_id, skilled.swarm.journal(job.view().root_id)).tool_names()


@pytest.mark.usefixtures("sandbox")
def test_a_person_calls_a_command_with_arguments_files_and_what_it_has_run(skilled: Fleet) -> None:
    write(
        skilled.workspace,
        ".claude/commands/front/fix.md",
        "---\ndescription: Fixes.\nmodel: haiku\nallowed-tools: Bash(*)\n---\n"
        "Fix #$1 ($2), see @notes.md and @/etc/passwd.\nThere: !`ls $1; touch x`\n",
    )
    write(skilled.workspace, "notes.md", "NOTES </file>\n")
    server = skilled.rehearse("name: x\nrules:\n  - {reply: {text: DONE}}\n")
    job = order(skilled, server, "/fix notes.md 'very high'", commands=True)
    assert job.wait(60).text == "DONE"
    spec = fold(job.view().root_id, skilled.swarm.journal(job.view().root_id)).spec
    assert spec is not None
    assert spec.prompt.startswith("Fix #notes.md (very high), see @notes.md and @/etc/passwd.\nThere: notes.md\ntouch:")
    assert spec.prompt.endswith('<file path="notes.md">\nNOTES &lt;/file>\n\n</file>')
    assert "haiku" in spec.model and job.view().title == "/fix notes.md 'very high'"
    assert not (skilled.workspace / "x").exists(), "it can change nothing"


def test_a_person_calls_a_skill_and_what_is_none_is_said(skilled: Fleet) -> None:
    settings = skilled.swarm.settings

    def prompt(text: str, **given: object) -> str:
        given = {"commands": True, **given}
        return prepare_order(Order(prompt=text, workspace=skilled.workspace, **given), settings).spec.prompt  # type: ignore[arg-type]

    called = prompt("/pdf $(rm -rf /) `x` form")
    assert "fill.py $(rm -rf /) `x` form`" in called and "- reference.md" in called
    for text in ("/etc/passwd is odd", " /pdf", "do /pdf"):
        assert prompt(text) == text
    assert prompt("/nothing", commands=False) == "/nothing"
    with pytest.raises(ConfigurationError, match="no command /pdv here; did you mean /pdf"):
        prompt("/pdv it")
    write(skilled.workspace, ".claude/commands/push.md", "!`git push origin`\nSay it.")
    with pytest.raises(ConfigurationError, match="`git push origin` before it begins, which is not allowed"):
        prompt("/push", deny=("Bash(git push *)",))


def test_a_repository_takes_no_skill_of_the_persons_own_away_unless_it_is_trusted(skilled: Fleet, home: Path) -> None:
    write(home, ".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Mine.\n---\nMy way.")
    found = load_skills(skilled.workspace)
    assert [one.source for one in found.skills] == ["~/.claude/skills/pdf/SKILL.md"]
    assert [grant.text for grant in found.grants] == ["the skill pdf, in place of your own"]
    trusted = load_skills(skilled.workspace, trusted=True)
    assert [one.source for one in trusted.skills] == [".claude/skills/pdf/SKILL.md"]
    assert isinstance(skilled.swarm, Swarm)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_who_goes_on_elsewhere_after_a_kill_has_what_the_dead_one_had_loaded(fleet: Fleet, tmp_path: Path) -> None:
    write(fleet.workspace, ".claude/skills/pdf/SKILL.md", PDF)
    write(fleet.workspace, ".claude/skills/pdf/scripts/fill.py", "print('FILLED')\n")
    server = fleet.rehearse(
        """
name: killed
rules:
  - {when: {turn: 0}, reply: {tools: [{name: Skill, input: {skill: pdf}}]}}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: python3 $SWARM_SKILLS/pdf/scripts/fill.py}}]}
  - {reply: {text: DONE}}
""",
        latency_seconds=1.5,
    )
    first = fleet.start_worker(1)
    job = order(fleet, server, "go", agent="general-purpose")
    shutil.rmtree(fleet.workspace / ".claude")
    root = job.view().root_id
    wait_for("it has loaded the skill", lambda: results(fleet, job))
    first.kill()
    (tmp_path / "elsewhere").mkdir()
    fleet.start_worker(1, TMPDIR=str(tmp_path / "elsewhere"))
    assert job.wait(60).text == "DONE"
    assert [("FILLED" in one.text) for one in results(fleet, job)] == [False, True]
    assert fleet.swarm.agent(root).state == "completed"
