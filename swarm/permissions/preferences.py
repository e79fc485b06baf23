"""Reads the choices in settings files of other systems: the model, the first agent's type, effort, variables, switched-off skills.

The nearest file's choice holds, and one of a workspace only while its person trusts the workspace. What limits agents needs no trust.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from swarm.core.secrets import is_secret
from swarm.definitions.codex import read_codex_table
from swarm.definitions.fields import read_model
from swarm.definitions.foreign_keys import System, list_settings
from swarm.definitions.grants import Grant
from swarm.definitions.jsonc import read_table
from swarm.definitions.model import Effort
from swarm.definitions.sources import Problem, Unusable, enumerate_briefly, show, show_path, show_place
from swarm.permissions.shell.variables import CODE_VARIABLES

_KEYS: Mapping[System, Mapping[str, str]] = {
    "claude": {"model": "model", "agent": "agent", "effortLevel": "effort", "env": "variables"},
    "opencode": {"model": "model", "default_agent": "agent"},
    "codex": {"model": "model", "model_reasoning_effort": "effort"},
}
"""Keys of choices, each with the field here."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_SKILL_USES = ("on", "name-only", "user-invocable-only", "off")
_MAX_VARIABLES_BYTES = 64 * 1024


class Preferences(BaseModel):
    """The choices that hold."""

    model_config = ConfigDict(frozen=True)

    model: str = ""
    """The model of first agents whose type and order name none."""
    agent: str = ""
    """The type of first agents whose order names none."""
    effort: str = ""
    """The effort of types that name none."""
    variables: dict[str, str] = {}
    """Variables of commands."""
    models: tuple[tuple[str, ...], ...] = ()
    """Lists of models; an agent's must be in each."""
    skills: dict[str, str] = {}
    """Uses of skills by name: the strictest of `on`, `name-only`, `user-invocable-only`, `off`."""
    problems: tuple[Problem, ...] = ()
    grants: tuple[Grant, ...] = ()


def load_preferences(workspace: Path, home: Path, *, trusted: bool = False) -> Preferences:
    """Read the choices for a workspace; a file that cannot be read is reported by the readers of its rules."""
    reading = _ChoiceReader(workspace, home, trusted)
    places = [
        (path, system, path.is_relative_to(workspace) and workspace != home)
        for path, system in list_settings(workspace, home)
    ]
    # Claude Code's files have the last word in a workspace, and the workspace's over the person's.
    for path, system, inside in sorted(places, key=lambda place: (place[2], place[1] == "claude")):
        try:
            content = read_codex_table(path) if system == "codex" else read_table(path)
        except Unusable:
            continue
        reading.take(path, content, system, inside)
    return Preferences(
        **reading.chosen,
        models=tuple(reading.models),
        skills=reading.skills,
        problems=tuple(reading.problems),
        grants=tuple(reading.grants),
    )


class _ChoiceReader:
    def __init__(self, workspace: Path, home: Path, trusted: bool) -> None:
        self.workspace, self.home, self.trusted = workspace, home, trusted
        self.chosen: dict[str, Any] = {}
        self.models: list[tuple[str, ...]] = []
        self.skills: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.grants: list[Grant] = []

    def take(self, path: Path, content: Mapping[str, Any], system: System, inside: bool) -> None:
        """Take the choices of one file."""
        for key, field in _KEYS[system].items():
            value = self._read(path, key, content.get(key), _READERS[field])
            if value and self._may_choose(f"{key} {value}", path, inside):
                merges = isinstance(value, dict)
                self.chosen[field] = {**self.chosen.get(field, {}), **value} if merges else value
        if system == "claude":
            if models := self._read(path, "availableModels", content.get("availableModels"), _read_models):
                self.models.append(models)
            for name, use in (
                self._read(path, "skillOverrides", content.get("skillOverrides"), _read_skills) or {}
            ).items():
                self.skills[name] = max(use, self.skills.get(name, "on"), key=_SKILL_USES.index)

    def _may_choose(self, text: str, path: Path, inside: bool) -> bool:
        if inside:
            self.grants.append(Grant(text=text, source=show_place(path, self.workspace, self.home)))
        return self.trusted or not inside

    def _read(self, path: Path, key: str, value: Any, read: Callable[[Any, list[str]], Any]) -> Any:
        """Read one key; the unusable part of its value is a problem, which guards if the key does."""
        notes: list[str] = []
        found = None
        try:
            found = None if value is None else read(value, notes)
        except Unusable as error:
            notes.append(f"{error.message}. {error.remedy}")
        for note in notes:
            guards = key in ("availableModels", "skillOverrides")
            self.problems.append(
                Problem(
                    path=show_path(path),
                    message=f"`{key}`: {note.rstrip('.')}",
                    remedy="`swarm compat` has the meaning.",
                    guards=guards,
                )
            )
        return found


def _read_text(value: Any, notes: list[str]) -> str:
    if not isinstance(value, str):
        raise Unusable(f"{show(value)} is not text", "Write a name.")
    return value.strip()


def _read_model(value: Any, notes: list[str]) -> str:
    """Read a model; one of another provider's is left out, with a note."""
    warnings: list[str] = []
    model = read_model(_read_text(value, notes), warnings)
    if model == "inherit":
        notes.append(f"the model {show(value)} is not available here; --model, a type or SWARM_MODEL names it")
        return ""
    notes += warnings
    return model or ""


def _read_effort(value: Any, notes: list[str]) -> str:
    effort = _read_text(value, notes).lower()
    effort = "low" if effort in ("none", "minimal") else effort
    if effort not in get_args(Effort):
        raise Unusable(f"{show(value)} is unknown", f"Write one of {', '.join(get_args(Effort))}.")
    return effort


def _read_variables(value: Any, notes: list[str]) -> dict[str, str]:
    """Read variables for commands; secrets, and names that make programs run others, are left out."""
    if not isinstance(value, Mapping):
        raise Unusable("it is not a table", 'Write for example {"CI": "1"}.')
    given = {
        str(name): str(text)
        for name, text in value.items()
        if isinstance(text, (str, int, float)) and "\0" not in str(text)
    }
    left = [name for name in value if name not in given or _is_kept_back(name, given[name])]
    if left:
        notes.append(f"{enumerate_briefly(sorted(map(str, left)))} left out: a secret, or it changes what programs do")
    kept = {name: text for name, text in given.items() if name not in left}
    if sum(len(name) + len(text) for name, text in kept.items()) > _MAX_VARIABLES_BYTES:
        raise Unusable("it is larger than 64 KiB", "Shorten it.")
    return kept


def _is_kept_back(name: str, value: str) -> bool:
    found = is_secret(name, value) or CODE_VARIABLES.fullmatch(name) or name in ("PATH", "HOME", "IFS")
    return bool(found) or not _NAME.fullmatch(name)


def _read_models(value: Any, notes: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one.strip() for one in value):
        raise Unusable("it is not a list of models", 'Write for example ["sonnet", "haiku"].')
    return tuple(dict.fromkeys(re.sub(r"\[\w+\]$", "", one.strip().lower()) for one in value))


def _read_skills(value: Any, notes: list[str]) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(use in _SKILL_USES for use in value.values()):
        raise Unusable("it is not a table of skills", f"Write {{skill: use}}; uses are {', '.join(_SKILL_USES)}.")
    return {str(name).casefold(): use for name, use in value.items()}


_READERS: Mapping[str, Callable[[Any, list[str]], Any]] = {
    "model": _read_model,
    "agent": _read_text,
    "effort": _read_effort,
    "variables": _read_variables,
}
