"""A browser that looks at the page as a person does: Debian's Chromium, driven by Playwright. What must never happen is noted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.flower import Flower
from tests.needs import lack

SECONDS = 30.0
"""How long a test waits for what is to be seen."""
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """Where Chromium is; the test is skipped, or fails in CI, where there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _CHROMIUM)), None)
    return found or lack("chromium", "there is no `chromium` on the PATH")


@contextmanager
def running_chromium() -> Iterator[Any]:
    """A browser; its contexts are as separate as two people's."""
    playwright = import_playwright()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def import_playwright() -> Any:
    """Playwright, which is imported by what needs it alone."""
    try:
        from playwright import sync_api
    except ImportError:
        lack("playwright", "pip install -e '.[dev]' was not run")
    sync_api.expect.set_options(timeout=SECONDS * 1000)
    return sync_api


def expect(found: Any) -> Any:
    """What is to be seen of this, soon."""
    return import_playwright().expect(found)


class Tab:
    """A tab with the page of one Flower, and what went wrong in it."""

    def __init__(self, browser: Any, flower: Flower, **options: Any) -> None:
        given = {"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce", **options}
        self.flower = flower
        self.context = browser.new_context(**given)
        self.context.set_default_timeout(SECONDS * 1000)
        self.page = self.context.new_page()
        self.noise: list[str] = []
        """Dialogs, errors that nobody caught, violations of the content security policy."""
        self.page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("console", self._hear)
        if not flower.login:
            self.page.goto(f"{flower.url}?token={flower.token}")

    def _dismiss(self, dialog: Any) -> None:
        self.noise.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _hear(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.noise.append(f"console: {message.text}")

    def open(self, address: str = "#/") -> Any:
        """Go to this place of the page, anew."""
        self.page.goto("about:blank")
        self.page.goto(self.flower.url + address)
        return self.page

    def role(self, role: str, **options: Any) -> Any:
        """The part with this role, as assistive technology sees it."""
        return self.page.get_by_role(role, **options)

    def hide(self, hidden: bool) -> None:
        """Be a tab that nobody looks at, or one that somebody looks at again."""
        self.page.evaluate(
            """(hidden) => {
              Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
              document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )

    def close(self) -> None:
        self.context.close()
