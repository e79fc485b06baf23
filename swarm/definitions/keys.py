"""The keys of a definition, other systems' spellings of them, and warnings for keys without effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swarm.definitions.names import suggest
from swarm.definitions.sources import Unusable, as_text, enumerate_briefly

Table = Mapping[str, Any]

_SPELLINGS = {
    "allowedtools": "tools",
    "disabledtools": "disallowedtools",
    "steps": "maxturns",
    "maxsteps": "maxturns",
    "reasoningeffort": "effort",
    "modelreasoningeffort": "effort",
    "nicknamecandidates": "nicknames",
    "outputschema": "resultschema",
    "system": "prompt",
    "developerinstructions": "prompt",
    "disabled": "disable",
    "permissions": "permission",
}
"""Other systems' spellings of our keys, in lower case and without `-` and `_`."""

_KEYS = (
    *("name", "description", "prompt", "tools", "disallowedTools", "model", "mode", "permissionMode", "readOnly"),
    *("maxTurns", "background", "isolation", "kind", "timeoutMins", "effort", "nicknames", "resultSchema"),
    *("permission", "disable", "sandboxMode", "approvalPolicy", "requires", "check", "checkTimeout", "rubric"),
    *("tries", "instructionFiles", "memory", "coordination", "skills", "mcpServers", "hooks", "abortSiblings"),
    *("command", "restart", "harness", "version", "subagents", "questionHold"),
)

_UNSUPPORTED = frozenset(
    (
        *("initialprompt", "options", "websearch", "servicetier", "modelprovider", "modelcontextwindow", "features"),
        *("profiles", "shellenvironmentpolicy", "notify", "sandboxworkspacewrite", "projectdocmaxbytes"),
    )
)
"""Keys that other systems document and that have no effect here. Codex allows any key of its configuration."""

_NOISE = frozenset(
    (
        *("color", "temperature", "topp", "topk", "variant", "hidden", "personality", "icon", "emoji", "vibe"),
        *("modelverbosity", "modelreasoningsummary", "author", "authors", "version", "tags", "tag", "category"),
        *("categories", "metadata", "license", "keywords", "title", "displayname", "id", "created", "updated"),
        *("createdat", "updatedat", "lastupdated", "date", "status", "homepage", "url", "repository", "argumenthint"),
    )
)
"""Keys about style and notes for people; they are ignored without a warning."""

RESTRICTING = frozenset({"tools", "disallowedtools", "permission", "permissionmode", "readonly", "sandboxmode"})
"""Keys that limit what an agent may do; a repeated one is refused."""
_MAX_KEYS = 200


def normalise_keys(table: Table) -> dict[str, Any]:
    """Return the table under our spellings: `disallowed-tools`, `disallowed_tools` and `disallowedTools` are one key."""
    if len(table) > _MAX_KEYS:
        raise Unusable(f"it has more than {_MAX_KEYS} keys", "Keep only keys that describe the agent.")
    result: dict[str, Any] = {}
    for key, value in table.items():
        plain = normalise_key(as_text(key))
        if plain in result and plain in RESTRICTING:
            raise Unusable(f"`{as_text(key)}` is written twice, in two spellings", "Keep one.")
        result.setdefault(plain, value)
    return result


def normalise_key(key: str) -> str:
    """Return our spelling of one key, in lower case and without `-` and `_`."""
    plain = re.sub(r"[-_\s]", "", key).lower()
    return _SPELLINGS.get(plain, plain)


def is_key(word: str) -> bool:
    """Report whether a word at the start of a line is a key of definitions, known or misspelt."""
    plain = normalise_key(word)
    understood = {key.lower() for key in _KEYS}
    return plain in understood | _UNSUPPORTED | _NOISE or bool(suggest(plain, _KEYS, likeness=0.8))


def warn_about_the_rest(keys: Table, table: Table, warnings: list[str]) -> None:
    """Warn about keys that have no effect; people and other programs keep notes there."""
    understood = {key.lower() for key in _KEYS}
    written = {normalise_key(as_text(key)): as_text(key) for key in table}
    unsupported: list[str] = []
    unknown: list[str] = []
    for key in keys:
        shown = f"`{written.get(key, key)[:60]}`"
        if key in _NOISE:
            continue
        if key in _UNSUPPORTED:
            unsupported.append(shown)
        elif key not in understood and (hint := suggest(key, _KEYS, likeness=0.8)):
            warnings.append(f"unknown key {shown}{hint}; it has no effect")
        elif key not in understood:
            unknown.append(shown)
    if unsupported:
        warnings.append(f"not supported here and without effect: {enumerate_briefly(unsupported)}")
    if unknown:
        warnings.append(f"unknown and without effect: {enumerate_briefly(unknown)}")


def show_key(key: str) -> str:
    """Return a key in our spelling."""
    return next((known for known in _KEYS if known.lower() == key), key)
