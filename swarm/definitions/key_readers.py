"""Reads single keys of a definition from any format: servers, program, place, requirements and duties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from swarm.core.tags import split_tags
from swarm.definitions.harness import HOLD_SECONDS, MAX_HOLD_SECONDS, Harness, HarnessKind
from swarm.definitions.mcp.formats import Dialect, Unreadable, read_entry
from swarm.definitions.model import Execution, Isolation, Outcome, Rule
from swarm.definitions.sources import Unusable, as_text, show

MAX_WORDS = 100
_MAX_NICKNAMES = 100
_MAX_SKILLS = 50
_ALL, _NONE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_WRITTEN = {"check_seconds": "checkTimeout"}


def read_servers(value: Any, source: str, warnings: list[str]) -> dict[str, Any]:
    """Read `mcpServers`: a name, a list of names and tables, or a table by name. Returns fields of a definition."""
    dialect: Dialect = "codex" if source.endswith(".toml") else "claude"
    servers, shared = [], []
    for name, entry in _entries(value, warnings):
        if entry is None or isinstance(entry, str | bool):
            shared.append(name)
            continue
        try:
            found = read_entry(name, entry, dialect, scope="definition", source=source)
        except Unreadable as error:
            warnings.append(f"its MCP server {show(name)} cannot be used: {error}")
            continue
        warnings.extend(f"its MCP server {show(name)}: {note}" for note in found.notes)
        servers.extend([found.server] if found.server is not None else [])
    return {"servers": servers, "shared_servers": list(dict.fromkeys(shared))}


def _entries(value: Any, warnings: list[str]) -> Iterator[tuple[str, Any]]:
    for one in value if isinstance(value, list) else [value]:
        match one:
            case None:
                continue
            case str():
                yield from ((name.strip(), None) for name in one.split(",") if name.strip())
            case Mapping():
                yield from ((as_text(name), entry) for name, entry in one.items())
            case _:
                warnings.append(f"an entry of `mcpServers` is {show(one)}, neither a name nor a table; it is ignored")


def read_program(keys: Mapping[str, Any], description: str, warnings: list[str]) -> dict[str, Any]:
    """Read the keys of a program as fields of a definition; none without a program. Raises `Unusable`."""
    command = keys.get("command")
    if command is None:
        return {}
    if not isinstance(command, list):
        # In other systems people keep notes under this key, so a line of text must not become a program.
        warnings.append("`command` is not a list of words and is ignored; write for example [python, agent.py]")
        return {}
    words = [as_text(word) for word in command]
    if not words or len(words) > MAX_WORDS or not words[0].strip() or any("\0" in word for word in words):
        raise Unusable(f"`command` is {show(command)}, not a program with its arguments", "Write [python, agent.py].")
    fields: dict[str, Any] = {"command": words, "instruction_files": False}
    if keys.get("restart") is not None:
        fields["restart"] = as_text(keys["restart"]).strip().lower() in ("true", "yes", "on", "1")
    return fields | {"prompt": description.strip() or "(A program.)"}


def read_harness(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Read the keys of a harness as fields of a definition; none without `harness`. Raises `Unusable`."""
    given = keys.get("harness")
    if given is None:
        return {}
    kind = as_text(given).strip().lower()
    if kind not in get_args(HarnessKind):
        raise Unusable(f"`harness` is {show(given)}", f"Write one of {', '.join(get_args(HarnessKind))}.")
    command = keys.get("command")
    words = [as_text(word) for word in command] if isinstance(command, list) else []
    if kind == "acp" and not (0 < len(words) <= MAX_WORDS and re.fullmatch(r"[\w.@+-]+", words[0])):
        raise Unusable(f"`command` is {show(command)}, not a program with its arguments", "Write [goose, acp].")
    if kind != "acp" and command is not None:
        raise Unusable(f"`command` is {show(command)}, and {kind} has a program of its own", "Remove `command`.")
    subagents = _read_yes(keys.get("subagents"))
    if kind == "gemini" and subagents:
        raise Unusable(
            "`subagents` is true, and gemini's own agents do not ask about their calls", "Remove `subagents`."
        )
    return {
        "harness": Harness(
            kind=kind,
            command=words,
            version=_read_version(keys.get("version")),
            subagents=subagents,
            question_hold=_read_hold(keys.get("questionhold")),
        ),
        "instruction_files": False,
        "prompt": "",
    }


def _read_version(given: Any) -> str:
    if given is None:
        return ""
    # Few definitions need it, and each start of a command would pay for its import.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    text = re.sub(r"\s*,\s*|\s+(?=[<>=!~])", ",", as_text(given).strip())
    if re.fullmatch(r"[\d.]+", text):
        text = f"=={text}.*"
    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise Unusable(f"`version` is {show(given)}", "Write versions as `>=2.1.330 <2.2`.") from error


def _read_yes(given: Any) -> bool:
    word = as_text(given).strip().lower() if given is not None else "no"
    if word not in (*_ALL, *_NONE):
        raise Unusable(f"`subagents` is {show(given)}, neither true nor false", "Write true or false.")
    return word in _ALL


