"""The pages, followed to the letter: their files are written, their commands and their Python run, in the page's order.

The fleet is real; a script plays the model, wherever a page does not say so itself. Words in capitals (`JOB`, `MAP` …) are what the
world of the page has for them.

Tests of docs.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml
from standardwebhooks import Webhook

from swarm.capabilities.governor.view import read_classes
from tests.documents import PAGES as DOCUMENTS
from tests.documents import ROOT, blocks
from tests.e2e.prepared import prepared_commands
from tests.fleet import Fleet
from tests.flower import free_port
from tests.needs import need_program, need_sandbox
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

SCENARIO = """
name: pages
batches: {seconds: 0.2}
rules:
  - when: {definition: grader}
    reply: {text: '{"passed": true, "findings": [], "summary": "All is met."}'}
  - when: {prompt: "Sort ticket"}
    reply: {text: '{"kind": "question"}'}
  - when: {prompt: "How many tests"}
    reply: {text: '{"count": 3}'}
  - when: {prompt: "Ask whether", turn: 0}
    reply: {tools: [{name: Bash, input: {command: "touch made"}}]}
  - when: {prompt: "Ask which", turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: "Which one?", options: [red, blue]}}]}
  - when: {prompt: "wait for the event", turn: 0}
    reply: {tools: [{name: WaitFor, input: {key: ci/1234}}]}
  - when: {prompt: "wait for the event"}
    reply: {text: "It says: {last_result}"}
  - when: {prompt: "Replace the date library", turn: 0}
    reply: {tools: [{name: ExitPlanMode, input: {plan: "1. Replace it."}}]}
  - when: {prompt: "steps", turn: 1-2}
    reply: {tools: [{name: Glob, input: {pattern: "*"}}]}
  - when: {prompt: "Write a file|steps", turn: 0}
    reply: {tools: [{name: Write, input: {file_path: made.txt, content: "made\\n"}}]}
  - when: {last_text: "How far are you"}
    reply: {tools: [{name: SendMessage, input: {to: user, message: "Half way."}}]}
  - reply: {text: "It is done."}
