"""Parse an instruction file: its imports, and the files that a rule applies to. Pure except for a cache.

Rules lie in `.claude/rules`. `@path` in the text imports a file. It is plain text in code (fenced or a span), and after a letter, as in an
address. An HTML comment is for people; in code it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pathspec import GitIgnoreSpec
from pydantic import BaseModel, ConfigDict

from swarm.definitions.frontmatter import has_frontmatter, parse_frontmatter, split_frontmatter
from swarm.definitions.sources import Unusable, show

MAX_GLOBS = 50
_PARTS = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^ {0,3}(?P=fence)[`~]*[ \t]*$|.*\Z)"
    r"|<!--(?:.*?-->|.*\Z)"
    r"|(?P<ticks>(?<!`)`+)(?!`).{0,400}?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
"""Matches code and comments. An unclosed one extends to the end, so matching takes linear time."""
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:\\ |[^\s\\])+)", re.MULTILINE)
_CLOSING = ".,;:!?)\"'"
_BRACES = re.compile(r"\{([^{}]*)\}")


class PathRule(BaseModel):
    """Text that an agent gets with the first file it reads that matches the globs."""

    model_config = ConfigDict(frozen=True)

    source: str
    text: str
    globs: list[str]
    """Globs as in a `.gitignore`, relative to the rule's folder."""
    below: str = ""
    """The workspace's path from that folder, with a trailing slash."""

    def matches(self, path: str) -> bool:
        """Whether the rule applies to a file, whose path is relative to the workspace."""
        return _compile(tuple(self.globs)).match_file(self.below + path)


def read_globs(text: str) -> tuple[list[str], str]:
    """Return the globs of a rule's frontmatter, and its text; no globs if the rule applies to all files.

    Raises `Unusable` if `paths` is not a list of globs.
    """
    if not has_frontmatter(text):
        return [], text
    block, body, first_line = split_frontmatter(text)
    table, _ = parse_frontmatter(block, first_line)
    given = _as_list(table.get("paths", table.get("globs")))
    globs = [each for glob in given for each in expand_braces(glob)][:MAX_GLOBS]
    return [f"/{glob.removeprefix('./').lstrip('/')}" for glob in globs], body.lstrip("\n")


def expand_braces(glob: str) -> list[str]:
    """Expand `*.{ts,tsx}` into its globs, at most `MAX_GLOBS`."""
    done: list[str] = []
    pending = [glob]
    while pending and len(done) < MAX_GLOBS:
        current = pending.pop(0)
        found = _BRACES.search(current)
        if found is None:
            done.append(current)
        elif len(pending) < MAX_GLOBS:
            pending += [current[: found.start()] + one + current[found.end() :] for one in found[1].split(",")]
    return done


@lru_cache(maxsize=256)
def _compile(globs: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(globs)


def _as_list(given: Any) -> Iterable[str]:
    if given is None:
        return []
    if isinstance(given, str):
        # A comma within braces separates nothing.
        return [part.strip() for part in re.split(r",(?![^{]*\})", given) if part.strip()]
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return [one.strip() for one in given if one.strip()]
    raise Unusable(f"`paths` is {show(given)}, not a list of globs", "Write for example `paths: [src/**/*.ts]`.")


# -- the text ----------------------------------------------------------------------------------------------------


def strip_comments(text: str) -> str:
    """Remove HTML comments outside code, and the lines that held nothing else."""
    if "<!--" not in text:
        return text
    plain = _PARTS.sub(lambda found: "" if _is_comment(found[0]) else found[0], text)
    return plain if plain == text else re.sub(r"\n[ \t]*(?:\n[ \t]*){2,}", "\n\n", plain).strip("\n") + "\n"


def find_imports(text: str) -> list[str]:
    """Return the paths that a text imports, as written, each once, in order."""
    if "@" not in text:
        return []
    prose = _PARTS.sub(" ", text)
    found = (name.replace("\\ ", " ").rstrip(_CLOSING) for name in _IMPORT.findall(prose))
    return list(dict.fromkeys(name for name in found if name))


def looks_like_file(name: str) -> bool:
    """Whether to report an import of a missing file: people also write `@somebody` and `@decorator`."""
    return "/" in name or bool(re.search(r"\.(md|mdc|txt)$", name, re.IGNORECASE))


def _is_comment(part: str) -> bool:
    return part.startswith("<!--") and part.endswith("-->")
