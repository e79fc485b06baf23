"""The application of docs/celery.md, just as it stands there.

Tests of docs/celery.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.documents import ROOT, blocks
from tests.fleet import Fleet
from tests.foreign import Foreign
from tests.waiting import wait_for

SCENARIO = """
name: celery-docs
rules:
  - when: {prompt: "(?s)Answer this complaint:.*It came broken"}
    reply: {text: "We are sorry."}
  - when: {prompt: "(?s)Sum up .*order.: (?P<order>[0-9])"}
    reply: {text: "sum {order}"}
  - when: {prompt: "(?s)in common.*sum 1.*sum 2"}
    reply: {text: "Both came broken."}
  - reply: {text: "Done."}
"""
DRIVER = """
import json, shop
ended = shop.ship(3).wait(60)
print(json.dumps({
    "answer": shop.answer(1).get(timeout=60),
    "compare": shop.compare([1, 2]).get(timeout=60),
    "shipped": ended.state,
    "reports": [shop.report.delay().get(timeout=60) for _ in range(2)],
}))
"""


def test_the_page_is_an_application_that_works(fleet: Fleet, tmp_path: Path) -> None:
    parts = (block.text for block in blocks(ROOT / "docs/celery.md") if block.language == "python")
    (tmp_path / "shop.py").write_text("\n\n".join(parts))
    with closing(Foreign("shop", tmp_path)) as shop:
        model = {"SWARM_BASE_URL": fleet.rehearse(SCENARIO).url, "ANTHROPIC_API_KEY": "none"}
        fleet.start_worker(2, SWARM_BROKERS=json.dumps({"shop": shop.broker}), **model)
        shop.start_worker(fleet)
        driver = [sys.executable, "-c", DRIVER]
        done = subprocess.run(driver, env=shop.environment(fleet), capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        found = json.loads(done.stdout)
        assert found["answer"] == "mailed: We are sorry."
        assert (found["compare"], found["shipped"]) == ("Both came broken.", "completed")
        assert len(set(found["reports"])) == 1
        assert len(fleet.swarm.jobs()) == 1 + 3 + 1 + 1
        wait_for("the shop was told", lambda: "'3: completed, Done.'" in shop.logs())
