"""The chat page of examples/, on the API alone, in a real browser, while the server of the API is restarted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.needs import need_program
from tests.waiting import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat"
SCENARIO = """
name: chat
rules:
  - when: {last_text: "and then"}
    reply: {text: "Then I rested."}
  - when: {turn: 0, prompt: "push"}
    reply: {tools: [{name: Bash, input: {command: "git push", description: "push"}}]}
  - reply: {text: "<b>Nothing</b> was pushed."}
"""


@contextmanager
def serving(fleet: Fleet, port: int = 0) -> Iterator[int]:
    """The example as its first line says, for as long as this lasts; returns its port."""
    log = fleet.folder / "chat.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--timeout-graceful-shutdown", "1"],
            cwd=EXAMPLE,
            env={**fleet.environment(), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        found = wait_for("it serves", lambda: re.search(r"running on http://127.0.0.1:(\d+)", log.read_text()))
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    try:
        fleet.start_worker(2)
        yield fleet
    finally:
        fleet.close()


def test_a_conversation_over_a_restart_of_the_server(fleet: Fleet) -> None:
    browser_program = need_program("chromium")
    from playwright.sync_api import expect, sync_playwright

    token = ApiKeys(fleet.swarm.store).create("chat", SCOPES)
    (fleet.workspace / ".claude").mkdir()
    (fleet.workspace / ".claude" / "settings.json").write_text('{"permissions": {"ask": ["Bash(git push:*)"]}}')
    model = fleet.rehearse(SCENARIO).url
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program)
        page = browser.new_page()
        page.on("dialog", lambda dialog: dialog.accept(token))
        with serving(fleet) as port:
            page.goto(f"http://127.0.0.1:{port}/?workspace={fleet.workspace}&model={model}")
            page.get_by_label("Your message").fill("push it")
            page.get_by_role("button", name="Send").click()
            page.get_by_role("button", name="deny").wait_for()
        # The server is gone and comes back; the page goes on by itself.
        with serving(fleet, port):
            page.get_by_role("button", name="deny").click()
            # What a model says is text, whatever it looks like.
            expect(page.locator(".agent", has_text="<b>Nothing</b> was pushed.")).to_be_visible(timeout=20_000)
            page.get_by_label("Your message").fill("and then?")
            page.get_by_role("button", name="Send").click()
            expect(page.locator(".agent").last).to_have_text("Then I rested.", timeout=20_000)
            page.reload()
            expect(page.locator(".agent")).to_have_count(2, timeout=20_000)
            expect(page.locator(".me").last).to_have_text("and then?")
        browser.close()
