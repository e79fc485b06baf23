"""A workflow at work, in the terminal, in `top` and in the page: its phases with their agents, its place, its costs and its values.

Tests of swarm/client/workflow_calls.py, swarm/web/panels/workflows.py, swarm/web/static/panels/workflow.mjs, swarm/cli/workflows.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from textual.widgets import OptionList

from swarm import Job
from swarm.cli.screens.app import Top
from swarm.cli.screens.pages import JobScreen
from swarm.client.event_feed import stream
from swarm.client.operations import Invocation
from swarm.client.workflow_calls import get_workflow_calls, read_calls
from swarm.streaming.events import AgentSpawned, Notice
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import Site
from tests.e2e.terminal import Terminal
from tests.waiting import wait_for

SCRIPT = """export const meta = { name: "seen", description: "Is seen." };
phase("review");
const found = await parallel(["a", "b", "wait for me"].map((what) => () =>
  agent(what, { label: `look ${what}` })));
phase("report");
log("3 are reviewed");
return await agent("sum up", { label: "sum" });
"""


@dataclass
class AtSite:
    """The command beside a site's fleet."""

    site: Site

    def environment(self, **variables: str) -> dict[str, str]:
        return {**self.site.fleet.environment(), **variables}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "swarm", *arguments]


@pytest.fixture(scope="module")
def job(site: Site) -> Iterator[Job]:
    """A workflow whose first phase lacks one agent."""
    pytest.importorskip("quickjs")
    folder = site.fleet.workspace / ".claude" / "workflows"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seen.js").write_text(SCRIPT)
    job = site.tell("{}", agent="seen")
    site.wait_begun()
    wait_for("the others have ended", lambda: sum(agent.ended for agent in job.agents()) == 2)
    wait_for("it waits", lambda: job.agents()[0].state == "parked")
    yield job
    job.cancel()


def test_a_terminal_of_80_columns_shows_phases_with_their_agents_and_the_line_of_the_program(
    site: Site, job: Job
) -> None:
    terminal = Terminal(AtSite(site), "attach", job.id, size=(24, 80))
    try:
        for words in ("seen", "waiting in review, at line 4", "review  2 of 3", "look a", "look wait for me"):
            terminal.wait_for(words)
    finally:
        terminal.hang_up()
    calls = read_calls(site.fleet.swarm, job.view().root_id)
    assert calls.now == "waiting in review, at line 4"
    [review] = calls.phases
    assert (review.title, review.calls, review.done, review.failed) == ("review", 3, 2, 0)
    assert all(call.value is None for call in calls.calls)


def test_top_shows_the_same_tree(site: Site, job: Job) -> None:
    top = Top(site.fleet.swarm)

    async def look() -> list[str]:
        async with top.run_test(size=(80, 24)) as pilot:
            top.push_screen(JobScreen(job.id))
            for _ in range(600):
                listed = [one for one in top.screen.query(OptionList) if one.option_count > 3]
                if listed:
                    return [str(listed[0].get_option_at_index(at).prompt) for at in range(listed[0].option_count)]
                await pilot.pause(0.05)
            raise AssertionError("it showed no tree")

    lines = asyncio.run(look())
    assert any("review  2 of 3" in line for line in lines), lines
    assert any("at line 4" in line for line in lines), lines


def test_the_page_shows_phases_values_and_where_it_waits(tab: Tab, site: Site, job: Job) -> None:
    page = tab.open(f"#/{job.id}")
    rows = tab.role("treeitem")
    expect(rows.first).to_contain_text("in review, at line 4")
    expect(rows.nth(1)).to_contain_text("review")
    tab.role("tab", name="Phases").click()
    section = page.locator("section[aria-label=review]")
    expect(section).to_contain_text("2 of 3 calls")
    section.locator("summary").first.click()
    expect(section.locator("pre").first).to_have_text("It is done.")
    site.let_go()
    expect(page.locator("section[aria-label=report]")).to_contain_text("1 of 1 call")
    expect(page.locator(".cost-sum")).to_contain_text("completed")


def test_events_and_http_carry_phases_logs_and_values(site: Site, job: Job) -> None:
    site.let_go()
    assert job.wait(60).state == "completed"
    told = list(stream(site.fleet.swarm, job))
    assert [event.phase for event in told if isinstance(event, AgentSpawned)] == [*["review"] * 3, "report"]
    notes = [event.about for event in told if isinstance(event, Notice) and event.kind == "note"]
    assert [note["text"] for note in notes] == ["review", "report", "3 are reviewed"]
    found = get_workflow_calls(Invocation(site.fleet.swarm, "user"), job.view().root_id, values=True)
    assert [call.value for call in found.calls][-1] == "It is done."
    assert [phase.title for phase in found.phases] == ["review", "report"]
