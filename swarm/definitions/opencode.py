"""Reads agents out of OpenCode's configuration: the `agent` table of `opencode.json` and of `.opencode/*.json(c)`.

An entry that has no prompt and is called like a shipped agent changes that agent in part; `disable` switches
a name off. Prompts may come from a file (`{file:./review.md}`), which for a project must lie inside the
project. The file's own `permission` and `tools` hold for each of its agents that says nothing else; the agents
by which OpenCode itself works (`compaction`, `title`, `summary`) are passed over.
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
_BARE_FILE = re.compile(r"[\w./~-]+\.(md|txt)")
_INTERNAL = frozenset({"compaction", "title", "summary"})
_FOR_ALL_AGENTS = ("permission", "tools")


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
                table = _add_what_holds_for_all(table, content)
                definitions.append(_read_agent(name, table, path, bases, root, includes))
        except Unusable as error:
            named = Unusable(f"agent {show(name)}: {error.message}", error.remedy, error.line)
            problems.append(named.as_problem(path))
    return ReadResult(definitions=definitions, problems=problems, disabled=disabled, includes=includes)


def _agent_tables(content: Any) -> dict[str, Any]:
    """The agents by name. `mode` is the older name of the table, for agents that a person starts."""
    if not isinstance(content, Mapping):
        return {}
    agents, modes = content.get("agent", content.get("agents")), content.get("mode")
    tables = dict(modes) if isinstance(modes, Mapping) else {}
    tables = {name: {"mode": "primary", **item} if isinstance(item, Mapping) else item for name, item in tables.items()}
    tables |= agents if isinstance(agents, Mapping) else {}
    return {name: item for name, item in tables.items() if name not in _INTERNAL}


def _add_what_holds_for_all(table: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's table with what the file says for all its agents; what the agent says itself goes before it."""
    merged = dict(table)
    for key in _FOR_ALL_AGENTS:
        general, own = _as_rules(content.get(key)), _as_rules(table.get(key))
        if general and (own or table.get(key) is None):
            merged[key] = {**general, **own}
    return merged


def _as_rules(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"*": value}
    return dict(value) if isinstance(value, Mapping) else {}


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
    warnings = list(definition.warnings)
    if isinstance(prompt, str) and _VARIABLE.search(prompt):
        warnings.append("`{env:…}` in its prompt is left as it is: variables may hold secrets")
    if isinstance(prompt, str) and _BARE_FILE.fullmatch(prompt.strip()):
        warnings.append(f"its prompt is the text {show(prompt.strip())}; write {{file:…}} around it to read the file")
    return definition.model_copy(update={"warnings": warnings})


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
