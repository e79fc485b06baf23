"""`swarm top` on a real fleet, driven by keys: fleet, job, agent; reading, writing, answering, cancelling.

Tests of swarm/cli/screens/app.py, swarm/cli/screens/dialogs.py, swarm/cli/screens/notices.py, swarm/cli/screens/pages.py,
swarm/cli/screens/list_screen.py, swarm/cli/top.py.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, RichLog, Static

from swarm.cli.screens.app import Top
from swarm.cli.screens.dialogs import ConfirmDialog, LineDialog, QuestionDialog
from swarm.cli.screens.notices import find_news
from swarm.cli.screens.pages import AgentScreen, FleetScreen, JobScreen
from tests.e2e.cli_world import ROOT, World
from tests.e2e.page_world import Grove
from tests.e2e.terminal import Terminal
from tests.fleet import Fleet

SLOW = "TREE depth=1 fanout=2 steps=40 think=500"
Driving = Callable[[Pilot[None]], Coroutine[Any, Any, None]]


def _drive(top: Top, keys: Driving, size: tuple[int, int] = (100, 30)) -> None:
    async def run() -> None:
        async with top.run_test(size=size) as pilot:
            await keys(pilot)

    asyncio.run(run())


async def _until(pilot: Pilot[None], what: str, probe: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, f"did not happen: {what}"
        await pilot.pause(0.05)


def _lines(top: Top) -> list[str]:
    listed = top.screen.query_one(OptionList)
    return [str(listed.get_option_at_index(at).prompt) for at in range(listed.option_count)]


def _heading(top: Top) -> str:
    return str(top.screen.query_one("#heading, #asked", Static).render())


def test_enter_goes_from_the_fleet_to_a_job_to_an_agent_and_escape_back(at_work: Fleet) -> None:
    job = at_work.submit("TREE depth=1 fanout=2 steps=1", at_work.rehearse())
    job.wait(60)
    top = Top(at_work.swarm)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(pilot, "the job is listed", lambda: any(job.id in line for line in _lines(top)))
        listed = top.screen.query_one(OptionList)
        listed.highlighted = [listed.get_option_at_index(at).id for at in range(listed.option_count)].index(job.id)
        assert "rehearsed" in next(line for line in _lines(top) if job.id in line)
        await pilot.press("enter")
        await _until(
            pilot, "its agents are listed", lambda: isinstance(top.screen, JobScreen) and len(_lines(top)) == 3
        )
        assert "tree branch 0" in _lines(top)[1] and "tree branch 1" in _lines(top)[2]
        await pilot.press("j", "enter")
        await _until(pilot, "the agent's life is read", lambda: isinstance(top.screen, AgentScreen))
        history = top.screen.query_one(RichLog)
        await _until(pilot, "to its end", lambda: any("completed" in line.text for line in history.lines))
        await pilot.press("escape", "escape")
        assert isinstance(top.screen, FleetScreen)

    _drive(top, keys)


def test_a_message_is_written_and_a_cancel_names_how_much_it_ends(at_work: Fleet) -> None:
    job = at_work.submit(SLOW, at_work.rehearse())
    top = Top(at_work.swarm, job.id)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(
            pilot, "its agents are listed", lambda: isinstance(top.screen, JobScreen) and len(_lines(top)) == 3
        )
        await pilot.press("m")
        await _until(pilot, "it asks for the text", lambda: isinstance(top.screen, LineDialog))
        await pilot.press(*"hello", "enter")
        root = job.view().root_id
        await _until(pilot, "it is sent", lambda: at_work.swarm.mailbox(root).messages)
        assert at_work.swarm.mailbox(root).messages[0].body == "hello"
        await pilot.press("c")
        await _until(pilot, "it asks whether", lambda: isinstance(top.screen, ConfirmDialog))
        assert "(3 agents)" in _heading(top)
        await pilot.press("x")
        await _until(pilot, "no is no", lambda: isinstance(top.screen, JobScreen))
        assert not job.view().ended
        await pilot.press("c")
        await _until(pilot, "it asks again", lambda: isinstance(top.screen, ConfirmDialog))
        await pilot.press("y")
        await _until(pilot, "it is cancelled", lambda: job.view().state == "cancelled")

    _drive(top, keys)


def test_the_next_question_is_shown_in_full_and_answered(at_work: Fleet) -> None:
    job = at_work.swarm.submit("Greet me", workspace=at_work.workspace, base_url=at_work.rehearse("ask").url)
    top = Top(at_work.swarm, job.id)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(pilot, "it asks", lambda: isinstance(top.screen, JobScreen) and "asks you" in "".join(_lines(top)))
        await pilot.press("n")
        await _until(pilot, "it is shown", lambda: isinstance(top.screen, QuestionDialog))
        assert "2. Deutsch" in str(top.screen.query_one("#detail", Static).render())
        asked = top.screen.query_one("#asked", Static)
        assert asked.region.width * asked.region.height >= len(str(asked.render())), "the heading is cut"
        await pilot.press("2", "enter")
        await _until(pilot, "it goes on to its end", lambda: job.view().ended)

    _drive(top, keys)
    [question] = at_work.swarm.questions.of_job(job.id)
    assert (question.answer, question.by) == ("Deutsch", "user")
    assert (at_work.workspace / "greeting.txt").read_text() == "Hello, in Deutsch!\n"


def test_leaving_ends_nothing_and_a_filter_shows_the_jobs_with_its_words(at_work: Fleet) -> None:
    job = at_work.swarm.submit(
        SLOW, title="find the needle", workspace=at_work.workspace, base_url=at_work.rehearse().url
    )
    top = Top(at_work.swarm)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(pilot, "jobs are listed", lambda: any(job.id in line for line in _lines(top)))
        await pilot.press("slash", *"needle", "enter")
        await _until(pilot, "only it is", lambda: len(_lines(top)) == 1)
        assert "find the needle" in _lines(top)[0]
        await pilot.press("q")

    _drive(top, keys)
    assert not job.view().ended


def test_of_a_large_tree_the_list_has_a_thousand_lines_at_most_and_a_cancel_counts_all(unmanned: Fleet) -> None:
    grove = Grove(unmanned, 1_100)
    top = Top(unmanned.swarm, grove.job_id)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(pilot, "it is listed", lambda: isinstance(top.screen, JobScreen) and _lines(top))
        assert "1100 agents" in _heading(top) and 11 < len(_lines(top)) <= 1_000
        listed = top.screen.query_one(OptionList)
        [first, *_] = [at for at in range(listed.option_count) if "queued" in _lines(top)[at]]
        assert listed.get_option_at_index(first).disabled, "a summary cannot be opened"
        grove.live(0)
        await _until(pilot, "what happens is shown", lambda: any("step 3" in line for line in _lines(top)))
        await pilot.press("c")
        await _until(pilot, "it asks whether", lambda: isinstance(top.screen, ConfirmDialog))
        assert "(1100 agents)" in _heading(top)

    _drive(top, keys)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_ids_are_whole_on_every_width(at_work: Fleet, width: int) -> None:
    job = at_work.submit("TREE depth=0 fanout=0 steps=1", at_work.rehearse())
    job.wait(60)
    top = Top(at_work.swarm)

    async def keys(pilot: Pilot[None]) -> None:
        await _until(pilot, "the job is listed", lambda: any(job.id in line for line in _lines(top)))
        await pilot.pause()
        assert job.id in top.export_screenshot().replace("&#160;", " ")

    _drive(top, keys, (width, 30))


def test_who_looks_elsewhere_is_told_of_a_question_and_of_an_end(at_work: Fleet) -> None:
    quiet = {"id": "job-1", "questions": 0, "state": "running", "title": "a\x1b[2Jb"}
    asks, ended = {**quiet, "questions": 1}, {**quiet, "state": "timed_out"}
    assert find_news({"job-1": quiet}, {"job-1": asks}) == ["asks you: a\x1b[2Jb"]
    assert find_news({"job-1": asks}, {"job-1": ended, "job-2": quiet}) == ["timed out: a\x1b[2Jb"]
    assert find_news({"job-1": ended}, {"job-1": ended}) == []

    class OnFleet:
        command = World.command

        def environment(self) -> dict[str, str]:
            return {**at_work.environment(), "SWARM_REDIS_URL": at_work.url}

    terminal = Terminal(OnFleet(), "top")
    try:
        terminal.wait_for("active")
        job = at_work.swarm.submit("Greet\x07 me", workspace=at_work.workspace, base_url=at_work.rehearse("ask").url)
        terminal.wait_for("]9;swarm: asks you: Greet\\u0007 me\x07")
        assert b"\x07\x1b]9;swarm: asks you: Greet\\u0007 me\x07" in terminal.raw
        job.cancel()
        terminal.wait_for("]9;swarm: cancelled: Greet")
    finally:
        terminal.hang_up()


def test_without_a_terminal_it_says_what_prints_the_same(world: World) -> None:
    ran = world.run("top")
    assert ran.returncode == 2 and b"swarm jobs" in ran.stderr


def test_no_other_command_loads_what_draws_it() -> None:
    probe = (
        "import sys, importlib, swarm.cli.app as app\n"
        "for home in (home for section in app.SECTIONS.values() for home in section.values()):\n"
        "    importlib.import_module('swarm.cli.' + home.partition(':')[0])\n"
        "sys.exit('textual' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", probe], cwd=ROOT, timeout=60).returncode == 0
