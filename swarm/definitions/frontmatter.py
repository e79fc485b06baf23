"""Reads the block between the `---` lines of a Markdown file, even if it is not quite YAML.

People write `description: Use this: always` and indent with tabs, and other systems accept it. A block that is
not valid YAML is therefore read key by key. Only a key whose own text is not YAML is taken as plain text.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import yaml

from swarm.definitions.keys import RESTRICTING, is_key, normalise_key
from swarm.definitions.sources import Unusable, show

MAX_BLOCK_CHARACTERS = 64 * 1024

_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?=[ \t]|$)[ \t]*(.*)")
_STRUCTURED = frozenset({"permission", "resultschema"})
"""Keys whose text must be valid YAML, because they mean nothing as plain text."""

_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""Exceptions that PyYAML raises for malformed dates, numbers and explicit tags."""


class _Loader(yaml.SafeLoader):
    """The safe loader without aliases, because a few lines of them can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed")
        return super().compose_node(parent, index)


def has_frontmatter(text: str) -> bool:
    """Report whether the first non-empty line opens a frontmatter."""
    return text.lstrip().split("\n", 1)[0].rstrip() == "---"


def split_frontmatter(text: str) -> tuple[str, str, int]:
    """Return the block, the body, and the line number of the block's first line. Raises `Unusable`."""
    lines = text.split("\n")
    start = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    if start == len(lines):
        raise Unusable("the file is empty", "Write a frontmatter and a prompt, or delete the file.", 1)
    if lines[start].rstrip() != "---":
        raise Unusable(
            "it has no frontmatter", "Begin the file with a `---` block that has `name` and `description`.", start + 1
        )
    for index in range(start + 1, len(lines)):
        if lines[index].rstrip() in ("---", "..."):
            return "\n".join(lines[start + 1 : index]), "\n".join(lines[index + 1 :]), start + 2
    raise Unusable("its frontmatter is not closed", "Add a line `---` after the last key.", start + 1)


def parse_frontmatter(block: str, first_line: int) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of the block, and warnings. Raises `Unusable` with the line."""
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unusable("its frontmatter is longer than 64 KiB", "Move text into the prompt below it.", first_line)
    repeated = _repeated_keys(block)
    if bounding := [key for key in repeated if normalise_key(key) in RESTRICTING]:
        raise Unusable(f"`{bounding[0]}` is written more than once", "Keep one.", first_line)
    warnings = [f"`{key}` is written more than once; the last one counts" for key in repeated if is_key(key)]
    try:
        table = yaml.load(block, _Loader)
    except _YAML_ERRORS as error:
        line = _error_line(error, first_line)
        table = _parse_by_key(block, first_line)
        return table, [*warnings, f"its frontmatter is not valid YAML (line {line}); it was read key by key"]
    if table is None:
        table = {}
    if not isinstance(table, dict):
        raise Unusable("its frontmatter has no keys", "Write `key: value` lines.", first_line)
    return table, warnings


def _parse_by_key(block: str, first_line: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, lines, number in _split_keys(block, first_line):
        try:
            parsed = yaml.load("\n".join(line.expandtabs(2) for line in lines), _Loader)
            table[key] = parsed[key]
        except _YAML_ERRORS as error:
            table[key] = _take_as_text(key, lines, _error_line(error, number))
    return table


def _split_keys(block: str, first_line: int) -> list[tuple[str, list[str], int]]:
    """Split the block at every line that begins a key in the first column."""
    chunks: list[tuple[str, list[str], int]] = []
    for offset, line in enumerate(block.split("\n")):
        match = _KEY.match(line)
        # People paste conversations into a description, and a `user:` there is not a key.
        if match and not (chunks and _is_free_text(chunks[-1][0]) and not is_key(match[1])):
            chunks.append((match[1], [line], first_line + offset))
        elif not line.strip() or line.lstrip().startswith("#"):
            if chunks:
                chunks[-1][1].append("")  # keeps the numbers of later lines
        elif chunks and (line[0] in " \t-" or _is_free_text(chunks[-1][0])):
            chunks[-1][1].append(line)
        else:
            raise Unusable(
                f"{show(line.strip())} is no `key: value` line",
                "Correct it, or, if the prompt begins there, close the frontmatter above it with a line `---`.",
                first_line + offset,
            )
    return chunks


def _take_as_text(key: str, lines: list[str], number: int) -> str | list[str]:
    """Return a value that is not YAML: a list of its `- item` lines, or its lines joined."""
    match = _KEY.match(lines[0])
    first = match[2].strip() if match else ""
    rest = list(filter(None, map(str.strip, lines[1:])))
    structured = normalise_key(key) in _STRUCTURED
    if not structured and not first and rest and all(line.startswith("-") for line in rest):
        return [line[1:].strip().strip("'\"") for line in rest]
    if structured or (rest and not _is_free_text(key)):
        raise Unusable(f"the value of `{key}` is not valid YAML", "Correct its quotes and indentation.", number)
    if _is_free_text(key):
        first = "" if re.fullmatch(r"[|>][+-]?\d?", first) else first
        return " ".join(filter(None, [first, *rest])).strip("'\"").replace("\\n", "\n")
    if first.startswith("[") and first.endswith("]"):
        return re.sub(r"['\"]", "", first[1:-1])  # a list of tools: its reader splits it
    return first.strip("'\"")


def _is_free_text(key: str) -> bool:
    return key.lower() == "description"


def _repeated_keys(block: str) -> list[str]:
    """Return keys in the first column that occur more than once."""
    counts = Counter(match[1] for line in block.split("\n") if (match := _KEY.match(line)))
    return sorted(key for key, count in counts.items() if count > 1)


def _error_line(error: BaseException, first_line: int) -> int:
    mark = getattr(error, "problem_mark", None)
    return first_line + (mark.line if mark is not None else 0)
