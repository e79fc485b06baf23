"""What the page shows stays true while things break: reloads, hidden tabs, a worker's death, a Redis that restarts.

Tests of swarm/web/patches.py, swarm/web/stream.py, swarm/web/tab.py.
"""

from __future__ import annotations

import time
from typing import Any

from swarm.core.ids import root_agent_id
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import Site, opened_tab, running_site
from tests.waiting import wait_for

WORLD = """async () => {
  const {world} = await import("/swarm/static/world.mjs");
  const held = {agents: [...world.job.agents.values()], state: world.job.job.state, questions: world.job.questions.length};
  return {...held, entries: world.agent.entries.map((entry) => entry.n), length: world.agent.length, journal: world.agent.entries};
}"""


def compare(site: Site, tab: Tab, job_id: str) -> None:
    """What the page holds after all its patches is what a fresh snapshot holds."""
    held = tab.page.evaluate(WORLD)
    fresh = site.flower.read(f"jobs/{job_id}/snapshot")
    root = fresh["job"]["root_id"]
    journal = site.flower.read(f"agents/{root}/journal")
    assert (held["state"], held["questions"]) == (fresh["job"]["state"], len(fresh["questions"]))
    assert held["agents"] == fresh["agents"]
    assert held["journal"] == journal["entries"]
    assert held["entries"] == list(range(1, journal["length"] + 1))


def test_what_the_patches_came_to_is_what_a_fresh_look_finds(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me")
    site.wait_begun()
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("treeitem").first).to_contain_text("running")
    site.let_go()
    expect(tab.role("treeitem").first).to_contain_text("completed")
    expect(tab.role("log")).to_contain_text("It is done.")
    compare(site, tab, job.id)


def test_a_cut_of_the_conversation_is_shown_with_its_summary_and_what_was_told_again(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me twice")
    site.wait_begun()
    site.fleet.swarm.compact(root_agent_id(job.id))
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    site.let_go()
    log = tab.role("log")
    expect(log).to_contain_text("the model now sees a summary instead of the text above except the last reply")
    expect(log.locator("strong", has_text="waited")).to_be_visible()
    expect(log).to_contain_text("I will wait.")
    log.get_by_text("state from records").click()
    expect(log).to_contain_text("rendered by the runtime from its records")
    expect(log).to_contain_text("It is done.")
    compare(site, tab, job.id)


def test_what_was_said_of_an_agents_work_stands_in_its_transcript(site: Site, tab: Tab) -> None:
    job = site.tell("do it", check="echo looked; false", rubric="It is done.", tries=1)
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("log")).to_contain_text("attempt 1: check refused")
    expect(tab.role("log")).to_contain_text("looked")
    graded = site.tell("do it", check="true", rubric="It is done.", tries=1)
    tab.open(f"#/{graded.id}/{root_agent_id(graded.id)}")
    expect(tab.role("log")).to_contain_text("attempt 1: grader gave no verdict")
    tab.role("log").locator(".item-note").get_by_role("link").first.click()
    expect(tab.role("heading", level=2)).to_contain_text("attempt 1 of 1")


def test_a_reload_shows_the_same_and_keeps_what_was_typed(site: Site, tab: Tab) -> None:
    job = site.tell("hold")
    site.question(job)
    page = tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    page.get_by_label("In your own words").fill("half an ans")
    page.get_by_label("Message to the root").fill("half a mess")
    page.reload()
    expect(page.get_by_label("In your own words")).to_have_value("half an ans")
    expect(page.get_by_label("Message to the root")).to_have_value("half a mess")
    expect(tab.role("treeitem", selected=True)).to_contain_text("hold")
    tab.role("tab", name="Board").click()
    expect(tab.role("tab", name="Board")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.locator(".question")).to_be_visible()
    job.cancel()


def test_a_hidden_tab_gives_its_connection_back_and_misses_nothing(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me")
    site.wait_begun()
    page = tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("log")).to_contain_text("I will wait.")
    tab.hide(True)
    assert page.evaluate("async () => (await import('/swarm/static/world.mjs')).stream.source") is None
    site.let_go()
    job.wait(60)
    expect(tab.role("treeitem").first).not_to_contain_text("completed")
    tab.hide(False)
    expect(tab.role("treeitem").first).to_contain_text("completed")
    compare(site, tab, job.id)


def test_what_happens_in_one_agent_never_gets_into_anothers_transcript(site: Site, tab: Tab) -> None:
    job = site.tell("branch", mode="default")
    one, other = wait_for("both ask", lambda: _askers(site, job.id))
    page = tab.open(f"#/{job.id}/{one.agent_id}")
    expect(page.locator(".question")).to_be_visible()

    def answer_first(route: Any) -> None:
        site.fleet.swarm.answer(one.id, "deny")
        site.fleet.wait_state(one.agent_id, "completed")
        time.sleep(0.5)  # for what came of it to be told on the stream that is still open
        route.continue_()

    page.route(f"**/api/agents/{other.agent_id}/journal?**", answer_first)
    page.evaluate("address => { location.hash = address }", f"#/{job.id}/{other.agent_id}")
    expect(tab.role("log")).to_be_visible()
    held = page.evaluate(WORLD)
    assert held["journal"] == site.flower.read(f"agents/{other.agent_id}/journal")["entries"]
    job.cancel()


def _askers(site: Site, job_id: str) -> Any:
    found = site.fleet.swarm.questions.open(job_id)
    return found if len(found) == 2 else None


def test_what_redis_no_longer_keeps_is_read_anew_and_told(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me")
    site.wait_begun()
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("log")).to_contain_text("I will wait.")
    tab.hide(True)
    site.let_go()
    job.wait(60)
    site.fleet.swarm.store.keyspace.client.xtrim(site.fleet.swarm.store.keyspace.key("events", job.id), maxlen=0)
    tab.hide(False)
    expect(tab.role("status")).to_contain_text("was read again")
    expect(tab.role("treeitem").first).to_contain_text("completed")
    compare(site, tab, job.id)


def test_words_appear_while_they_are_written(site: Site, tab: Tab) -> None:
    job = site.tell("wait for me, then speak")
    site.wait_begun()
    tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
    expect(tab.role("log")).to_contain_text("I will wait.")
    site.let_go()
    writing = tab.page.get_by_label("being written")
    expect(writing).to_contain_text("word word")
    expect(tab.role("treeitem").first).to_contain_text("completed")
    expect(writing).to_have_count(0)
    expect(tab.role("log")).to_contain_text("word word")


def test_a_worker_dies_and_redis_restarts_while_the_page_is_open(browser: Any) -> None:
    with running_site() as site, opened_tab(browser, site.flower) as tab:
        job = site.tell("wait for me")
        site.wait_begun()
        page = tab.open(f"#/{job.id}/{root_agent_id(job.id)}")
        expect(tab.role("treeitem").first).to_contain_text("running")
        expect(tab.role("log")).to_contain_text("I will wait.")

        site.fleet.swarm.store.keyspace.client.shutdown(nosave=True, now=True)
        expect(page.locator(".banner")).to_contain_text("Redis does not answer")
        expect(tab.role("log")).to_contain_text("I will wait.")
        site.fleet.restart_redis()
        expect(page.locator(".banner")).to_have_count(0)

        site.fleet.workers[0].kill()
        site.fleet.start_worker(2)
        site.let_go()
        expect(tab.role("treeitem").first).to_contain_text("completed")
        compare(site, tab, job.id)
