"""Reads Codex's roles: `[agents.<role>]` in `config.toml`, and the TOML files below `agents/`.

A role in `config.toml` has a description and may name a file with the rest. A file below `agents/` is a complete
role and must have `developer_instructions`. A role without instructions gets the prompt of `general-purpose`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.core.memo import look_at
from swarm.definitions.fields import Bases, build_definition
from swarm.definitions.model import AgentDefinition
from swarm.definitions.sources import Problem, ReadResult, Unusable, locate, read_text, show

_OUR_OWN = ("permission", "permissions", "disable", "disabled", "prompt", "system", "mode", "tools")
"""Keys of other formats that Codex ignores or uses differently."""


_FOR_ALL_ROLES = ("sandbox_mode", "approval_policy")
"""Keys of the configuration itself, the default for each role."""


def read_codex_role(path: Path, *, config: Path | None = None) -> ReadResult:
    """Read one file of `agents/`; `config` is the configuration that the file belongs to."""
    try:
        table = {**_read_general(config), **_parse_toml(read_text(path))}
        if not str(table.get("developer_instructions") or "").strip():
            raise Unusable("it has no `developer_instructions`", "Write the agent's instructions under that key.")
        return ReadResult(definitions=[_build(table, path, path.stem, bases={}, name_expected=True)])
    except Unusable as error:
        return ReadResult(problems=[error.as_problem(path)])


def read_codex_config(path: Path, *, bases: Bases, root: Path | None) -> ReadResult:
    """Read the roles of one `config.toml`; role files must lie inside `root`, and None trusts the file."""
    try:
        agents = _parse_toml(read_text(path)).get("agents")
        general = _read_general(path)
    except Unusable as error:
        return ReadResult(problems=[error.as_problem(path)])
    definitions: list[AgentDefinition] = []
    problems: list[Problem] = []
    includes: list[Path] = []
    for name, role in (agents if isinstance(agents, Mapping) else {}).items():
        if not isinstance(role, Mapping):
            continue  # max_threads and the like: settings of Codex itself
        try:
            definitions.append(_read_role(name, role, general, path, bases, root, includes))
        except Unusable as error:
            named = Unusable(f"role {show(name)}: {error.message}", error.remedy, error.line)
            problems.append(named.as_problem(path))
    depth = agents.get("max_depth") if isinstance(agents, Mapping) else None
    depth = depth if isinstance(depth, int) and not isinstance(depth, bool) and depth >= 0 else None
    return ReadResult(definitions=definitions, problems=problems, includes=includes, max_depth=depth)


def read_codex_table(path: Path) -> dict[str, Any]:
    """Read a `config.toml` with its chosen profile over it; empty if there is no file. Raises `Unusable`."""
    look_at(path)
    table = _parse_toml(read_text(path)) if os.path.lexists(path) else {}
    profiles, chosen = table.get("profiles"), table.get("profile")
    profile = profiles.get(chosen) if isinstance(profiles, Mapping) and isinstance(chosen, str) else None
    return {**table, **profile} if isinstance(profile, Mapping) else table


def _read_general(config: Path | None) -> dict[str, Any]:
    try:
        table = read_codex_table(config) if config is not None else {}
    except Unusable:
        return {}  # reported by the reader of the configuration itself
    return {key: table[key] for key in _FOR_ALL_ROLES if key in table}


def _read_role(
    name: str,
    role: Mapping[str, Any],
    general: Mapping[str, Any],
    path: Path,
    bases: Bases,
    root: Path | None,
    includes: list[Path],
) -> AgentDefinition:
    table = dict(role)
    reference = table.pop("config_file", None)
    if reference is not None:
        if not isinstance(reference, str):
            raise Unusable("`config_file` is not text", "Name a TOML file.")
        file = locate(reference, path.parent, root)
        includes.append(file)
        try:
            table = {**_parse_toml(read_text(file)), **table}
        except Unusable as error:
            raise Unusable(f"its file {show(reference)}: {error.message}", error.remedy, error.line) from error
    # A Codex role replaces an agent of the same name; the two are not merged.
    return _build(
        {**general, **table, "name": name}, path, name, {key: base for key, base in bases.items() if key != name}, False
    )


def _build(table: Mapping[str, Any], path: Path, name: str, bases: Bases, name_expected: bool) -> AgentDefinition:
    foreign = [key for key in table if key in _OUR_OWN]
    definition = build_definition(
        {key: value for key, value in table.items() if key not in foreign},
        path=path,
        fallback_name=name,
        name_expected=name_expected,
        bases=bases,
        prompt_required=False,
    )
    if not foreign:
        return definition
    warning = f"without effect in a role: {', '.join(f'`{key}`' for key in foreign)}"
    return definition.model_copy(update={"warnings": [*definition.warnings, warning]})


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        reason = re.sub(r" \(at .*", "", str(error))
        raise Unusable(
            f"it is not valid TOML: {reason}", "Correct it there.", int(line[1]) if line else None
        ) from error
    except (RecursionError, ValueError) as error:
        raise Unusable("it is nested too deeply, or a number in it is too long", "Simplify it.") from error
