"""Read one skill (`SKILL.md` and the files beside it) or one command (a Markdown file). Runs nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from swarm.capabilities.skills.model import MAX_DESCRIPTION, Package, Skill
from swarm.definitions.carried_files import CarriedFile, CarryingLimits, collect_files
from swarm.definitions.frontmatter import has_frontmatter, parse_frontmatter, split_frontmatter
from swarm.definitions.names import spell_part
from swarm.definitions.plugins.model import Plugin
from swarm.definitions.sources import Unusable, as_text, read_text, resolve, show

MAX_FILES = 500
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_PACKAGE_BYTES = 8 * 1024 * 1024
_LIMITS = CarryingLimits(MAX_FILES, MAX_FILE_BYTES, MAX_PACKAGE_BYTES, frozenset({"node_modules", "__pycache__"}))
_SPELLINGS = {"whentouse": "when", "argumenthint": "hint", "subtask": "subtask"}
_WITHOUT_EFFECT = {
    "hooks": "its `hooks` are not run",
    "disallowedtools": "its `disallowed-tools` have no effect on the loading agent",
}
"""Keys whose missing effect must be reported; style keys, and keys that could only permit something, are ignored."""
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_FALSE = ("false", "no", "off", "0")


def read_skill(path: Path, boundary: Path | None, shown: str, plugin: Plugin | None = None) -> tuple[Skill, str]:
    """Read a skill, with both its names, and its package as JSON. Links out of `boundary` are left out. Raises `Unusable`."""
    _refuse_outside(path, boundary)
    keys, body = _read(path)
    other = spell_part(path.parent.name)
    # A plugin's skill goes by its folder; the folder of a plugin with one skill can have any name.
    alone = plugin is None or path.parent == plugin.folder
    name = spell_part(_text(keys, "name")) or other if alone else other
    files, left_out = collect_files(path.parent, boundary or path.parent, _LIMITS)
    skill, document = _make(keys, body, name, shown, "skill", files, left_out, plugin)
    return skill.model_copy(update={"folder": "" if plugin or other == name else other}), document


def read_command(
    path: Path, folder: Path, boundary: Path | None, shown: str, prefix: str = "", plugin: Plugin | None = None
) -> tuple[Skill, str]:
    """Read a command; the folders between its file and `folder` are part of its name. Raises `Unusable`."""
    _refuse_outside(path, boundary)
    keys, body = _read(path)
    parts = path.relative_to(folder).with_suffix("").parts
    return _make(keys, body, prefix + ":".join(filter(None, map(spell_part, parts))), shown, "command", {}, [], plugin)


def make_command(name: str, table: Mapping[str, Any], shown: str, plugin: Plugin | None = None) -> tuple[Skill, str]:
    """Make a command from an entry of OpenCode's `command` table, or of a plugin's manifest. Raises `Unusable`."""
    body = table.get("template")
    if not isinstance(body, str) or not body.strip():
        raise Unusable(f"the command {show(name)} has no `template`", "Write the prompt there.")
    return _make(_normalise(table), body, spell_part(name), shown, "command", {}, [], plugin)


def _make(
    keys: Mapping[str, Any],
    body: str,
    name: str,
    shown: str,
    kind: Literal["skill", "command"],
    files: dict[str, CarriedFile],
    left_out: list[str],
    plugin: Plugin | None,
) -> tuple[Skill, str]:
    if not name:
        raise Unusable("it contains no usable name", "Name it in letters, digits, '-' and '_'.")
    if not body.strip():
        raise Unusable("it has no text below its frontmatter", "Write the instructions there.")
    if plugin is not None:
        name, body = f"{plugin.name}:{name}", plugin.in_text(body)
    package = Package(name=name, body=body.strip("\n"), files=files, left_out=left_out)
    document = package.model_dump_json()
    described = " ".join(filter(None, [_text(keys, "description"), _text(keys, "when")]))
    skill = Skill(
        name=name,
        description=_shorten(described or _first_line(body)),
        kind=kind,
        source=shown,
        digest=hashlib.sha256(document.encode()).hexdigest(),
        size=len(body.encode()),
        files=len(files),
        hint=f"[{_text(keys, 'hint')}]" if isinstance(keys.get("hint"), list) else _text(keys, "hint"),
        arguments=_words(keys.get("arguments")),
        # A command with a description was written for agents, too.
        by_model=not _flag(keys, "disablemodelinvocation", default=False) and (kind == "skill" or bool(described)),
        by_person=_flag(keys, "userinvocable", default=True),
        agent=_text(keys, "agent"),
        apart=_text(keys, "context") == "fork" or _flag(keys, "subtask", default=False),
        model=_text(keys, "model"),
        notes=[note for key, note in _WITHOUT_EFFECT.items() if keys.get(key)],
    )
    return skill, document


def _read(path: Path) -> tuple[dict[str, Any], str]:
    text = read_text(path)
    if not has_frontmatter(text):
        return {}, text
    block, body, line = split_frontmatter(text)
    try:
        table, _ = parse_frontmatter(block, line)
    except Unusable:
        # It permits nothing, so unreadable parts can be ignored.
        table = {match[1]: match[2].strip("\"'") for match in _LINE.finditer(block)}
    return _normalise(table), body


def _normalise(table: Mapping[str, Any]) -> dict[str, Any]:
    plain = {re.sub(r"[-_\s]", "", as_text(key)).lower(): value for key, value in table.items()}
    return {_SPELLINGS.get(key, key): value for key, value in plain.items()}


def _text(keys: Mapping[str, Any], key: str) -> str:
    value = keys.get(key)
    if isinstance(value, list):
        value = " ".join(map(as_text, value))
    return "" if value is None or isinstance(value, Mapping) else " ".join(as_text(value).split())


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [as_text(one.get("name") if isinstance(one, Mapping) else one) for one in value][:20]
    return as_text(value).replace(",", " ").split()[:20] if value is not None else []


def _flag(keys: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = keys.get(key)
    return default if value is None else as_text(value).strip().lower() not in (*_FALSE, "")


def _first_line(body: str) -> str:
    return next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")[:200]


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1]}…"


def _refuse_outside(path: Path, boundary: Path | None) -> None:
    # A clone must not be able to send another file of the person's to a model.
    if boundary is not None and not resolve(path).is_relative_to(resolve(boundary)):
        raise Unusable("it is a link that leads out of the project", "Put the file there itself.")
