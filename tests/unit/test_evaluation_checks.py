"""The checks of the evaluations of our own prompts, on good and bad words.

Tests of tests/evaluation/checks.py, tests/evaluation/night/shift.py.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.agent.coordination.messages import SENT_BACK
from tests.evaluation import checks
from tests.evaluation.night.shift import PAGES, tell

LOG = "\n".join(tell(page) for page in range(1, len(PAGES) + 1))
NOTED = "\n".join(PAGES)
PROGRESS, TITLE, DIGEST = ["Reading prices.py"], ["Find the function"], ["order_total totals; nothing was run."]


def refusal(check: Callable[..., None], *given: object) -> str:
    """The check's words against this work."""
    with pytest.raises(checks.Refused) as found:
        check(*given)
    return str(found.value)


def test_each_fact_of_the_night_is_demanded_of_a_summary() -> None:
    checks.check_facts(LOG, NOTED)
    for name, pattern in checks.FACTS.items():
        assert name in refusal(checks.check_facts, LOG, re.sub(pattern, "", NOTED))


def test_a_summary_answers_only_for_what_it_stands_for() -> None:
    half = "\n".join(PAGES[:3])
    checks.check_facts("\n".join(map(tell, (1, 2, 3))), half)
    assert "the order of the disk" in refusal(checks.check_facts, LOG, half)
    assert "fewer than 6" in refusal(checks.check_facts, tell(1), half)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (([], TITLE, DIGEST), "no line"),
        ((["Prices are read"], TITLE, DIGEST), "-ing form"),
        ((["Reading " + "all " * 15], TITLE, DIGEST), "more than 15"),
        ((PROGRESS, ["Find the one function that computes totals"], DIGEST), "at most 6 words"),
        ((PROGRESS, TITLE, []), "no digest"),
        ((PROGRESS, TITLE, ["It was found."]), "does not tell the result"),
        ((PROGRESS, TITLE, ["order_total; all checks passed."]), "was not made"),
    ],
)
def test_lines_have_their_form_and_claim_no_check_that_was_not_made(given: tuple[list[str], ...], why: str) -> None:
    checks.check_told(PROGRESS, TITLE, DIGEST)
    assert why in refusal(checks.check_told, *given)


def test_places_are_lines_of_files_that_exist() -> None:
    checks.check_places("`prices.py:11` and NOTES.md:3", checks.SHOP, 2)
    assert "fewer than 2" in refusal(checks.check_places, "prices.py:11, prices.py:11", checks.SHOP, 2)
    assert "does not exist" in refusal(checks.check_places, "price.py:1", checks.SHOP, 1)
    assert "there is no line 99" in refusal(checks.check_places, "prices.py:99", checks.SHOP, 1)


def test_headings_come_in_their_order() -> None:
    assert checks.sections("## A\none\n## B\ntwo", "A", "B") == {"A": "\none\n", "B": "\ntwo"}
    assert "'B' is missing" in refusal(checks.sections, "## B\n## A", "A", "B")


def test_changed_files_are_found_and_what_tools_leave_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(checks.SHOP, folder)
    (folder / "__pycache__").mkdir(exist_ok=True)
    (folder / "__pycache__" / "prices.pyc").write_text("x")
    assert checks.changed(folder) == {}
    (folder / "stock.py").write_text((folder / "stock.py").read_text() + "X = 1\n")
    (folder / "NOTES.md").unlink()
    assert checks.changed(folder).keys() == {"stock.py", "NOTES.md"} and checks.changed(folder)["stock.py"] == [
        "+ X = 1"
    ]
    checks.demand_unchanged(folder, "stock.py", "NOTES.md")
    assert "NOTES.md" in refusal(checks.demand_unchanged, folder, "stock.py")


def test_it_knows_an_order_that_was_sent_back() -> None:
    assert checks.SENT_BACK == SENT_BACK
