"""Pictures of the page, narrow and wide, light and dark: `python -m dev.page_pictures FOLDER`.

They are of real jobs: a fleet with rehearsed models, one job of which is done, one asks for a plan to be approved, one for leave to
write, one has a board that is full.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from swarm import Job
from swarm.demo import prepare_demo
from tests.e2e.browser import Tab, running_chromium
from tests.fleet import Fleet
from tests.flower import running_flower
from tests.waiting import wait_for

SIZES = ((400, 860), (1600, 960))
SCHEMES = ("light", "dark")
_ASKS_FOR_LEAVE = """
name: leave
rules:
  - when: {turn: 0}
    reply:
      thinking: The changelog has a line for every release.
      text: I will add the line for this release to the changelog.
      tools:
        - name: Write
          input: {file_path: CHANGELOG.md, content: "# Changes\\n\\n## 1.4\\n\\n- VAT is rounded once per line.\\n"}
  - reply: {text: The changelog is written.}
"""


def take_pictures(folder: Path) -> list[Path]:
    """Make the jobs, and all pictures of them; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Fleet()) as fleet:
        fleet.start_worker(6)
        with running_flower(fleet) as flower, running_chromium() as browser:
            places = _places(_Jobs(fleet))
            return [
                path
                for width, height in SIZES
                for scheme in SCHEMES
                for path in _shoot(lambda **more: Tab(browser, flower, **more), places, folder, width, height, scheme)
            ]


def _shoot(
    open_tab: Callable[..., Tab], places: dict[str, str], folder: Path, width: int, height: int, scheme: str
) -> list[Path]:
    tab = open_tab(viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-GB")
    made = []
    for name, place in places.items():
        page: Any = tab.open(place)
        page.locator("#swarm h1:visible, #swarm h2:visible").first.wait_for()
        page.wait_for_function("() => !document.querySelector('#swarm [aria-busy=true]')")
        page.wait_for_timeout(300)  # for what the first patch brings
        made.append(folder / f"{name}-{width}-{scheme}.png")
        page.screenshot(path=str(made[-1]))
    tab.close()
    return made


class _Jobs:
    """The jobs that are looked at, each come so far that there is something to see."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        demo = prepare_demo(fleet.folder / "till")
        self.workspace = demo.workspace
        self.tree = self._start(demo.prompt, "demo", mode="bypassPermissions", title="correct the rounding of VAT")
        self.team = self._start("Describe this workspace in a short report", "team")
        self.plan = self._start("Greet whoever comes in", "ask", mode="plan")
        self.leave = self._start("Add this release to the changelog", _ASKS_FOR_LEAVE, mode="default")
        for job in (self.tree, self.team):
            job.wait(120)
        for job in (self.plan, self.leave):
            wait_for("it asks", lambda job=job: fleet.swarm.questions.open(job.id))

    def _start(self, prompt: str, scenario: str, **given: Any) -> Job:
        server = self._fleet.rehearse(scenario)
        return self._fleet.swarm.submit(
            prompt, agent="build", workspace=self.workspace, base_url=server.url, ask_seconds=3_600, **given
        )

    def agent(self, job: Job, label: str) -> str:
        """The job's agent whose label has this in it."""
        return next(agent.id for agent in job.agents() if label in agent.label)


def _places(jobs: _Jobs) -> dict[str, str]:
    root = jobs.agent(jobs.tree, "build")
    return {
        "jobs": "#/",
        "tree": f"#/{jobs.tree.id}",
        "agent": f"#/{jobs.tree.id}/{root}",
        "child": f"#/{jobs.tree.id}/{jobs.agent(jobs.tree, 'explore')}",
        "plan": f"#/{jobs.plan.id}/{jobs.agent(jobs.plan, 'build')}",
        "question": f"#/{jobs.leave.id}/{jobs.agent(jobs.leave, 'build')}",
        "timeline": f"#/{jobs.tree.id}?panel=timeline",
        "board": f"#/{jobs.team.id}?panel=board",
        "cost": f"#/{jobs.tree.id}?panel=cost",
        "start": "#/start",
    }


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m dev.page_pictures FOLDER")
    for path in take_pictures(Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
