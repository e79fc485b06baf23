"""Reads agents from OpenCode's configuration: the `agent` table of `opencode.json` and `.opencode/opencode.json`, also `.jsonc`.

Files of one folder are one configuration, merged key by key. An agent's Markdown file is merged over its entry. An entry without a
prompt changes the shipped agent of the same name in part; `disable` switches a name off. A prompt can come from a file
(`{file:./review.md}`), which for a project must lie inside the project. The configuration's own `permission` and `tools` apply before
those of each agent. OpenCode's internal agents (`compaction`, `title`, `summary`) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.definitions.fields import Bases, build_definition, is_disabled
from swarm.definitions.jsonc import read_table
from swarm.definitions.keys import normalise_key
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Problem, ReadResult, Unusable, locate, read_text, show, show_path
from swarm.definitions.tool_lists import Entry, read_entries, read_switches

CONFIG_NAMES = ("opencode.jsonc", "opencode.json")
"""File names of OpenCode's configuration, the weaker one first."""
_FILE = re.compile(r"\{file:([^{}\n]+)\}")
_VARIABLE = re.compile(r"\{env:[^{}\n]*\}")
_BARE_FILE = re.compile(r"[\w./~-]+\.(md|txt)")
_INTERNAL = frozenset({"compaction", "title", "summary"})


@dataclass
class OpenCodeConfig:
    """The merged configuration files of one folder, before agents are built."""

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Agents' tables by name, with prompt files inserted."""
    files: dict[str, Path] = field(default_factory=dict)
    """The nearest file with an entry, by name."""
    general: list[Entry] = field(default_factory=list)
    """Permissions that apply to each agent before its own."""
    problems: list[Problem] = field(default_factory=list)


def load_opencode_config(paths: Iterable[Path], *, root: Path | None) -> OpenCodeConfig:
    """Merge configuration files, from the weakest to the strongest; missing files are skipped.

    Prompt files must lie inside `root`; None trusts the files (the person's own configuration).
    """
    config = OpenCodeConfig()
    for path in paths:
        try:
            _add_file(config, read_table(path), path, root)
        except Unusable as error:
            config.problems.append(error.as_problem(path))
    return config


def read_opencode_config(path: Path, *, bases: Bases, root: Path | None) -> ReadResult:
    """Read every agent of one configuration file; a file without agents gives an empty result."""
    return read_opencode_agents(load_opencode_config([path], root=root), bases=bases)


def read_opencode_agents(config: OpenCodeConfig, *, bases: Bases, without: Iterable[str] = ()) -> ReadResult:
    """Build a definition of every entry, except entries that were merged into a Markdown file's definition."""
    definitions: list[AgentDefinition] = []
    disabled: dict[str, str] = {}
    problems = list(config.problems)
    elsewhere = set(without)
    for name, table in config.agents.items():
        if name in elsewhere:
            continue
        path = config.files[name]
        try:
            if is_disabled(table):
                disabled[name] = show_path(path)
            else:
                definitions.append(_build(name, table, path, bases, config.general))
        except Unusable as error:
            problems.append(_name_agent(name, error).as_problem(path))
    return ReadResult(definitions=definitions, problems=problems, disabled=disabled)


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the table `above` over `below`, key by key, also in nested tables; two spellings of a key are one key."""
    spelt = {normalise_key(str(key)): key for key in below}
    merged = dict(below)
    for key, value in above.items():
        plain = normalise_key(str(key))
        known = spelt.get(plain)
        before = merged.get(known) if known is not None else None
        if plain == "permission" and known is not None:
            before, value = _as_table(before), _as_table(value)
            if isinstance(before, list) or isinstance(value, list):
                value = [*_as_rules(before), *_as_rules(value)]
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _merge_deep(before, value)
        if known is not None and known != key:
            del merged[known]
        merged[key] = value
    return merged


def _merge_deep(below: Mapping[Any, Any], above: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _merge_deep(before, value)
        merged[key] = value
    return merged


def _as_table(value: Any) -> Any:
    return {"*": value} if isinstance(value, str) else value


def _as_rules(value: Any) -> list[Any]:
    """Return a `permission` table as OpenCode 2's list of rules."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, list) else [value]
    return [
        {"action": tool, "resource": pattern, "effect": effect}
        for tool, rule in value.items()
        for pattern, effect in (rule if isinstance(rule, Mapping) else {"*": rule}).items()
    ]


