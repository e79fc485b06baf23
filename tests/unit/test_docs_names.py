"""What the pages for users name is there: commands, options, settings, files, and the words of errors."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from swarm.cli.app import ListedCommand, app
from swarm.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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


def snippets(page: Path) -> Iterator[str]:
    """All that a page sets as code: spans, and the lines of its blocks."""
    text = page.read_text(encoding="utf-8")
    for fenced in re.findall(r"^```.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from fenced.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        if line.startswith("    "):
            yield line.strip()
        else:
            yield from re.findall(r"`([^`]+)`", line)


def calls(snippet: str) -> Iterator[list[str]]:
    """The words of each `swarm …` in it, up to what ends a command."""
    try:
        lexer = shlex.shlex(snippet, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = list(lexer)
    except ValueError:
        words = snippet.split()
    while "swarm" in words:
        words = words[words.index("swarm") + 1 :]
        words = words[: words.index("--")] if "--" in words else words
        end = next((at for at, word in enumerate(words) if re.fullmatch(r"[();<>|&]+|swarm", word)), len(words))
        yield words[:end]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    known = commands()
    wrong, every = [], {option for options, _ in known.values() for option in options} | FOREIGN
    for snippet in snippets(page):
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"SWARM_[A-Z]+(?:_[A-Z]+)*", text)) <= read_variables() | OWN_NAMES
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert not [link for link in links if link and not (page.parent / link).exists()]


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"({page.name})" not in index] == ["README.md"]


@cache
def said() -> str:
    """All words of the code, with `…` for what is filled in."""
    words = []
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
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
