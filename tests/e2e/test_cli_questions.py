"""Questions as people meet them: in the terminal of `swarm run`, and through the commands that answer from elsewhere.

Tests of swarm/cli/permissions.py, swarm/cli/prompter.py, swarm/store/questions.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm import Settings, Swarm
from swarm.store.questions import Question
from tests.e2e.cli_world import World, wait_for_line
from tests.e2e.terminal import Terminal
from tests.waiting import wait_for

COMMANDS = """
name: commands
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Bash, input: {command: "touch one && echo first"}}]}
  - when: {turn: 1}
    reply: {tools: [{name: Bash, input: {command: "touch two"}}]}
  - reply: {text: "END {last_result}"}
"""
CHILDREN = """
name: children
rules:
  - when: {prompt: 'make one', turn: 0}
    reply: {tools: [{name: Write, input: {file_path: notes/one.txt, content: "made\\n"}}]}
  - when: {prompt: 'make two', turn: 0}
    reply: {tools: [{name: Write, input: {file_path: notes/two.txt, content: "made\\n"}}]}
  - when: {prompt: 'make'}
    reply: {text: "{last_result}"}
  - when: {turn: 0}
    reply:
      tools:
        - {name: Agent, input: {description: first child, prompt: make one}}
        - {name: Agent, input: {description: second child, prompt: make two}}
  - reply: {text: "END"}
"""
PLAN = """
name: plan
rules:
  - when: {turn: 0}
    reply: {tools: [{name: ExitPlanMode, input: {plan: "# Make it\\n1. write made.txt"}}]}
  - when: {last_result: 'not approved[\\s\\S]*say more'}
    reply: {tools: [{name: ExitPlanMode, input: {plan: "# Make it well\\n1. write made.txt"}}]}
  - when: {last_result: 'The plan is approved'}
    reply: {tools: [{name: Write, input: {file_path: made.txt, content: built}}]}
  - reply: {text: "END {last_result}"}
"""
WORDS = """
name: words
rules:
  - when: {turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: "Which colour?", options: [red, blue]}}]}
  - reply: {text: "END {last_result}"}
"""
LONG = """
name: long
rules:
  - when: {turn: 0}
    reply: {tools: [{name: Write, input: {file_path: long.txt, content: "LINES"}}]}
  - reply: {text: "END {last_result}"}
""".replace("LINES", "\\n".join(f"line {number}" for number in range(30)) + "\\nthe \\u202e end")
SCENARIOS = {"commands": COMMANDS, "children": CHILDREN, "plan": PLAN, "words": WORDS, "long": LONG}


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the scenarios above, by name."""
    folder = tmp_path_factory.mktemp("scenarios")
    for name, text in SCENARIOS.items():
        (folder / f"{name}.yaml").write_text(text)
    return {name: str(folder / f"{name}.yaml") for name in SCENARIOS}


