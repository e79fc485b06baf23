"""The job's scratchpad as one agent's tools use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from swarm.agent.spec import AgentSpec
from swarm.errors import PadRefused, ToolError
from swarm.store.agents import Store
from swarm.team.scratchpad import Pad, Written


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except PadRefused as error:
        text = str(error)
        raise ToolError(f"{text[:1].upper()}{text[1:]}.") from error


class AgentPad:
    """The scratchpad on behalf of one running agent."""

    def __init__(self, spec: AgentSpec, store: Store) -> None:
        self._id, self._store, self._pad = spec.agent_id, store, Pad(store, spec.job_id)

    def _cause(self, call_id: str) -> str:
        return f"{self._id}/{call_id}"

    def write_page(self, cause: str, page: str, content: str, if_version: int | None) -> str:
        """Replace a page."""
        with _refusals():
            written = self._pad.write(self._id, self._cause(cause), page, content, if_version=if_version)
        return f"Written: {_describe(page, written)}."

    def append_to_page(self, cause: str, page: str, content: str) -> str:
        """Add to the end of a page."""
        with _refusals():
            written = self._pad.append(self._id, self._cause(cause), page, content)
        return f"Added: {_describe(page, written)}."

    def delete_page(self, cause: str, page: str, if_version: int | None) -> str:
        """Remove a page."""
        with _refusals():
            self._pad.delete(self._id, self._cause(cause), page, if_version=if_version)
        return f"Deleted: {page}."

    def read_page(self, page: str) -> tuple[str, str]:
        """What is known about a page, in a line, and its text."""
        with _refusals():
            view, text = self._pad.read(page)
        return f"{view.name}, version {view.version}, {view.size:,} bytes, last changed by {view.by_name}", text

    def list_pages(self, prefix: str) -> str:
        """A line for each page."""
        pages = [page for page in self._pad.pages() if page.name.startswith(prefix)]
        if not pages:
            return f"There is no page whose name begins with {prefix!r}." if prefix else "The scratchpad is empty."
        now = self._store.now()
        return "\n".join(
            f"- {page.name}: {page.size:,} bytes, version {page.version}, by {page.by_name}, {max(0.0, now - page.at):.0f} s ago"
            for page in pages
        )


def _describe(page: str, written: Written) -> str:
    return f"{page} has version {written.version} and {written.size:,} bytes now"
