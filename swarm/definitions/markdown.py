"""Reads agents written as Markdown with a frontmatter: Claude Code's, OpenCode's, and our own.

All three share one reader, which knows all keys. An OpenCode agent is named after its file; the others have a `name`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from swarm.definitions.fields import Bases, build_definition, is_disabled
from swarm.definitions.frontmatter import has_frontmatter, parse_frontmatter, split_frontmatter
from swarm.definitions.keys import Table
from swarm.definitions.model import AgentDefinition
from swarm.definitions.opencode import OpenCodeConfig, merge_tables
from swarm.definitions.sources import ReadResult, Unusable, read_text, show_path
from swarm.definitions.tool_lists import Entry

SHIPPED_FOLDER = Path(__file__).parent / "shipped"

_DOCUMENTATION = re.compile(r"(readme([-_.].*)?|index|changelog|contributing|license|claude|agents)\.md", re.IGNORECASE)
"""Names of documentation files. Without a frontmatter, such a file is skipped."""


def read_markdown(
    path: Path,
    *,
    name: str | None = None,
    bases: Bases | None = None,
    mode: str | None = None,
    config: OpenCodeConfig | None = None,
) -> ReadResult:
    """Read one file. `name` is the agent's name from the file's place (OpenCode); the file's own `name` key wins.

    With `bases`, a file without a prompt changes the shipped agent of its name in part, and a file without a frontmatter
    is all prompt, as in OpenCode. `mode` is the default for a file that sets none. The file is merged over the entry of
    its name in `config`.
    """
    try:
        text = read_text(path)
        documented = has_frontmatter(text)
        if not documented and _DOCUMENTATION.fullmatch(path.name):
            return ReadResult()
        table: dict[str, Any]
        if bases is not None and not documented and text.strip():
            table, body = {}, text
            warnings = ["it has no frontmatter; the whole file is taken as its prompt"]
        else:
            block, body, first_line = split_frontmatter(text)
            table, warnings = parse_frontmatter(block, first_line)
        called = str(table.get("name") or name or path.stem)
        extra: dict[str, Any] = {}
        if config is not None and called in config.agents:
            table = merge_tables(config.agents[called], table)
            extra = {"merged": [called]}
        if is_disabled(table):
            return ReadResult(disabled={called: show_path(path)}, **extra)
        table = table if mode is None else {"mode": mode, **table}
        definition = _build(table, body, path, name, bases, config.general if config is not None else ())
    except Unusable as error:
        return ReadResult(problems=[error.as_problem(path)])
    definition = definition.model_copy(update={"warnings": [*warnings, *definition.warnings]})
    return ReadResult(definitions=[definition], **extra)


@cache
def shipped_definitions() -> dict[str, AgentDefinition]:
    """Read the shipped agents once per process, by name: they change only with the program.

    Raises `Unusable` if one of their files has a fault or a warning.
    """
    definitions = {}
    for path in sorted(SHIPPED_FOLDER.glob("*.md")):
        block, body, first_line = split_frontmatter(read_text(path))
        table, warnings = parse_frontmatter(block, first_line)
        definition = _build(table, body, path, None, None)
        if warnings or definition.warnings:
            raise Unusable(f"{path.name}: {'; '.join([*warnings, *definition.warnings])}", "Correct the shipped file.")
        definitions[definition.name] = definition.model_copy(update={"source": "shipped"})
    return definitions


def _build(
    table: Table, body: str, path: Path, name: str | None, bases: Bases | None, general: Sequence[Entry] = ()
) -> AgentDefinition:
    with_prompt = merge_tables(table, {"prompt": body}) if body.strip() else table
    return build_definition(
        with_prompt,
        path=path,
        fallback_name=name or path.stem,
        name_expected=name is None,
        bases=bases or {},
        prompt_required=bases is None,
        general=general,
    )
