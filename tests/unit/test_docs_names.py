"""What the sentences of the pages for users name is there: commands, options, settings, files, and the words of errors.

Tests of docs, swarm/cli/app.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from bench.__main__ import NAMES
from docs.pictures.page import SHOTS
from docs.pictures.terminal import RUNS, TOPS
from swarm.cli.app import ListedCommand, app
from swarm.core.settings import Settings
from tests.code import nodes
from tests.documents import GUIDES, PAGES, ROOT, blocks, calls, headings, links, spans

CODE = [file for name in ("swarm", "tasks", "mailbox") for file in sorted((ROOT / name).rglob("*.py"))]
PASSING = {"worker", "flower"}
"""They take Celery's options, too."""
FOREIGN = {"--read-only", "--files0-from"}
"""Options of other programs that pages name by themselves: of Flower, of `wc`."""
OWN_NAMES = {"SWARM_KEY", "SWARM_MCP_KEY"}
"""What examples call the reader's own secrets."""


@cache
def commands() -> dict[str, tuple[set[str], set[str]]]:
    """By the name of each command: its options, and the commands below it."""
    found = {}
    for name, listed in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        command = listed.load() if isinstance(listed, ListedCommand) else listed
        below = getattr(command, "commands", {})
        found[name] = (_options(command), set(below))
        found.update({f"{name} {each}": (_options(one), set()) for each, one in below.items()})
    return found


def _options(command: object) -> set[str]:
    return {"--help", *(opt for each in command.params for opt in [*each.opts, *each.secondary_opts])}  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    known = commands()
    wrong, every = [], {option for options, _ in known.values() for option in options} | FOREIGN
    for snippet in spans(page):
        if snippet.startswith("--") and (option := re.match(r"--[a-z][a-z-]*", snippet)) and option[0] not in every:
            wrong.append(snippet)
        for words in calls(snippet):
            name, *rest = words or [""]
            if not re.fullmatch(r"[a-z]+", name) or "the swarm " in snippet:
                continue  # `swarm …`, a path, a picture
            if rest and f"{name} {rest[0]}" in known:
                name = f"{name} {rest[0]}"
            elif rest and name in known and known[name][1] and re.fullmatch(r"[a-z]+", rest[0]):
                wrong.append(f"swarm {name} {rest[0]}")
            options = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
            if name not in known:
                wrong.append(f"swarm {name}")
            elif name not in PASSING:
                wrong += [f"swarm {name} {each}" for each in sorted(options - known[name][0])]
    assert not wrong, f"{page.name} names what there is not: {wrong}"


@cache
def read_variables() -> set[str]:
    settings = {f"SWARM_{name.upper()}" for name in Settings.model_fields}
    others = [*CODE, *(file for name in ("deploy", "tests") for file in (ROOT / name).rglob("*") if file.is_file())]
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in others if file.suffix != ".md")
    return settings | {name for text in texts for name in re.findall(r"SWARM_[A-Z]+(?:_[A-Z]+)*", text)}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"SWARM_[A-Z]+(?:_[A-Z]+)*", page.read_text(encoding="utf-8")))
    assert named <= read_variables() | OWN_NAMES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_what_there_is(page: Path) -> None:
    for link in links(page):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{link}: there is no {path}"
        assert not heading or heading in headings(target), f"{link}: it has only {sorted(headings(target))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_and_every_benchmark_that_a_page_runs_exists(page: Path) -> None:
    lines = [*spans(page), *(line for block in blocks(page) for line in block.text.splitlines())]
    for module, words in re.findall(r"python3? -m ([\w.]+)((?: \w+)*)", "\n".join(lines)):
        assert find_spec(module), f"there is no module {module}"
        assert module != "bench" or set(words.split()) <= {*NAMES}, f"no benchmark is called {words}"


def test_every_file_that_the_architecture_names_exists() -> None:
    named = {
        span for span in spans(ROOT / "ARCHITECTURE.md") if re.fullmatch(r"[\w./-]+(?:/|\.(?:py|lua|md|yaml))", span)
    }
    everywhere = {file.name for file in [*CODE, *(ROOT / "swarm").rglob("*.lua")]}
    assert len(named) > 70
    assert not [
        name for name in named if not ((ROOT / "swarm" / name).exists() or (ROOT / name).exists() or name in everywhere)
    ]


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in GUIDES[1:] if f"({page.name})" not in index] == ["README.md"]


@cache
def said() -> str:
    """All words of the code, with `…` for what is filled in."""
    words = []
    for file in CODE:
        for node in nodes(file):
            if isinstance(node, ast.JoinedStr):
                words.append(
                    "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.append(node.value)
    return "\n".join(words)


def test_every_error_of_the_page_on_troubles_is_one_of_the_code() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    errors = [
        row
        for table in text.split("| it says |")[1:]
        for row in re.findall(r"^\| `([^`]+)`", table.split("\n#")[0], re.M)
    ]
    assert len(errors) > 20
    assert not [error for error in errors if error.strip("… ;") not in said()]


def pictures(page: Path) -> Iterator[tuple[Path, str]]:
    """Those that a page shows, each with the words for it."""
    text = page.read_text(encoding="utf-8")
    for words, link in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", text):
        yield (page.parent / link).resolve(), words
    for link, words in re.findall(r'<img src="([^"]+)" alt="([^"]*)"', text):
        yield (page.parent / link).resolve(), words


def test_every_picture_is_shown_with_words_for_it_and_is_one_that_the_script_makes() -> None:
    shown = [each for page in PAGES for each in pictures(page)]
    made = {*(f"{name}.webp" for name in SHOTS), *(f"{name}.svg" for name in (*RUNS, *TOPS))}
    files = [file for file in (ROOT / "docs" / "pictures").iterdir() if file.suffix in (".webp", ".svg", ".png")]
    sizes = {file.name: file.stat().st_size for file in files}
    assert all(words for _, words in shown)
    assert {picture for picture, _ in shown} == set(files) and set(sizes) == made
    assert max(sizes.values()) < 150_000 and sum(sizes.values()) < 1_500_000