"""


@dataclass
class Place:
    """Where a page is followed: its shell's folder and variables."""

    fleet: Fleet
    folder: Path
    environment: dict[str, str]
    words: dict[str, str | list[str]] = field(default_factory=dict)
    """What stands for the words in capitals; of a list one after the other."""

    def run(self, script: str) -> str:
        """Run it in a shell, to its end; what it printed."""
        ran = subprocess.run(
            ["bash", "-c", f"set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ran.returncode == 0, (script, ran.stdout[-2000:], ran.stderr[-2000:])
        return ran.stdout

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def follow(self, name: str) -> str:
        """Do what the page says; what its commands printed."""
        return self.run("\n".join(self._steps(ROOT / name)))

    def _steps(self, page: Path) -> Iterator[str]:
        for block in blocks(page):
            text = re.sub(r"(?<![$\w])(?:%s)(?![\w=])" % ("|".join(self.words) or "(?!)"), self._word, block.text)
            match block.kind, block.language:
                case "file", _:
                    yield f"mkdir -p \"$(dirname {block.file})\" && cat > {block.file} <<'END OF FILE'\n{text}END OF FILE"
                case "run", "python":
                    yield f"python <<'END OF FILE'\n{text}END OF FILE"
                case "run", "yaml":
                    yield from (step["run"] for step in yaml.safe_load(text))
                case "run", _:
                    yield text

    def _word(self, found: re.Match[str]) -> str:
        word = self.words[found[0]]
        return word if isinstance(word, str) else word.pop(0)


@pytest.fixture(scope="module")
def staffed() -> Iterator[tuple[Fleet, Path]]:
    """A fleet whose model is the script above, and the folder of its commands."""
    with ExitStack() as stack:
        fleet = stack.enter_context(closing(Fleet()))
        model = {
            "SWARM_BASE_URL": fleet.rehearse(SCENARIO).url,
            "ANTHROPIC_API_KEY": "any",
            "SWARM_BATCH_SECONDS": "0.2",
        }
        fleet.begin_worker(4, **model)
        commands = stack.enter_context(prepared_commands())
        fleet.workers[0].wait_ready()
        yield fleet, commands


@pytest.fixture
def place(staffed: tuple[Fleet, Path], tmp_path: Path) -> Place:
    need_sandbox()
    fleet, commands = staffed
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    environment = {
        **fleet.environment(),
        "SWARM_REDIS_URL": fleet.url,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "EDITOR": "true",
    }
    return Place(fleet, folder, environment)


def job_of(place: Place, *options: str) -> str:
    """The id of a job that has run to its end."""
    job = place.run(f"swarm run --detach {' '.join(options)}").strip()
    place.run(f"swarm wait {job}")
    return job


def given_a_job(place: Place) -> None:
    place.words["JOB"] = job_of(place, "--snapshots", '"Take steps."')
    place.words["AGENT"] = place.fleet.swarm.job(place.words["JOB"]).view().root_id


def given_a_class(place: Place) -> None:
    given_a_job(place)
    place.words["CLASS"] = read_classes(place.fleet.swarm.store)[0].name


def given_two_jobs(place: Place) -> None:
    given_tests(place)
    given_a_job(place)
    place.words["OTHER"] = job_of(place, "--snapshots", '"Take steps, too."')


def given_a_copy(place: Place) -> None:
    place.words["JOB"] = job_of(place, "--isolation worktree", '"Write a file."')


def given_lines(place: Place) -> None:
    place.write("a.py", "print()\n")
    place.write("tickets.jsonl", '{"id": 1, "title": "Where is it?"}\n{"id": 2, "title": "Why?"}\n')
    place.write("category.json", '{"type": "object", "properties": {"kind": {"type": "string"}}}')
    place.run("git init -q . && git add a.py")
    place.words["MAP"] = "$(swarm maps list | awk '/Review/ && !found {print $1; found = 1}')"


def given_memories(place: Place) -> None:
    given_a_job(place)
    place.write("some/folder/notes/api.md", "The API answers in JSON.\n")
    place.run("swarm memory import project:reviewer some/folder")


def given_skills(place: Place) -> None:
    for folder, name in ((".", "pdf"), ("repo", "pdf")):
        place.write(
            f"{folder}/.claude/skills/{name}/SKILL.md",
            f"---\nname: {name}\ndescription: Fills in forms.\n---\nFill in.\n",
        )
    place.write(".claude/commands/fix-issue.md", "---\ndescription: Fix one.\n---\nFix issue $1, $2.\n")


def given_questions(place: Place) -> None:
    asking = ["Ask whether", "Ask whether", "Ask which"]
    jobs = [place.run(f'swarm run --detach --mode default --ask-timeout 10m "{words}"').strip() for words in asking]
    place.words["QUESTION"] = [
        wait_for("it asks", lambda job=job: place.fleet.swarm.questions.of_job(job))[0].id for job in jobs
    ]


def given_tests(place: Place) -> None:
    place.write("test_it.py", "def test_it():\n    assert True\n")
    need_program("make")
    place.write("Makefile", "test:\n\t@true\n")
    place.write("rubric.md", "It is short.\n")
    place.write("count.json", '{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}')


def given_a_readme(place: Place) -> None:
    place.write("README.md", "# Ours\n")


def given_a_workflow(place: Place) -> None:
    need_program("jq")
    need_program("curl")
    port = str(free_port())
    place.words |= {"8400": port, "/srv/repositories/app": str(place.folder)}
    variables = {"URL": f"http://127.0.0.1:{port}/v1", "GITHUB_SHA": "abc", "GITHUB_RUN_ID": "7"}
    place.environment |= {**variables, "GITHUB_STEP_SUMMARY": "summary.md"}


def given_nothing(place: Place) -> None: ...


PAGES: dict[str, tuple[Callable[[Place], None], list[str]]] = {
    "README.md": (given_nothing, [r"^It is done\.$", r"^job_ended", r"^It is done\.$"]),
    "docs/cost.md": (given_nothing, ["It is done."]),
    "docs/events.md": (given_nothing, [r"^job-", r"False "]),
    "docs/files.md": (given_a_copy, [r"made\.txt", r"{'made.txt': 'A'}"]),
    "docs/http.md": (given_a_workflow, [r'{"job":{"id":"job-', "^true$"]),
    "docs/instruction-files.md": (given_nothing, ["tokens", "It is done."]),
    "docs/limits.md": (given_a_class, ["It is done.", "60 set by an operator", "by an operator"]),
    "docs/long-lives.md": (given_a_job, ["Take steps"]),
    "docs/maps.md": (given_lines, [r'"line": ?1', "Review", "a.py It is done."]),
    "docs/mcp.md": (given_nothing, ["issues", "docs"]),
    "docs/memory.md": (given_memories, ["The API answers in JSON."]),
    "docs/notifications.md": (given_nothing, []),
    "docs/operating.md": (given_nothing, ["1 worker"]),
    "docs/outcomes.md": (given_tests, ["It is done.", r'"count": ?3']),
    "docs/peers.md": (given_a_job, ["Half way."]),
    "docs/permissions.md": (given_questions, [r"touch", "make test", "1. Replace it."]),
    "docs/programs.md": (given_a_readme, [r"README.md 1, tools/counter.py 7"]),
    "docs/replay.md": (given_two_jobs, ["Take steps", "the same", r"completed +passed"]),
    "docs/skills.md": (given_skills, ["pdf", "Fill in.", "It is done."]),
    "docs/start.md": (
        given_nothing,
        [
            "Hello! This answer is rehearsed",
            r"One TODO: till.py:2:    return sum\(prices\)  # TODO: round to cents",
            r"My colleague says: \[todo-finder agent-",
            "└─ ✔ todo-finder: find the TODOs",
            r"job-\w+ completed ",
        ],
    ),
    "docs/summaries.md": (given_nothing, ["It is done."]),
    "docs/web.md": (given_nothing, ["It is done."]),
    "docs/workflows.md": (given_nothing, ["review: 2 calls before", r"^2$", r"Agent +a.py +done", "Audit a.py"]),
}
"""Of each page: what it takes for granted, and what its commands print."""

ELSEWHERE = {
    "docs/celery.md": "integration/test_celery_docs.py",
    "docs/fleet.md": "e2e/test_tutorials.py",
    "docs/hooks.md": "integration/test_hooks_in_jobs.py",
    "docs/own-tools.md": "e2e/test_own_tools_page.py",
}
"""Pages that another test follows."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_what_it_says(place: Place, name: str) -> None:
    given, says = PAGES[name]
    given(place)
    said = place.follow(name)
    assert not [pattern for pattern in says if not re.search(pattern, said, re.MULTILINE)], said


def test_the_receiver_of_the_page_takes_what_is_signed_and_nothing_else(place: Place) -> None:
    port, secret = free_port(), "whsec_" + base64.b64encode(b"k" * 24).decode()
    [receiver] = [block.text for block in blocks(ROOT / "docs/notifications.md") if block.file]
    place.write("receiver.py", receiver.replace("8099", str(port)))
    event = json.dumps(
        {"id": "job-1/7", "type": "swarm.job_ended.v1", "data": {"title": "Port it", "state": "completed"}}
    )
    now = datetime.now(UTC)
    signed = {
        "webhook-id": "job-1/7",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("job-1/7", now, event),
    }
    environment = {**place.environment, "SWARM_WEBHOOK_SECRET": secret}
    argv = [sys.executable, "-u", "receiver.py"]
    with subprocess.Popen(
        argv, cwd=place.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            wait_for("the receiver listens", lambda: _is_open(port))
            codes = [
                httpx.post(f"http://127.0.0.1:{port}", content=body, headers=signed).status_code
                for body in (event, event + " ")
            ]
            assert running.stdout and running.stdout.readline() == "swarm.job_ended.v1 Port it completed\n"
        finally:
            running.kill()
    assert codes == [204, 401]


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_every_page_with_blocks_to_run_is_followed() -> None:
    running = {block.page for page in DOCUMENTS for block in blocks(page) if block.kind == "run"}
    assert running == PAGES.keys() | ELSEWHERE.keys()
    assert all(Path(page).name in (ROOT / "tests" / test).read_text() for page, test in ELSEWHERE.items())
