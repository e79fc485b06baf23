"""A page as text that a model can read."""

from __future__ import annotations

import codecs
import re

from swarm.core.errors import ToolError
from swarm.tools.web.page import WebPage

MAX_HTML_CHARACTERS = 1_000_000
"""Only so much of a longer page is read, because converting it to text takes seconds per megabyte."""
_HTML = ("text/html", "application/xhtml+xml")
_ALSO_TEXT = re.compile(r"application/(.*\+)?(json|xml|yaml|javascript|x-ndjson|toml|sql)|image/svg\+xml")
_UNSEEN = ["script", "style", "noscript", "template", "svg", "iframe", "canvas", "form", "nav"]
_EMPTY_LINES = re.compile(r"\n\s*\n\s*\n+")


def read_page(page: WebPage) -> str:
    """Return a page's text: HTML as Markdown, other text unchanged. Raises `ToolError` for other content."""
    kind = page.kind or _guess(page.body)
    if not (kind.startswith("text/") or kind in _HTML or _ALSO_TEXT.fullmatch(kind)):
        raise ToolError(
            f"{page.url} is {kind} ({len(page.body):,} bytes), not text; download it with the shell if you may"
        )
    text = _decode(page)
    if kind not in _HTML:
        return text
    return _to_markdown(text[:MAX_HTML_CHARACTERS])


def _guess(body: bytes) -> str:
    head = body[:512].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/octet-stream" if b"\0" in head else "text/plain"


def _decode(page: WebPage) -> str:
    try:
        codecs.lookup(page.charset)
    except LookupError:
        return page.body.decode("utf-8", "replace")
    return page.body.decode(page.charset, "replace")


def _to_markdown(html: str) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    for element in soup(_UNSEEN):
        element.decompose()
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for head in soup("head"):
        head.decompose()
    try:
        text = MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(soup)
    except RecursionError:  # deeper than any page for people
        text = soup.get_text("\n", strip=True)
    text = _EMPTY_LINES.sub("\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and not text.startswith("# ") else text