def _add_file(config: OpenCodeConfig, content: Mapping[str, Any], path: Path, root: Path | None) -> None:
    for key, read in (("tools", read_switches), ("permission", read_entries), ("permissions", read_entries)):
        config.general += _read_general(key, content.get(key), read, path, config.problems)
    for name, table in _agent_tables(content).items():
        try:
            if not isinstance(table, Mapping):
                raise Unusable("it is not a table", "Write the agent as an object.")
            table = {key: value for key, value in table.items() if normalise_key(str(key)) != "name"}
            for key, value in table.items():
                if normalise_key(str(key)) == "prompt" and isinstance(value, str):
                    table[key] = _insert_files(value, path.parent, root)
        except Unusable as error:
            config.problems.append(_name_agent(name, error).as_problem(path))
            continue
        config.agents[name] = merge_tables(config.agents.get(name, {}), table)
        config.files[name] = path


def _read_general(
    key: str, value: Any, read: Callable[[Any], list[Entry]], path: Path, problems: list[Problem]
) -> list[Entry]:
    if value is None or (key == "tools" and not isinstance(value, Mapping)):
        return []
    try:
        return read(value)
    except Unusable as error:
        problems.append(error.as_problem(path))
        # The limits for all agents are unknown, so everything is denied.
        return [("*", "*", "deny")]


def _name_agent(name: str, error: Unusable) -> Unusable:
    return Unusable(f"agent {show(name)}: {error.message}", error.remedy, error.line)


def _agent_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents' tables by name. `mode` is the table's older name, for agents that a person starts."""
    agents = {
        name: one
        for key in ("agent", "agents")
        if isinstance(content.get(key), Mapping)
        for name, one in content[key].items()
    }
    modes = content.get("mode")
    tables = dict(modes) if isinstance(modes, Mapping) else {}
    tables = {name: {"mode": "primary", **item} if isinstance(item, Mapping) else item for name, item in tables.items()}
    tables |= agents
    return {name: item for name, item in tables.items() if name not in _INTERNAL}


def _build(name: str, table: Mapping[str, Any], path: Path, bases: Bases, general: list[Entry]) -> AgentDefinition:
    definition = build_definition(
        {**table, "name": name},
        path=path,
        fallback_name=name,
        name_expected=False,
        bases=bases,
        prompt_required=False,
        general=general,
    )
    prompt = next((value for key, value in table.items() if normalise_key(str(key)) == "prompt"), None)
    return definition.model_copy(update={"warnings": [*definition.warnings, *explain_prompt(prompt)]})


def explain_prompt(prompt: object) -> list[str]:
    """Warn about parts of a prompt that have no effect here: `{env:…}` and a bare file name."""
    warnings = []
    if isinstance(prompt, str) and _VARIABLE.search(prompt):
        warnings.append("`{env:…}` in its prompt is not replaced, because variables may hold secrets")
    if isinstance(prompt, str) and _BARE_FILE.fullmatch(prompt.strip()):
        warnings.append(f"its prompt is the text {show(prompt.strip())}; write {{file:…}} around it to read the file")
    return warnings


def _insert_files(prompt: str, folder: Path, root: Path | None) -> str:
    """Replace each `{file:…}` in a prompt by that file's text."""

    def insert(match: re.Match[str]) -> str:
        file = locate(match[1].strip(), folder, root)
        try:
            return read_text(file)
        except Unusable as error:
            raise Unusable(f"its prompt file {show(match[1])}: {error.message}", error.remedy, error.line) from error

    return _FILE.sub(insert, prompt)
