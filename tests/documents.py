"""The project's pages as tests read them: what they set as code, and what each block is.

A block's info string says what is done with it. After the language comes

- nothing: it is **run** (`sh`, `python`, `yaml`: the steps of a workflow), in the page's order, by the test that follows the page;
- `file=PATH`: it is a **file**, which a page's follower writes there, and which the reader of such files must take without a word;
- `call`: a call of a tool, as a model makes it;
- `example`: it is **not run** (it needs root, a browser, another host), but each command in it must be one that there is.

`text` is output, or a picture.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""The pages for users."""
PAGES = [
    *GUIDES,
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "deploy/README.md", "bench/README.md")),
    *(ROOT / name for name in ("tests/chaos/README.md", "swarm/rehearsal/scenarios/README.md")),
]
"""All pages with blocks that somebody wrote by hand."""

_BEFORE_A_COMMAND = re.compile(r"--|[();<>|&]+|\w+=.*|if|then|do|while|until")


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def kind(self) -> str:
        """`run`, `file`, `call`, `example` or `text`; nothing if the info string says none of them."""
        marks = self.info.split()[1:]
        if not marks:
            return {"sh": "run", "python": "run", "yaml": "run", "text": "text"}.get(
                self.language, "example" if self.info else ""
            )
        return "file" if self.file else {"call": "call", "example": "example"}.get(" ".join(marks), "")

    @property
    def file(self) -> str:
        """Where it is to be written, if it is a file."""
        return self.info.partition(" file=")[2]

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.info})"


@cache
def parse(page: Path) -> list[Token]:
    """The page's tokens. Raises: AssertionError for code that is set by indentation alone, which says of itself nothing."""
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    indented = [token.map[0] + 1 for token in tokens if token.type == "code_block" and token.map]
    assert not indented, f"{page.name}: indented code in the lines {indented}; fence it and say what it is"
    return tokens


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in its order."""
    name = str(page.relative_to(ROOT))
    fences = (token for token in parse(page) if token.type == "fence")
    return [Block(name, (token.map or [0])[0] + 1, token.info.strip(), token.content) for token in fences]


def spans(page: Path) -> Iterator[str]:
    """What a page sets as code within its sentences."""
    for token in parse(page):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def links(page: Path) -> Iterator[str]:
    """Where a page leads to within the project: links, and pictures."""
    children = (child for token in parse(page) for child in token.children or ())
    targets = (str(child.attrGet("href") or child.attrGet("src") or "") for child in children)
    yield from (target for target in targets if target and "://" not in target)


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    tokens = parse(page)
    texts = (tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open")
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in texts}


def rows(page: Path, heading: str) -> Iterator[list[list[str]]]:
    """Of each row of the tables below a heading: what its cells set as code."""
    tokens, below, cells = parse(page), False, []
    for at, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                below = tokens[at + 1].content == heading
            case "tr_open":
                cells = []
            case "td_open":
                cells.append([child.content for child in tokens[at + 1].children or () if child.type == "code_inline"])
            case "tr_close" if below and cells:
                yield cells


def calls(snippet: str) -> Iterator[list[str]]:
    """The words of each `swarm …` in a piece of shell, up to what ends the command."""
    try:
        lexer = shlex.shlex(snippet, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = list(lexer)
    except ValueError:
        words = snippet.split()
    for at, word in enumerate(words):
        if word == "swarm" and (at == 0 or _BEFORE_A_COMMAND.fullmatch(words[at - 1])):
            rest = words[at + 1 :]
            end = next((at for at, word in enumerate(rest) if re.fullmatch(r"--|[();<>|&]+", word)), len(rest))
            yield rest[:end]
