"""Scores, the table of an evaluation and two jobs side by side in the page; axe finds no fault.

Tests of swarm/web/panels/compare.py, swarm/web/static/panels/compare.mjs.
"""

from __future__ import annotations

from typing import Any

from swarm.capabilities.evaluations.model import Evaluation
from swarm.client.evaluations import evaluations_of
from swarm.core.ids import new_evaluation_id
from swarm.replay.evaluation import Evaluator
from tests.e2e.browser import expect
from tests.e2e.page_world import EVIL, Site, opened_tab
from tests.e2e.test_page_safety import AXE, fault


def test_a_run_is_scored_and_compared_in_its_evaluation(browser: Any, site: Site) -> None:
    options = {"base_url": site.url, "isolation": "none"}
    # Its runs write a file that the questions of other tests are about.
    own = site.fleet.workspace / "compared"
    own.mkdir()
    folder = str(own)
    evaluation = evaluations_of(site.fleet.swarm).keep(
        Evaluation.model_validate(
            {
                "id": new_evaluation_id(),
                "name": EVIL,
                "variants": [{"name": "now"}, {"name": "new", "prompt": "edit, then: {prompt}"}],
                "cases": [
                    {"name": "plain", "prompt": "do it", "expect": "done", "workspace": folder, "options": options},
                    {"name": "odd", "prompt": "do it", "expect": "other", "workspace": folder, "options": options},
                ],
            }
        )
    )
    evaluator = Evaluator(site.fleet.swarm, evaluation)
    evaluator.submit()
    runs = {(one.case, one.variant): one for one in evaluator.score_all()}
    first, other = runs["odd", "now"].job_id, runs["odd", "new"].job_id
    with opened_tab(browser, site.flower) as tab:
        page = tab.open(f"#/{first}?panel=compare")
        cases = tab.role("region", name="Cases")
        expect(cases.get_by_role("row").nth(2)).to_contain_text("this job")
        expect(tab.role("region", name="Variants")).to_contain_text("1 of 2")
        expect(page.locator("#swarm")).to_contain_text(EVIL)

        tab.page.get_by_label("Note").fill("as I meant it")
        tab.role("button", name="Right").click()
        expect(page.locator(".scores")).to_contain_text("person passed: as I meant it")
        expect(tab.role("region", name="Variants")).to_contain_text("2 of 2")
        score = site.fleet.swarm.job(first).view().scores["person"]
        assert score.passed and score.note == "as I meant it" and score.by

        cases.get_by_role("row").nth(2).get_by_role("button", name="failed").click()
        expect(tab.role("region", name="Changed files")).to_contain_text("notes.txt")
        expect(tab.role("region", name="Calls of tools")).to_contain_text("Write")
        expect(page.locator(".side-by-side").first).to_contain_text("Write")
        assert f"beside={other}" in page.url
        page.evaluate(AXE)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.reload()
            expect(tab.role("region", name="Figures")).to_contain_text("Tokens")
            page.evaluate(AXE)
            found = page.evaluate("axe.run('#swarm .panel', {resultTypes: ['violations']})")
            assert [fault(each) for each in found["violations"]] == [], scheme
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling on a phone"
