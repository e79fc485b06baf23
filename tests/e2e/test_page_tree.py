"""The tree of agents in the page: by keys, for screen readers, and with a thousand of them.

Tests of swarm/agent/needs.py, swarm/web/static/tree.mjs, swarm/web/static/treeview.mjs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from swarm.agent.entries import Finished, Started
from swarm.agent.needs import Has
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import Grove, opened_tab
from tests.fleet import Fleet
from tests.flower import Flower, running_flower
from tests.job_world import StoredJob


@pytest.fixture(scope="module")
def quiet(unmanned: Fleet) -> Iterator[Flower]:
    """A Flower in front of a Redis without workers."""
    with running_flower(unmanned) as flower:
        yield flower


def wait_focus(tab: Tab, text: str) -> None:
    tab.page.wait_for_function(
        "text => document.activeElement.querySelector('.row-title')?.textContent === text", arg=text
    )


def test_the_tree_is_walked_by_keys(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    grove = Grove(unmanned, 31)
    with opened_tab(browser, quiet) as tab:
        page = tab.open(f"#/{grove.job_id}")
        rows = tab.role("treeitem")
        expect(rows).to_have_count(31)
        page.locator('[role=treeitem][tabindex="0"]').focus()
        keys = page.keyboard
        for key, name in [
            ("ArrowDown", "branch 0"),
            ("ArrowRight", "leaf 0 0"),
            ("ArrowLeft", "branch 0"),
            ("End", "leaf 9 1"),
        ]:
            keys.press(key)
            wait_focus(tab, f"general-purpose: {name}")
        keys.press("Home")
        wait_focus(tab, "general-purpose: root")
        for name in ("branch 0", "branch 1"):
            keys.press("b")
            wait_focus(tab, f"general-purpose: {name}")
        keys.press("ArrowLeft")
        expect(rows).to_have_count(29)
        expect(rows.nth(4)).to_have_attribute("aria-expanded", "false")
        expect(rows.nth(4)).to_contain_text("2 below")
        keys.press("Enter")
        expect(page).to_have_url(page.url.partition("#")[0] + f"#/{grove.job_id}/{grove.claims[1].agent_id}")
        expect(tab.role("heading", level=2)).to_contain_text("branch 1")
        assert page.locator('[role=treeitem][tabindex="0"]').count() == 1

        keys.press("?")
        expect(tab.role("dialog")).to_contain_text("the next agent that asks you")
        keys.press("Escape")
        expect(tab.role("dialog")).to_have_count(0)
        tab.role("tab", name="Cost").click()
        keys.press("Escape")
        expect(tab.role("tree")).to_be_visible()


def test_an_agent_that_nobody_can_run_says_what_it_waits_for(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    store = unmanned.swarm.store
    job = StoredJob(store, unmanned, max_depth=2)
    root = job.take_claim(job.spec.agent_id)
    store.journals.append(root, 1, [Started(spec=job.spec)])
    spec = job.child_spec("picky")
    requiring = spec.definition.model_copy(update={"requires": ["gpu"]})
    job.spawn_all(root, 2, {"picky": spec.model_copy(update={"definition": requiring})})
    store.fleet.announce("plain", Has(), 30.0)
    with opened_tab(browser, quiet) as tab:
        tab.open(f"#/{job.job_id}")
        expect(tab.role("treeitem").nth(1)).to_contain_text("it lacks the tag gpu")


def test_of_a_thousand_agents_those_in_sight_are_in_the_document(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    grove = Grove(unmanned, 1_000)
    with opened_tab(browser, quiet) as tab:
        page = tab.open(f"#/{grove.job_id}")
        rows = tab.role("treeitem")
        expect(page.locator(".pane-head span").first).to_have_text("1000 agents")
        expect(rows.first).to_have_attribute("aria-posinset", "1")
        assert rows.count() < 100
        rows.first.focus()
        page.keyboard.press("End")
        wait_focus(tab, "general-purpose: leaf 9 97")
        last = page.locator("*:focus")
        expect(last).to_have_attribute("aria-setsize", "98")
        expect(last).to_have_attribute("aria-posinset", "98")
        expect(last).to_have_attribute("aria-level", "3")
        assert rows.count() < 100
        page.locator(".tree-scroll").evaluate("node => node.scrollTop = 0")
        expect(rows.first).to_contain_text("root")
        grove.live(0)
        expect(tab.page.locator(f"#row-{grove.claims[0].agent_id}")).to_contain_text("step 3")


def test_a_large_tree_begins_with_a_part_and_is_then_whole(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    grove = Grove(unmanned, 1_000)
    with opened_tab(browser, quiet) as tab:
        with tab.page.expect_response(lambda answer: "/snapshot" in answer.url) as first:
            tab.open(f"#/{grove.job_id}")
        begun = first.value.json()
        assert len(begun["agents"]) + begun["left"] == 1_000 and begun["left"] > 0
        expect(tab.page.locator(".pane-head span").first).to_have_text("1000 agents")
        held = tab.page.evaluate(
            """async () => [...(await import("/swarm/static/world.mjs")).world.job.agents.values()]"""
        )
        assert held == quiet.read(f"jobs/{grove.job_id}/snapshot")["agents"]


def test_on_a_narrow_screen_the_tree_leads_to_the_agent_and_back(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    grove = Grove(unmanned, 13)
    with opened_tab(browser, quiet, viewport={"width": 400, "height": 800}) as tab:
        page = tab.open(f"#/{grove.job_id}")
        tab.role("treeitem").nth(1).click()
        expect(tab.role("tree")).not_to_be_visible()
        expect(tab.role("heading", level=2)).to_contain_text("branch 0")
        tab.role("link", name="‹ Agents").click()
        expect(tab.role("tree")).to_be_visible()
        for place in ("#/", f"#/{grove.job_id}", f"#/{grove.job_id}?panel=timeline"):
            tab.open(place)
            expect(tab.role("heading", level=1)).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, place


def test_a_row_tells_how_an_agents_own_copy_stands(browser: Any, unmanned: Fleet, quiet: Flower) -> None:
    job = StoredJob(unmanned.swarm.store, unmanned)
    root = job.take_claim(job.spec.agent_id)
    child = job.child_spec("one", isolation="worktree", description="apart", base="0" * 40)
    job.spawn_all(root, 1, {"one": child})
    claim = job.take_claim(child.agent_id)
    with opened_tab(browser, quiet) as tab:
        tab.open(f"#/{job.job_id}")
        row = tab.role("treeitem").nth(1)
        expect(row).to_contain_text("in its own copy")
        job.store.agents.finish(claim, 1, Finished(state="completed", text="done"))
        job.store.events.emit_once(job.job_id, "merge", child.agent_id, why="conflict")
        expect(row).to_contain_text("not merged: it conflicts")