def _read_hold(given: Any) -> float:
    if given is None:
        return HOLD_SECONDS
    text = as_text(given).strip()
    if not re.fullmatch(r"\d{1,3}(\.\d+)?", text) or float(text) > MAX_HOLD_SECONDS:
        raise Unusable(f"`questionHold` is {show(given)}", f"Write seconds, from 0 to {MAX_HOLD_SECONDS:g}.")
    return float(text)


def read_placing(isolation: str, kind: str, minutes: str, warnings: list[str]) -> dict[str, Any]:
    """Read the keys `isolation`, `kind` and `timeoutMins`; absent keys give no field."""
    values: dict[str, Any] = {}
    if given := isolation.strip().lower():
        if given not in get_args(Isolation):
            # The safe guess: an agent on its own copy cannot damage its parent's files.
            warnings.append(f"unknown `isolation` {show(isolation)}; 'worktree' is used")
            given = "worktree"
        values["isolation"] = given
    if given := kind.strip().lower():
        if given in get_args(Execution):
            values["kind"] = given
        else:
            warnings.append(f"unknown `kind` {show(kind)}; it is ignored (known: {', '.join(get_args(Execution))})")
    if given := minutes.strip():
        if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", given) and float(given) > 0:
            values["timeout_seconds"] = 60 * float(given)
        else:
            warnings.append(f"`timeoutMins` is {show(minutes)}, not a number of minutes; it is ignored")
    return values


def read_nicknames(given: Any, warnings: list[str]) -> list[str]:
    """Read the names for agents of a type (Codex's `nickname_candidates`), without repeats. Blanks become hyphens."""
    if given is None:
        return []
    if not isinstance(given, list):
        warnings.append(f"`nicknames` is {show(given)}, not a list of names; it is ignored")
        return []
    names = dict.fromkeys(re.sub(r"\s+", "-", as_text(name).strip()) for name in given)
    unfit = [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)]
    if unfit:
        warnings.append(f"{', '.join(map(show, unfit))} cannot be agents' names; they are left out of `nicknames`")
    return [name for name in names if name not in unfit][:_MAX_NICKNAMES]


def read_requirements(keys: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Read the keys `requires` and `resultSchema`. Raises `Unusable`."""
    values: dict[str, Any] = {}
    if (required := keys.get("requires")) is not None:
        if isinstance(required, Mapping):
            warnings.append("`requires` is a table, not a list of tags; it is ignored")
        else:
            values["requires"] = _read_tags(required)
    if (schema := keys.get("resultschema")) is not None:
        if not isinstance(schema, Mapping):
            raise Unusable("`resultSchema` is not a table", "Write a JSON schema.")
        try:
            values["result_schema"] = json.loads(json.dumps(schema, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise Unusable("`resultSchema` is not JSON", "Use only texts, numbers, lists and tables in it.") from error
    return values


def _read_tags(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else [value]
    try:
        return split_tags(" ".join(as_text(part) for part in parts))
    except ValueError as error:
        raise Unusable(f"`requires` is {show(value)}: {error}", "Write tags of workers, for example [gpu].") from error


def read_skills(keys: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    """Read skill names, as a list or separated by commas. Codex's table, which only switches skills, has no effect."""
    given = keys.get("skills")
    if isinstance(given, str):
        given = given.split(",")
    if isinstance(given, list):
        return {"skills": [name for one in given if (name := as_text(one).strip().lstrip("/"))][:_MAX_SKILLS]}
    if given is not None:
        warnings.append("`skills` is not a list of names; it has no effect")
    return {}


def read_duties(keys: Mapping[str, Any], *, check: str, rubric: str) -> dict[str, Any]:
    """Read the outcome and coordination keys as fields of an `AgentDefinition`. Raises `Unusable`."""
    duties: dict[str, Any] = {}
    numbers = {"tries": keys.get("tries"), "check_seconds": keys.get("checktimeout")}
    given = {name: value for name, value in numbers.items() if value is not None}
    if check or rubric:
        duties["outcome"] = _read_outcome({"check": check, "rubric": rubric, **given})
    elif given:
        raise Unusable("it has neither a `check` nor a `rubric`", "Add one, or remove `tries` and `checkTimeout`.")
    if keys.get("coordination") is not None:
        duties["coordination"] = _read_rules(keys["coordination"])
    return duties


def _read_outcome(given: dict[str, Any]) -> Outcome:
    try:
        return Outcome.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = _WRITTEN.get(str(first["loc"][0]), str(first["loc"][0]))
        raise Unusable(f"`{key}` cannot be used: {first['msg']}", f"Correct `{key}`.") from error


def _read_rules(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else re.split(r"[,\s]+", as_text(given).strip())
    rules = [as_text(rule).strip().lower().replace("_", "-") for rule in listed]
    if len(rules) == 1 and rules[0] in (*_ALL, *_NONE):
        return list(get_args(Rule)) if rules[0] in _ALL else []
    for rule in rules:
        if rule not in get_args(Rule):
            known = ", ".join(get_args(Rule))
            raise Unusable(f"`coordination` has no rule {show(rule)}", f"Write true, false, or some of: {known}.")
    return list(dict.fromkeys(rules))
