"""The page as a person uses it, in Chromium: look, answer, write, cancel, start; against real Flower and real workers.

Tests of swarm/client/acts.py, swarm/web/static.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from swarm.core.ids import root_agent_id
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import Site


def question_box(tab: Tab) -> Any:
    return tab.page.locator(".question")


def test_a_job_is_started_its_plan_approved_and_its_question_answered(site: Site, tab: Tab) -> None:
    page = tab.open("#/start")
    page.set_viewport_size({"width": 1200, "height": 640})  # a click fails where something lies over the button
    page.get_by_role("textbox", name="Task", exact=True).fill("Greet me")
    page.get_by_label("Folder it works in").fill(str(site.fleet.workspace))
    page.get_by_role("combobox", name="Mode", exact=True).select_option("plan")
    page.get_by_role("button", name="Start").click()
    expect(tab.role("status")).to_contain_text("The job has begun")
    box = question_box(tab)
    expect(box).to_contain_text("asks you to approve a plan")
    expect(box.get_by_role("heading", name="A greeting")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\([1-9]\d*\) Greet me"))
    box.get_by_role("combobox", name="Mode from now on").select_option("default")
    box.get_by_role("button", name="Approve the plan").click()
    box.get_by_role("button", name="中文").click()
    expect(box).to_contain_text("asks for permission")
    expect(box.locator(".diff-new")).to_contain_text("Hello, in 中文!")
    box.get_by_label("Why not").fill("not now")
    box.get_by_role("button", name="Deny").click()
    expect(tab.role("log")).to_contain_text("I was not allowed to write greeting.txt.")
    expect(tab.role("treeitem").first).to_contain_text("completed")
    assert not (site.fleet.workspace / "greeting.txt").exists()


def test_who_was_slower_is_told_who_answered(site: Site, tab: Tab) -> None:
    job = site.tell("hold")
    question = site.question(job)
    page = tab.open(f"#/{job.id}")
    box = question_box(tab)
    expect(box).to_contain_text("May I go on?")
    page.route(
        "**/api/questions/**", lambda route: (site.fleet.swarm.answer(question, "no", by="ada"), route.continue_())
    )
    box.get_by_label("In your own words").fill("certainly")
    box.get_by_role("button", name="Answer").click()
    expect(tab.role("status")).to_contain_text(re.compile("ada|answered|closed"))


def test_what_an_event_from_outside_is_waited_for_is_shown_and_nobody_is_asked(site: Site, tab: Tab) -> None:
    job = site.tell("await")
    site.question(job)
    page = tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("treeitem").first).to_contain_text("waiting for the event page/1")
    box = question_box(tab)
    expect(box).to_contain_text("waits for an event")
    expect(box).to_contain_text("swarm event page/1")
    expect(tab.role("log").locator(".call")).to_contain_text("waits for the event page/1")
    expect(box.get_by_role("button")).to_have_count(0)
    site.fleet.swarm.event("page/1", "it came")
    expect(box).to_have_count(0)
    expect(page.get_by_role("log")).to_contain_text("it came")


def test_a_message_is_sent_and_then_read_in_a_turn(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me")
    site.wait_begun()
    page = tab.open(f"#/{job.id}")
    page.get_by_label("Message to the root").fill("hello there")
    page.get_by_role("button", name="Send").click()
    expect(tab.role("status")).to_have_text("Sent to the root")
    expect(page.get_by_label("Your last messages")).to_contain_text("sent, not read yet")
    site.let_go()
    expect(page.get_by_label("Your last messages")).to_contain_text("read in turn 2")
    expect(tab.role("log")).to_contain_text("I have read it.")
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}?tab=mail")
    expect(page.get_by_label("mail", exact=True)).to_contain_text("read in turn 2")


def test_cancelling_says_how_many_end(site: Site, tab: Tab) -> None:
    job = site.tell("branch", mode="default")
    page = tab.open(f"#/{job.id}")
    expect(tab.role("treeitem")).to_have_count(3)
    expect(page.locator(".asking-count")).to_have_text("2 questions for you")
    tab.role("treeitem").first.click()
    expect(tab.role("treeitem").first).to_contain_text("2 ask below")
    page.get_by_role("button", name="Cancel …").click()
    dialog = tab.role("dialog")
    expect(dialog).to_contain_text("3 agents end")
    dialog.get_by_label("Reason").fill("enough")
    dialog.get_by_role("button", name="3 agents: cancel").click()
    expect(tab.role("status")).to_have_text("3 agents ended")
    expect(tab.role("treeitem").nth(2)).to_contain_text("cancelled")
    expect(page.locator(".asking")).to_have_count(0)


def test_an_edit_is_shown_as_what_it_changes_with_its_result_folded_in(site: Site, tab: Tab) -> None:
    (site.fleet.workspace / "notes.txt").unlink(missing_ok=True)
    job = site.tell("edit")
    job.wait(60)
    tab.open(f"#/{job.id}")
    calls = tab.page.locator(".call")
    expect(calls).to_have_count(2)
    expect(calls.nth(1).locator(".diff-old")).to_contain_text("two")
    expect(calls.nth(1).locator(".diff-new")).to_contain_text("three")
    expect(calls.nth(1)).to_contain_text("done")
    expect(tab.page.locator(".item-result")).to_have_count(0)
    # A link to an entry moves the transcript, and not the page's head out of sight.
    tab.page.set_viewport_size({"width": 1000, "height": 500})
    tab.open(f"#/{job.id}/{job.view().root_id}/3")
    expect(calls.first).to_be_visible()
    assert tab.page.evaluate("[document.documentElement.scrollHeight, scrollY]") == [500, 0]


def test_jobs_are_grouped_by_what_needs_the_person_and_the_filter_is_in_the_address(site: Site, tab: Tab) -> None:
    asks, ended = site.tell("hold"), site.tell("be done")
    site.question(asks)
    ended.wait(60)
    page = tab.open("#/")
    group = tab.role("region", name=re.compile("Needs you"))
    expect(group.get_by_role("link", name="hold").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^Ended")).click()
    page.get_by_role("searchbox").fill("be done")
    expect(page).to_have_url(re.compile(r"#/\?show=ended&q=be\+done$"))
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("be done")
    expect(tab.role("region", name=re.compile("Needs you"))).to_have_count(0)
    expect(tab.role("region", name=re.compile("Ended")).get_by_role("link")).to_have_count(1)
    asks.cancel()


def test_what_a_rehearsal_would_have_cost_is_told_as_such(site: Site, tab: Tab) -> None:
    job = site.tell("be done")
    job.wait(60)
    row = site.flower.read(f"jobs/{job.id}/snapshot")["job"]
    assert row["rehearsed"] and row["cost_usd"] == 0 < row["reckoned_usd"]
    page = tab.open(f"#/{job.id}?panel=cost")
    expect(page.locator(".cost-sum")).to_contain_text("this was rehearsed")
    shown = page.locator(".cost-sum b").inner_text()
    assert float(shown.removeprefix("$")) == pytest.approx(row["reckoned_usd"], abs=0.0005)
    expect(page.locator(".job-head")).to_contain_text("rehearsed")
