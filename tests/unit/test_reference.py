"""The reference is what the code says of itself.

Tests of docs/generate.py.
"""

from __future__ import annotations

import pytest

from docs.generate import FOLDER, pages


@pytest.mark.parametrize("name", ["python.md", "stream.md", "cli.md", "settings.md"])
def test_the_reference_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pages()[name], "run `python -m docs.generate`"


def test_the_reference_names_every_page_and_every_event() -> None:
    assert sorted(pages()) == sorted(file.name for file in FOLDER.glob("*.md"))
    assert not [name for name, text in pages().items() if "<class" in text]
    stream = pages()["stream.md"]
    for type_name in ("job_started", "reply", "tool_result", "question", "agent_ended", "job_ended"):
        assert f"## `{type_name}`" in stream