class Desk:
    """A person's terminals and commands, in a workspace of their own beside a running stack."""

    def __init__(self, world: World, scenarios: dict[str, str], workspace: Path) -> None:
        self.world, self.workspace = world, workspace
        self.swarm = Swarm(Settings(state_dir=world.state))
        self._scenarios = scenarios
        self._terminals: list[Terminal] = []
        self._started: list[subprocess.Popen[bytes]] = []

    def arguments(self, scenario: str, *options: str) -> list[str]:
        return ["run", "--rehearse", self._scenarios[scenario], "-w", str(self.workspace), *options, "go"]

    def open_terminal(self, scenario: str, *options: str) -> Terminal:
        terminal = Terminal(self.world, *self.arguments(scenario, *options))
        self._terminals.append(terminal)
        return terminal

    def start(self, scenario: str, *options: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        """A job without a terminal whose questions can be answered, and its first question."""
        process = self.world.start(*self.arguments(scenario, "--ask-timeout", "10m", *options))
        self._started.append(process)
        line = next(line for line in wait_for_line(process, "swarm questions question-") if "`swarm questions" in line)
        question_id = line.partition("`swarm questions ")[2].split()[0].rstrip("`")
        return process, self.world.read_json("questions", question_id, "--json")

    def next_question(self, job_id: str) -> Question:
        """The open question of a job, once there is one."""
        wait_for("a question is asked", lambda: self.swarm.questions.open(job_id))
        return self.swarm.questions.open(job_id)[0]

    def do(self, *arguments: str) -> str:
        """What a command says that must succeed."""
        ran = self.world.run(*arguments)
        assert ran.returncode == 0, ran.stderr.decode()
        return (ran.stdout + ran.stderr).decode()

    def leave(self) -> None:
        for terminal in self._terminals:
            terminal.hang_up()
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def desk(stack: World, scenarios: dict[str, str], tmp_path: Path) -> Iterator[Desk]:
    workspace = tmp_path / "work"
    workspace.mkdir()
    found = Desk(stack, scenarios, workspace)
    yield found
    found.leave()


# -- in the terminal --------------------------------------------------------------------------------------


def test_the_terminal_asks_before_a_call_and_passes_a_refusal_on(desk: Desk) -> None:
    terminal = desk.open_terminal("commands", "--mode", "default")
    terminal.wait_for("build: go (agent-")
    assert "command: touch one && echo first" in terminal.wait_for("[y]es, [n]o, [a]lways")
    terminal.wait_for("[s]kip?")
    terminal.type("maybe\n")
    terminal.wait_for("[s]kip?")
    assert not (desk.workspace / "one").exists()
    terminal.type("y\n")
    terminal.wait_for("allowed this once")
    terminal.wait_for("command: touch two")
    terminal.wait_for("[s]kip?")
    assert (desk.workspace / "one").exists()
    terminal.type("n\n")
    terminal.wait_for("Why not?")
    terminal.type("not on a Sunday\n")
    code, text = terminal.finish()
    assert code == 0 and "END" in text and "not on a Sunday" in text.rpartition("END")[2]
    assert not (desk.workspace / "two").exists()


def test_questions_from_below_queue_up_and_a_lasting_yes_is_told_what_it_allows(desk: Desk) -> None:
    terminal = desk.open_terminal("children", "--mode", "default")
    terminal.wait_for("child (agent-")
    terminal.wait_for("+made")
    terminal.wait_for("[a]lways (from now on in this job: Write(/notes/**)")
    terminal.wait_for("[s]kip?")
    terminal.type("y\n")
    terminal.wait_for("allowed this once")
    terminal.wait_for("+made")
    terminal.wait_for("[s]kip?")
    terminal.type("always\n")
    terminal.wait_for("allowed, and from now on in this job")
    code, text = terminal.finish()
    assert code == 0 and "END" in text
    assert {path.name for path in (desk.workspace / "notes").iterdir()} == {"one.txt", "two.txt"}


def test_a_question_answered_elsewhere_leaves_the_terminal(desk: Desk) -> None:
    terminal = desk.open_terminal("commands", "--mode", "default")
    asked = terminal.wait_for("[s]kip?")
    (first,) = [word for word in asked.replace("(", " ").replace(",", " ").split() if word.startswith("question-")]
    terminal.type("y")  # not yet confirmed: it must not answer the next question
    desk.do("approve", first)
    terminal.wait_for("closed: answered by user")
    terminal.wait_for("command: touch two")
    terminal.wait_for("[s]kip?")
    terminal.type("s\n")
    terminal.wait_for("left open")
    closed = desk.swarm.questions.find(first)
    assert closed is not None and closed.state == "answered"
    waiting = desk.next_question(closed.job_id)
    assert waiting.title == "Bash touch two"
    terminal.wait_for("waits for an answer")
    desk.do("deny", waiting.id, "--reason", "one is enough")
    code, text = terminal.finish()
    assert code == 0 and "one is enough" in text


def test_ctrl_c_at_a_question_asks_about_the_job_and_the_question_comes_back(desk: Desk) -> None:
    terminal = desk.open_terminal("commands", "--mode", "default")
    terminal.wait_for("[s]kip?")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("r\n")
    terminal.wait_for("command: touch one")
    terminal.wait_for("[s]kip?")
    terminal.type("\x03")
    terminal.wait_for("[r]esume watching?")
    terminal.type("c\n")
    code, text = terminal.finish()
    assert code == 130 and "cancelled" in text
    asked = desk.swarm.questions.of_job(desk.swarm.jobs(1)[0].id)
    assert [question.state for question in asked] == ["void"]


def test_a_plan_is_sent_back_and_approved_with_a_mode(desk: Desk) -> None:
    terminal = desk.open_terminal("plan", "--mode", "plan")
    assert "asks you to approve a plan: Make it" in terminal.wait_for("1. write made.txt")
    terminal.wait_for("[r]eject")
    terminal.type("r say more\n")
    terminal.wait_for("sent back")
    terminal.wait_for("Make it well")
    terminal.wait_for("[r]eject")
    terminal.type("a nonsense\n")
    terminal.wait_for("no mode nonsense")
    terminal.type("a bypassPermissions\n")
    terminal.wait_for("approved, in the mode bypassPermissions")
    code, text = terminal.finish()
    assert code == 0 and "END" in text
    assert (desk.workspace / "made.txt").read_text() == "built"


def test_a_question_in_words_takes_the_number_of_an_answer(desk: Desk) -> None:
    terminal = desk.open_terminal("words")
    assert "asks: Which colour?" in terminal.wait_for("2. blue")
    terminal.wait_for("your answer in words")
    terminal.type("2\n")
    code, text = terminal.finish()
    assert code == 0 and "END blue" in text


def test_a_long_detail_is_shortened_says_so_and_hides_nothing(desk: Desk) -> None:
    terminal = desk.open_terminal("long", "--mode", "default")
    short = terminal.wait_for("more lines")
    assert "line 5" in short and "line 25" not in short
    terminal.wait_for("[s]kip?")
    terminal.type("d\n")
    assert "line 25" in terminal.wait_for("the \\u202e end")
    terminal.wait_for("[s]kip?")
    terminal.type("y\n")
    code, _ = terminal.finish()
    assert code == 0 and (desk.workspace / "long.txt").exists()


# -- from elsewhere ---------------------------------------------------------------------------------------


def test_a_job_without_a_terminal_is_answered_by_commands_and_shows_that_it_waits(desk: Desk) -> None:
    process, question = desk.start("commands", "--mode", "default")
    job_id, question_id = question["job_id"], question["question_id"]
    assert (question["kind"], question["title"]) == ("permission", "Bash touch one && echo first")
    assert question_id in desk.do("questions")
    shown = desk.do("questions", question_id[:-2])
    assert "command: touch one && echo first" in shown and f"swarm approve {question_id}" in shown
    (row,) = [line for line in desk.do("jobs").splitlines() if line.startswith(job_id)]
    assert "(asks)" in row
    assert "waits for an answer" in desk.do("tree", job_id)
    assert desk.world.read_json("status", "--json")["questions"] >= 1
    refused = desk.world.run("answer", question_id, "yes")
    assert refused.returncode == 2 and b"swarm approve" in refused.stderr
    assert "approved: Bash touch one" in desk.do("approve", question_id)
    again = desk.world.run("deny", question_id)
    assert again.returncode == 1 and b"was answered already" in again.stderr
    second = desk.next_question(job_id)
    desk.do("deny", second.id, "--reason", "one is enough")
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0 and b"one is enough" in out
    assert "approved by user" in desk.do("questions", job_id, "--all")
    told = desk.do("transcript", job_id)
    assert "✔ answered by user: Bash" in told and "✘ denied by user: Bash" in told and "waits for an answer" in told


def test_an_approval_for_good_and_words_and_a_schema(desk: Desk, tmp_path: Path) -> None:
    process, question = desk.start("words")
    wrong = desk.world.run("approve", question["question_id"])
    assert wrong.returncode == 2 and b"swarm answer" in wrong.stderr
    assert question["options"] == ["red", "blue"]
    desk.do("answer", question["question_id"], "something green")
    out, _ = process.communicate(timeout=90)
    assert out == b"END something green\n"
    process, question = desk.start("children", "--mode", "default")
    assert question["always"] == "Write(/notes/**)"
    assert question["always"] in desk.do("approve", question["question_id"], "--always")
    second = desk.next_question(question["job_id"])
    assert desk.do("permissions", "--job", question["job_id"]).startswith("1. Write(/notes/**)\n")
    assert "withdrawn: Write(/notes/**)" in desk.do("permissions", "--job", question["job_id"], "--withdraw", "1")
    again = desk.world.run("permissions", "--job", question["job_id"], "--withdraw", "1")
    assert again.returncode == 2 and b"has no lasting approval 1" in again.stderr
    desk.do("approve", second.id)
    out, _ = process.communicate(timeout=90)
    assert out == b"END\n"


def test_without_a_terminal_nobody_is_asked_and_the_call_is_denied(desk: Desk) -> None:
    ran = desk.world.run(*desk.arguments("commands", "--mode", "default"))
    assert ran.returncode == 0 and b"no one can be asked" in ran.stdout
    assert list(desk.workspace.iterdir()) == []


# -- rules, modes, schemas --------------------------------------------------------------------------------


def test_rules_of_the_command_line_hold_and_problems_of_settings_files_are_told(desk: Desk) -> None:
    settings = desk.workspace / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(touch one*)", "Read(("]}}))
    trusted = desk.world.run("trust", str(desk.workspace))
    assert trusted.returncode == 0 and b"allow Bash(touch one*)" in trusted.stdout
    ran = desk.world.run(
        *desk.arguments("commands", "--mode", "default", "--allow", "Bash(echo:*)", "--deny", "Bash(touch two)")
    )
    assert ran.returncode == 0
    assert b"Bash(touch two)" in ran.stdout and b"the command line" in ran.stdout
    assert b"note: " in ran.stderr and b"Read((" in ran.stderr
    assert (desk.workspace / "one").exists() and not (desk.workspace / "two").exists()


def test_a_rule_that_is_none_is_refused_before_anything_is_started(world: World) -> None:
    ran = world.run("run", "--rehearse", "hello", "-w", str(world.workspace), "--deny", "Bash((", "hi")
    assert ran.returncode == 2 and b"Bash((" in ran.stderr
    assert not world.state.exists()


def test_an_answer_with_a_schema_is_printed_as_json(desk: Desk, tmp_path: Path) -> None:
    scenario, schema = tmp_path / "count.yaml", tmp_path / "schema.json"
    scenario.write_text(json.dumps({"name": "count", "rules": [{"reply": {"text": '```json\n{"count":3}\n```'}}]}))
    schema.write_text(json.dumps({"type": "object", "properties": {"count": {"type": "integer"}}}))
    ran = desk.world.run(
        *("run", "-q", "--rehearse", str(scenario), "-w", str(desk.workspace), "--schema", str(schema), "go")
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert json.loads(ran.stdout) == {"count": 3}
    schema.write_text('{"type": "nonsense"}')
    ran = desk.world.run("run", "--rehearse", str(scenario), "--schema", str(schema), "go")
    assert ran.returncode == 2 and b"the result schema cannot be used" in ran.stderr


def test_the_permissions_of_a_workspace_are_listed_and_a_call_is_explained(world: World) -> None:
    settings = world.workspace / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": ["Bash(git log:*)", "Read(("], "deny": ["Bash(rm:*)"]}}))
    where = ("-w", str(world.workspace))
    listed = world.run("permissions", *where)
    assert listed.returncode == 0 and b"deny    Bash(rm:*)" in listed.stdout and b"Read((" in listed.stderr
    assert b"project settings" in listed.stdout
    denied = world.run("permissions", *where, "Bash", "cd x && rm -r y")
    assert denied.stdout.startswith(b"deny: ") and b"Bash(rm:*)" in denied.stdout
    asked = world.run("permissions", *where, "--mode", "default", "Bash", "git push origin main")
    assert b"look: it is first run" in asked.stdout and b"ask: " in asked.stdout
    assert b"--allow 'Bash(git push origin main)'" in asked.stderr
    told = world.read_json("permissions", *where, "--json", "--deny", "Edit(/src/**)", "Edit", '{"file_path": "src/a"}')
    assert told["action"] == "deny" and told["rule"]["source"] == "the command line"
    assert world.processes() == []
