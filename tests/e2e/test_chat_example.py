"""The chat page of examples/, on the API alone, in a real browser, while the server of the API is restarted.

Tests of examples/chat, swarm/web/stream.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.store.api_keys import SCOPES, ApiKeys
from tests.fleet import Fleet
from tests.needs import need_program
from tests.serving import serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat"
SERVER = ("uvicorn", "app:app", "--timeout-graceful-shutdown", "1")
SCENARIO = """
name: chat
rules:
  - when: {last_text: "and then"}
    reply: {text: "Then I rested."}
  - when: {turn: 0, prompt: "push"}
    reply: {tools: [{name: Bash, input: {command: "git push", description: "push"}}]}
  - reply: {text: "<b>Nothing</b> was pushed."}
"""


@pytest.mark.long
def test_a_conversation_over_a_restart_of_the_server(fleet: Fleet) -> None:
    browser_program = need_program("chromium")
    from playwright.sync_api import expect, sync_playwright

    token = ApiKeys(fleet.swarm.store.keyspace).create("chat", SCOPES)
    (fleet.workspace / ".claude").mkdir()
    (fleet.workspace / ".claude" / "settings.json").write_text('{"permissions": {"ask": ["Bash(git push:*)"]}}')
    fleet.start_worker(1, SWARM_BASE_URL=fleet.rehearse(SCENARIO).url)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_program)
        page = browser.new_page()
        page.on("dialog", lambda dialog: dialog.accept(token))
        with serving(fleet, *SERVER, cwd=EXAMPLE) as url:
            page.goto(f"{url}/?workspace={fleet.workspace}")
            page.get_by_label("Your message").fill("push it")
            page.get_by_role("button", name="Send").click()
            page.get_by_role("button", name="deny").wait_for()
        # The server is gone and comes back; the page goes on by itself.
        with serving(fleet, *SERVER, cwd=EXAMPLE, port=int(url.rpartition(":")[2])):
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
