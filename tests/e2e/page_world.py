"""What tests of the page look at: a fleet at work, a Flower in front of it, and jobs that ask, wait, speak and go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from swarm import Job
from swarm.agent.entries import Prompt, Started
from swarm.agent.spec import AgentSpec
from swarm.store.values import Claim
from tests.e2e.browser import Tab
from tests.fleet import Fleet
from tests.flower import Flower, running_flower
from tests.job_world import StoredJob
from tests.waiting import wait_for

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TALE = """
name: page
rules:
  - when: {prompt: 'wait for me', turn: 0}
    reply: {text: I will wait., tools: [{name: Bash, input: {command: 'touch begun; while [ ! -e go ]; do sleep 0.05; done'}}]}
  - when: {prompt: 'wait for me twice', turn: 1, uses: 1}
    reply: {text: Once more., tools: [{name: LS, input: {path: .}}]}
  - when: {summarizing: true}
    reply: {text: 'I **waited** EVIL once.'}
  - when: {prompt: 'hold', turn: 0}
    reply: {tools: [{name: AskUserQuestion, input: {question: 'May I go on?', options: ['yes', 'no']}}]}
  - when: {prompt: 'await', turn: 0}
    reply: {tools: [{name: WaitFor, input: {event: page/1}}]}
  - when: {prompt: 'branch', turn: 0}
    reply:
      tools:
        - {name: Agent, input: {description: first, prompt: edit, subagent_type: general-purpose}}
        - {name: Agent, input: {description: second, prompt: edit, subagent_type: general-purpose}}
  - when: {prompt: 'edit', turn: 0}
    reply: {tools: [{name: Write, input: {file_path: notes.txt, content: "one\\ntwo\\n"}}]}
  - when: {prompt: 'edit', last_result: 'notes\\.txt', turn: 1}
    reply: {tools: [{name: Edit, input: {file_path: notes.txt, old_string: two, new_string: three}}]}
  - when: {last_text: 'hello there'}
    reply: {text: I have read it.}
  - when: {prompt: 'evil', turn: 0}
    reply:
      thinking: 'EVIL'
      text: |-
        EVIL [click](javascript:alert(3)) ![x](http://evil.test/x.png)

        <svg onload=alert(4)>

        ```
        </code>EVIL
        ```
        ab\u202eba
      tools:
        - {name: ScratchpadWrite, input: {page: 'EVIL', content: 'EVIL'}}
        - {name: BoardAdd, input: {subject: 'EVIL', description: 'EVIL'}}
        - {name: SendMessage, input: {to: user, message: 'EVIL'}}
        - {name: Bash, input: {command: "echo 'EVIL'", description: 'EVIL'}}
  - when: {prompt: 'evil', turn: 1}
    reply: {tools: [{name: AskUserQuestion, input: {question: 'EVIL?', options: ['EVIL', 'no']}}]}
  - when: {prompt: 'speak'}
    reply: {text: 'SPEECH'}
  - reply: {text: It is done.}
faults:
  - {kind: slow, seconds: 4, when: {prompt: speak, turn: 1}, times: 1}
""".replace("EVIL", EVIL).replace("SPEECH", "word " * 300)


class Site:
    """A fleet at work, and the Flower in front of it."""

    def __init__(self, fleet: Fleet, flower: Flower) -> None:
        self.fleet, self.flower = fleet, flower
        self._tale = fleet.rehearse(TALE)

    @property
    def url(self) -> str:
        """Address of the rehearsal that its jobs ask."""
        return self._tale.url

    def tell(self, prompt: str, **given: Any) -> Job:
        """A job whose agents do what the prompt names."""
        for name in ("begun", "go"):
            (self.fleet.workspace / name).unlink(missing_ok=True)
        options = {"agent": "general-purpose", "workspace": self.fleet.workspace, "ask_seconds": 600, **given}
        return self.fleet.swarm.submit(prompt, base_url=self._tale.url, **options)

    def wait_begun(self) -> None:
        """A job that was told to wait does."""
        wait_for("it waits", (self.fleet.workspace / "begun").exists)

    def let_go(self) -> None:
        (self.fleet.workspace / "go").touch()

    def question(self, job: Job) -> str:
        """The id of the job's open question."""
        return wait_for("it asks", lambda: next((one.id for one in self.fleet.swarm.questions.open(job.id)), None))


@contextmanager
def running_site(**environment: str) -> Iterator[Site]:
    """A site of its own; `environment` is Flower's."""
    with closing(Fleet()) as fleet:
        fleet.start_worker(4, SWARM_BASE_URL=fleet.rehearse("ask").url)
        with running_flower(fleet, **environment) as flower:
            yield Site(fleet, flower)


@contextmanager
def opened_tab(browser: Any, flower: Flower, **options: Any) -> Iterator[Tab]:
    """A tab; in the end nothing may have gone wrong in it."""
    tab = Tab(browser, flower, **options)
    try:
        yield tab
        assert tab.noise == []
    finally:
        tab.close()


class Grove(StoredJob):
    """A job of many agents that no worker takes: ten below the root, who run, and below each as many as are left, in the queue."""

    BRANCHES = 10

    def __init__(self, fleet: Fleet, agents: int) -> None:
        super().__init__(fleet.swarm.store, fleet, max_running=1_000, max_agents=agents, max_depth=2)
        root = self._begin(self.spec)
        branches = {
            f"branch-{n}": self.child_spec(f"branch-{n}", description=f"branch {n}") for n in range(self.BRANCHES)
        }
        self.spawn_all(root, 2, branches)
        self.claims = [self._begin(spec) for spec in branches.values()]
        self._lengths = [2] * self.BRANCHES
        left = agents - 1 - self.BRANCHES
        for number, claim in enumerate(self.claims):
            more = left // self.BRANCHES + (number < left % self.BRANCHES)
            calls = [f"leaf-{number}-{n}" for n in range(more)]
            specs = {
                call: self.child_spec(call, claim.agent_id, depth=2, description=call.replace("-", " "))
                for call in calls
            }
            self.spawn_all(claim, 2, specs)

    def _begin(self, spec: AgentSpec) -> Claim:
        claim = self.take_claim(spec.agent_id)
        self.store.journals.append(claim, 1, [Started(spec=spec)])
        return claim

    def live(self, number: int) -> None:
        """Something happens in this branch; what, is in its row."""
        self._lengths[number] += 1
        happened = f"step {self._lengths[number]}"
        self.store.journals.append(
            self.claims[number], self._lengths[number], [Prompt(text="go on")], activity=happened
        )
