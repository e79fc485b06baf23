"""How fast the page shows ten thousand agents, in Chromium, in front of a real Flower and a real Redis.

First view: from the beginning of the navigation until rows of the tree are painted. Patch: from the moment at which the event stream
hands a patch of 10 agents to the page until what it changed is painted (two frames later).
"""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing
from statistics import median

from bench.measure import Report, quantile, spread
from tests.e2e.browser import Tab, running_chromium
from tests.e2e.page_world import Grove
from tests.fleet import Fleet
from tests.flower import running_flower

_VIEWS, _ROUNDS = 5, 25
_PAUSE = 1.1  # seconds: rows of running agents come once a second
_WATCH = """
(() => {
  const told = EventSource.prototype.addEventListener;
  window.patches = [];
  EventSource.prototype.addEventListener = function (name, hear, ...rest) {
    if (name !== "patch") return told.call(this, name, hear, ...rest);
    return told.call(this, name, (event) => {
      const begun = performance.now();
      hear(event);
      requestAnimationFrame(() => requestAnimationFrame(() => patches.push(performance.now() - begun)));
    }, ...rest);
  };
  new MutationObserver((_, observer) => {
    if (!document.querySelector("[role=treeitem]")) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.firstView = performance.now() }));
  }).observe(document, {childList: true, subtree: true});
})();
"""


def run(report: Report, chosen: Namespace) -> None:
    """Jobs of a hundred and a thousand agents for comparison, and one of ten thousand."""
    for agents in (100, 1_000, 10_000):
        views, patches, rows = _look(agents)
        report.note(f"{agents:,} agents, {rows} rows in the document: first view {spread(views, ' ms')}")
        report.note(f"{agents:,} agents: a patch of {Grove.BRANCHES} painted {spread(patches, ' ms')}")
    report.figure("page_view, first view", median(views), " ms", target=1_500)
    report.figure("page_view, patch painted p95", quantile(patches, 0.95), " ms", target=100)


def _look(agents: int) -> tuple[list[float], list[float], int]:
    """Milliseconds of each first view and of each patch, and how many rows are in the document."""
    with closing(Fleet()) as fleet, running_flower(fleet) as flower, running_chromium() as browser:
        grove = Grove(fleet, agents)
        tab = Tab(browser, flower)
        tab.context.add_init_script(_WATCH)
        views = []
        for _ in range(_VIEWS):
            page = tab.open(f"#/{grove.job_id}/{grove.spec.agent_id}")
            page.wait_for_function("() => window.firstView")
            views.append(page.evaluate("firstView"))
        page.locator("[role=log]").wait_for()
        for _ in range(_ROUNDS):
            for number in range(grove.BRANCHES):
                grove.live(number)
            time.sleep(_PAUSE)
        page.wait_for_function("count => patches.length >= count", arg=_ROUNDS // 2)
        patches = page.evaluate("patches")
        return views, patches, page.locator("[role=treeitem]").count()
