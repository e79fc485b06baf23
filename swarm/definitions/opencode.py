"""Reads agents out of OpenCode's configuration: the `agent` table of `opencode.json` and of `.opencode/*.json(c)`.

An entry that has no prompt and is called like a shipped agent changes that agent in part; `disable` switches
a name off. Prompts may come from a file (`{file:./review.md}`), which for a project must lie inside the
project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.definitions.fields import Bases, build_definition, is_disabled, normalise_key, normalise_keys
from swarm.definitions.jsonc import parse_jsonc
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Problem, ReadResult, Unusable, locate, read_text, show, show_path

_FILE = re.compile(r"\{file:([^{}\n]+)\}")
_VARIABLE = re.compile(r"\{env:[^{}\n]*\}")


def read_opencode_config(path: Path, *, bases: Bases, root: Path | None) -> ReadResult:
    """Read every agent of one configuration file; a file without agents gives nothing.

    `root` is the folder that prompt files must not leave; None trusts the file (the person's own configuration).
    """
    try:
        content = parse_jsonc(read_text(path))
    except Unusable as error:
        return ReadResult(problems=[error.as_problem(path)])
    definitions: list[AgentDefinition] = []
    problems: list[Problem] = []
    disabled: dict[str, str] = {}
    includes: list[Path] = []
    for name, table in _agent_tables(content).items():
        try:
            if not isinstance(table, Mapping):
                raise Unusable("it is not a table", "Write the agent as an object.")
            if is_disabled(table):
                disabled[name] = show_path(path)
            else:
                definitions.append(_read_agent(name, table, path, bases, root, includes))
        except Unusable as error:
            named = Unusable(f"agent {show(name)}: {error.message}", error.remedy, error.line)
            problems.append(named.as_problem(path))
    return ReadResult(definitions=definitions, problems=problems, disabled=disabled, includes=includes)


def _agent_tables(content: Any) -> dict[str, Any]:
    tables = content.get("agent", content.get("agents")) if isinstance(content, Mapping) else None
    return dict(tables) if isinstance(tables, Mapping) else {}


def _read_agent(
    name: str, table: Mapping[str, Any], path: Path, bases: Bases, root: Path | None, includes: list[Path]
) -> AgentDefinition:
    prompt = normalise_keys(table).get("prompt")
    table = {key: value for key, value in table.items() if normalise_key(str(key)) not in ("name", "prompt")}
    if isinstance(prompt, str):
        prompt = _insert_files(prompt, path.parent, root, includes)
    definition = build_definition(
        {**table, "name": name, "prompt": prompt},
        path=path,
        fallback_name=name,
        name_expected=False,
        bases=bases,
        prompt_required=False,
    )
    if isinstance(prompt, str) and _VARIABLE.search(prompt):
        warning = "`{env:…}` in its prompt is left as it is: variables may hold secrets"
        return definition.model_copy(update={"warnings": [*definition.warnings, warning]})
    return definition


def _insert_files(prompt: str, folder: Path, root: Path | None, includes: list[Path]) -> str:
    """The prompt with each `{file:…}` replaced by that file's text."""

    def insert(match: re.Match[str]) -> str:
        file = locate(match[1].strip(), folder, root)
        includes.append(file)
        try:
            return read_text(file)
        except Unusable as error:
            raise Unusable(f"its prompt file {show(match[1])}: {error.message}", error.remedy, error.line) from error

    return _FILE.sub(insert, prompt)
