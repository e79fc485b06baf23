"""Builds an `AgentDefinition` from the table of keys that any format's reader returns.

An unknown key or value becomes a warning if ignoring it is harmless. If a guess could give an agent more tools or
permissions than its author meant, the definition is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from swarm.definitions.hook_tables import read_hooks
from swarm.definitions.key_readers import (
    read_duties,
    read_harness,
    read_nicknames,
    read_placing,
    read_program,
    read_requirements,
    read_servers,
    read_skills,
)
from swarm.definitions.keys import Table, normalise_keys, show_key, warn_about_the_rest
from swarm.definitions.model import DEFAULT_TYPE, AgentDefinition, Effort, MemoryScope, Mode, PermissionMode
from swarm.definitions.names import spell_part, split_chain
from swarm.definitions.sources import Unusable, as_text, show, show_path
from swarm.definitions.tool_lists import Entry, ToolLists, read_entries, read_switches

Bases = Mapping[str, AgentDefinition]
"""Definitions by name that a file can change in part instead of describing a new agent."""

_MODEL_ALIASES = frozenset({"haiku", "sonnet", "opus", "fable", "inherit"})
_EFFORTS = get_args(Effort)
_LESS_THAN_LOW = ("none", "minimal")
_PERMISSION_SPELLINGS = {mode.lower(): mode for mode in get_args(PermissionMode)} | {"manual": "default"}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_MAX_DESCRIPTION = 4_000
_MAX_WARNINGS = 20


def is_disabled(table: Table) -> bool:
    """Report whether the table switches off the definition of its name."""
    return _read_flag(normalise_keys(table), "disable", default=False)


def build_definition(
    table: Table,
    *,
    path: Path,
    fallback_name: str,
    name_expected: bool,
    bases: Bases,
    prompt_required: bool = True,
    general: Sequence[Entry] = (),
) -> AgentDefinition:
    """Build a definition from a file's keys. Raises `Unusable`.

    With `name_expected`, falling back to the file's name gives a warning. Without `prompt_required`, a table that has no
    prompt changes the base of the same name in part, or gets the prompt of `general-purpose`. The permissions in `general`
    apply before the definition's own.
    """
    keys = normalise_keys(table)
    warnings: list[str] = []
    name = _read_name(keys, fallback_name, name_expected, warnings)
    prompt = _read_string(keys, "prompt").strip()
    values: dict[str, Any] = {}
    program = read_harness(keys) or read_program(keys, _read_string(keys, "description"), warnings)
    if program and not prompt:
        prompt = program["prompt"]
    if not prompt and "harness" not in program:
        if prompt_required:
            raise Unusable("it has no prompt", "Write the agent's instructions below the frontmatter.")
        prompt = _inherit_from_base(name, bases, values, warnings)
    values |= program | {"name": name, "prompt": prompt, "source": show_path(path)}
    if description := _read_description(keys, prompt, "description" in values, warnings):
        values["description"] = description
    _read_model_and_limits(keys, values, warnings)
    values |= read_duties(keys, check=_read_string(keys, "check").strip(), rubric=_read_string(keys, "rubric").strip())
    if keys.get("mcpservers") is not None:
        values |= read_servers(keys["mcpservers"], values["source"], warnings)
    _read_permissions(keys, values, warnings, general)
    values["hooks"], faults = read_hooks(keys.get("hooks"), "project", values["source"])
    warnings += [f"`hooks`: {fault}" for fault in faults]
    warn_about_the_rest(keys, table, warnings)
    try:
        return AgentDefinition(**values, warnings=_limit(warnings))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise Unusable(f"`{key}` cannot be used: {first['msg']}", f"Correct `{key}`.") from error


def _limit(warnings: list[str]) -> list[str]:
    """Keep the first warnings only, because definitions travel with every job."""
    hidden = len(warnings) - _MAX_WARNINGS
    return warnings if hidden <= 0 else [*warnings[:_MAX_WARNINGS], f"and {hidden} more"]


# -- one key after the other ------------------------------------------------------------------------------


def _read_name(keys: Table, fallback: str, expected: bool, warnings: list[str]) -> str:
    given = _read_string(keys, "name").strip()
    if not given and expected:
        warnings.append(f"it has no `name`; the file's name {show(fallback)} is used")
    named = given or fallback
    name = "" if ":" in named or named.startswith("-") else spell_part(named) or spell_part(fallback)
    if not name:
        raise Unusable(
            f"{show(named)} cannot be a name",
            "Use 1 to 64 letters, digits, '-', '_' and '.', beginning with a letter, digit or '_'.",
        )
    if name != named:
        warnings.append(f"the name {show(named)} is written {name!r} here")
    return name


def _inherit_from_base(name: str, bases: Bases, values: dict[str, Any], warnings: list[str]) -> str:
    base = bases.get(DEFAULT_TYPE if name == "general" else name)
    if base is not None:
        values |= base.model_dump(exclude={"warnings"})
        warnings.append(f"it has no prompt; it changes the shipped {base.name!r} in part")
        return base.prompt
    if DEFAULT_TYPE not in bases:
        raise Unusable("it has no prompt", "Write one.")
    warnings.append(f"it has no prompt; that of {DEFAULT_TYPE!r} is used")
    return bases[DEFAULT_TYPE].prompt


def _read_description(keys: Table, prompt: str, inherited: bool, warnings: list[str]) -> str:
    description = _read_string(keys, "description").strip()
    if not description and not inherited:
        description = next((line.strip("# \t") for line in prompt.splitlines() if line.strip("# \t")), "")[:200]
        warnings.append("it has no `description`; its prompt's first line is used")
    if len(description) > _MAX_DESCRIPTION:
        warnings.append(f"its `description` is cut to {_MAX_DESCRIPTION} characters")
        description = description[: _MAX_DESCRIPTION - 1] + "…"
    return description


def _read_model_and_limits(keys: Table, values: dict[str, Any], warnings: list[str]) -> None:
    values |= _read_chain(keys.get("model"), warnings)
    if mode := _read_string(keys, "mode").strip().lower():
        if mode in get_args(Mode):
            values["mode"] = mode
        else:
            warnings.append(f"unknown `mode` {show(mode)}; 'all' is used")
    if (turns := keys.get("maxturns")) is not None:
        if re.fullmatch(r"[1-9]\d{0,8}", as_text(turns).strip()) and not isinstance(turns, bool):
            values["max_turns"] = int(turns)
        else:
            warnings.append(f"`maxTurns` is {show(turns)}, not a positive number; it is ignored")
    if effort := _read_string(keys, "effort").strip().lower():
        if effort in _EFFORTS:
            values["effort"] = effort
        elif effort in _LESS_THAN_LOW:
            values["effort"] = "low"
            warnings.append(f"`effort` {show(effort)} is not supported here; 'low' is used")
        else:
            warnings.append(f"unknown `effort` {show(effort)}; it is ignored (known: {', '.join(_EFFORTS)})")
    if keys.get("abortsiblings") is not None:
        values["abort_siblings"] = _read_flag(keys, "abortsiblings", default=False)
    if keys.get("background") is not None:
        values["background"] = _read_flag(keys, "background", default=False)
    _read_memory(keys, values, warnings)
    values |= read_skills(keys, warnings)
    if keys.get("instructionfiles") is not None:
        values["instruction_files"] = _read_flag(keys, "instructionfiles", default=True)
    if names := read_nicknames(keys.get("nicknames"), warnings):
        values["nicknames"] = names
    values |= read_requirements(keys, warnings)
    isolation, kind, minutes = (_read_string(keys, key) for key in ("isolation", "kind", "timeoutmins"))
    values |= read_placing(isolation, kind, minutes, warnings)


def _read_chain(given: Any, warnings: list[str]) -> dict[str, Any]:
    """Read one model, or a list of models of which later ones take over for earlier ones."""
    if isinstance(given, Mapping) or (isinstance(given, list) and not all(isinstance(one, str) for one in given)):
        raise Unusable(f"`model` is {show(given)}, not a model", "Name one model, or a list of them.")
    named = given if isinstance(given, list) else split_chain("" if given is None else as_text(given))
    if not named:
        return {}
    first, *others = [read_model(model.strip(), warnings) for model in named]
    return {"model": first, "fallbacks": tuple(model for model in others if model not in (None, "inherit"))}


def _read_memory(keys: Table, values: dict[str, Any], warnings: list[str]) -> None:
    given = keys.get("memory")
    scope = given.strip().lower() if isinstance(given, str) else given
    if scope in get_args(MemoryScope):
        values["memory"] = scope
    elif scope not in (None, False, "", "none"):
        known = ", ".join(get_args(MemoryScope))
        warnings.append(f"unknown `memory` {show(given)}; it is ignored (known: {known})")


def read_model(model: str, warnings: list[str]) -> str | None:
    """Return an alias or full id of a Claude model, or `VENDOR:MODEL`; any other model becomes `inherit`, with a warning."""
    plain = re.sub(r"\[\w+\]$", "", model.removeprefix("anthropic/")).strip()
    if plain != model.removeprefix("anthropic/"):
        warnings.append(f"only {plain!r} of the model {show(model)} is used")
    if plain.lower() in _MODEL_ALIASES:
        return plain.lower()
    if plain.lower() == "default":
        return None
    if ("/" not in plain and "claude-" in plain.lower()) or re.fullmatch(r"[a-z][a-z0-9_-]*:\S+", plain):
        return plain
    # Other providers have their own ids for the same models; the alias means the same everywhere.
    if family := re.search(r"claude-(?:[\d.-]+-)?(haiku|sonnet|opus|fable)", plain.lower()):
        warnings.append(f"the model {show(model)} is another provider's; {family[1]!r} is used")
        return family[1]
    warnings.append(f"the model {show(model)} is not available here; the parent's model is used")
    return "inherit"


def _read_permissions(keys: Table, values: dict[str, Any], warnings: list[str], general: Sequence[Entry]) -> None:
    """Read tools, permission mode and read-only from any of the supported systems' keys."""
    lists = ToolLists(tools=values.get("tools"), disallowed=list(values.get("disallowed_tools", [])))
    entries = list(general)
    if isinstance(keys.get("tools"), Mapping):
        entries += read_switches(keys["tools"])
    elif "tools" in keys:
        lists.read_tools(keys["tools"])
    if "disallowedtools" in keys:
        lists.read_disallowed(keys["disallowedtools"])
    if "permission" in keys:
        entries += read_entries(keys["permission"])
    values["permission"] = lists.read_permission(entries)
    values["tools"], values["disallowed_tools"] = lists.tools, lists.disallowed
    warnings.extend(lists.finish())
    if mode := _read_string(keys, "permissionmode").strip():
        if known := _PERMISSION_SPELLINGS.get(mode.lower()):
            values["permission_mode"] = known
        else:
            warnings.append(f"unknown `permissionMode` {show(mode)}; 'default' is used")
    if keys.get("readonly") is not None:
        values["read_only"] = _read_flag(keys, "readonly", default=False)
    _read_approval(keys, values, warnings)
    sandbox = _read_string(keys, "sandboxmode").strip()
    if sandbox == "read-only":
        values["read_only"] = True
    elif sandbox and sandbox != "workspace-write":
        warnings.append(f"`sandbox_mode` {show(sandbox)} is not supported here; the agent stays in its workspace")


def _read_approval(keys: Table, values: dict[str, Any], warnings: list[str]) -> None:
    """Read Codex's `approval_policy`; approvals for anything beyond the sandbox are the default here."""
    policy = keys.get("approvalpolicy")
    if policy is None or policy in ("on-request", "on-failure"):
        return
    if policy == "untrusted":
        values["permission_mode"] = "bubble"
    else:
        what = show(policy)
        warnings.append(
            f"`approval_policy` {what} is not supported here; calls beyond its permissions need an approval"
        )


def _read_string(keys: Table, key: str) -> str:
    value = keys.get(key)
    if value is None:
        return ""
    if isinstance(value, (Mapping, list)):
        raise Unusable(f"`{show_key(key)}` is {show(value)}, not text", "Write it as text.")
    return as_text(value)


def _read_flag(keys: Table, key: str, *, default: bool) -> bool:
    value = keys.get(key)
    if value is None:
        return default
    word = as_text(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise Unusable(f"`{show_key(key)}` is {show(value)}, neither true nor false", "Write true or false.")
