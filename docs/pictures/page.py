"""Pictures of the page, taken in Chromium."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from docs.pictures.jobs import Jobs
from tests.e2e.browser import Tab, running_chromium
from tests.flower import running_flower

_SCALE = 1.5
"""Image pixels for each pixel of the page."""
_QUALITY = 0.82
# Chromium captures PNG and converts it to WebP, which is a third of the size.
_TO_WEBP = """async ([data, quality]) => {
  const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext("2d").drawImage(picture, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({type: "image/webp", quality})).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}"""


@dataclass(frozen=True)
class Shot:
    """One picture: its address and its setup."""

    place: Callable[[Jobs], str]
    height: int
    width: int = 1200
    see: str = ""
    """Selector of the element to scroll to the top first."""
    opened: str = ""
    """Selector of the element to unfold first."""
    wait: str = ""
    """Selector of an element that must exist first."""
    scheme: str = "light"


SHOTS = {
    "page-tree": Shot(lambda jobs: _agent(jobs, "release", "review"), 760, wait=".item-words"),
    "page-jobs": Shot(lambda jobs: "#/", 560),
    "page-dark": Shot(
        lambda jobs: _agent(jobs, "vat", "build"), 720, see=".call:has(.diff)", opened=".call:has(.diff)", scheme="dark"
    ),
    "page-phone": Shot(lambda jobs: f"#/{jobs.release.id}", 760, 400),
    "page-question": Shot(lambda jobs: _agent(jobs, "release", "changelog"), 900),
    "page-plan": Shot(lambda jobs: _agent(jobs, "plan", "build"), 640),
    "page-judged": Shot(lambda jobs: _agent(jobs, "guarded", "build"), 1000, see=".item-reply"),
    "page-timeline": Shot(lambda jobs: f"#/{jobs.vat.id}?panel=timeline", 460),
    "page-board": Shot(lambda jobs: f"#/{jobs.team.id}?panel=board", 620),
    "page-cost": Shot(lambda jobs: f"#/{jobs.vat.id}?panel=cost", 720),
    "page-limits": Shot(lambda jobs: f"#/{jobs.release.id}?panel=limits", 560),
    "page-servers": Shot(lambda jobs: f"#/{jobs.release.id}?panel=servers", 560, opened="details"),
}
"""All pictures by file name."""


def take_shots(jobs: Jobs, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each picture as WebP, with its file name."""
    with running_flower(jobs.fleet) as flower, running_chromium() as browser:
        for name in names:
            with _looking_at(browser, flower, SHOTS[name]) as tab:
                yield f"{name}.webp", _take(tab, SHOTS[name], SHOTS[name].place(jobs))


@contextmanager
def _looking_at(browser: Any, flower: Any, shot: Shot) -> Iterator[Tab]:
    size = {"width": shot.width, "height": shot.height}
    tab = Tab(browser, flower, viewport=size, color_scheme=shot.scheme, locale="en-GB", device_scale_factor=_SCALE)
    yield tab
    tab.close()


def _take(tab: Tab, shot: Shot, place: str) -> bytes:
    page = tab.open(place)
    page.locator("#swarm h1:visible, #swarm h2:visible").first.wait_for()
    page.wait_for_function("() => !document.querySelector('#swarm [aria-busy=true]')")
    if shot.wait:
        page.locator(shot.wait).first.wait_for(timeout=90_000)
    page.wait_for_timeout(600)  # for the first patch
    for selector, act in ((shot.opened, "(each) => each.open = true"), (shot.see, "(each) => each.scrollIntoView()")):
        if selector:
            page.locator(selector).first.evaluate(act)
    page.wait_for_timeout(200)
    taken = page.screenshot()
    assert tab.noise == [], tab.noise
    page.goto("about:blank")
    return base64.b64decode(page.evaluate(_TO_WEBP, [base64.b64encode(taken).decode(), _QUALITY]))


def _agent(jobs: Jobs, job: str, label: str) -> str:
    found = getattr(jobs, job)
    return f"#/{found.id}/{jobs.agent(found, label)}"
