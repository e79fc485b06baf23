"""The page's panel of triggers, in a real browser: from the list of jobs to a trigger, its event and its job.

Tests of swarm/web/panels/triggers.py, swarm/web/static/fleet.mjs, swarm/web/static/panels/triggers.mjs.
"""

from __future__ import annotations

from swarm.capabilities.triggers.model import TriggerEvent, read_trigger
from swarm.capabilities.triggers.store import Triggers
from swarm.client.triggers import put_trigger, start_due, take_event
from tests.e2e.browser import Tab, expect
from tests.e2e.page_world import EVIL, Site

TRIGGER = f"""---
name: triage
description: {EVIL}
title: event.title
base_url: http://127.0.0.1:9
---
Look at it.
"""


def test_a_trigger_is_found_started_paused_and_its_event_leads_to_its_job(site: Site, tab: Tab) -> None:
    swarm = site.fleet.swarm
    put_trigger(swarm, read_trigger(TRIGGER, "triage"), "ann", folder=site.fleet.workspace)
    triggers = Triggers(swarm.store.keyspace)
    tab.open("#/")
    tab.role("link", name="Triggers").click()
    tab.role("button", name="triage").click()
    page = tab.page.locator("main")
    expect(page).to_contain_text("It has had no events.")
    expect(page).to_contain_text("<script>alert(2)</script>")
    # The list of jobs changes, and the panel with it.
    take_event(swarm, triggers.get("triage").trigger, TriggerEvent(id="e-1", data={"title": EVIL}))
    start_due(swarm)
    job = triggers.firing("triage", "e-1").job
    expect(tab.role("link", name=job)).to_be_visible()
    tab.role("button", name="Pause").click()
    expect(tab.role("row").filter(has_text="triage")).to_contain_text("paused")
    tab.role("button", name="Replay").click()
    expect(page).to_contain_text("e-1~")
    tab.role("link", name=job).click()
    expect(tab.role("heading", name=EVIL[:20], level=1)).to_be_visible()
    for one in triggers.firings("triage"):
        if swarm.store.jobs.exists(one.job):
            swarm.job(one.job).cancel()
    triggers.delete("triage")
